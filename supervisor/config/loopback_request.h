/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether a curl, wget or nc reaches nothing but the loopback. Pure functions on hostile words;
 * used in cloisterd. They accept only a small part of each program's options, because another
 * option could name a second target, a proxy or a file of targets.
 */

#include "common/text.h"

#include <stdbool.h>

/**
 * Whether the plain words of a command (command_line_fn) are a request of one of these programs
 * whose targets, at least one, are all localhost, 127.0.0.0/8, [::1] or 0.0.0.0.
 */
bool is_loopback_request(struct text words);

/** Whether the shell line @line speaks of a proxy or of these programs' own configuration. */
bool loopback_is_redirected(struct text line);
