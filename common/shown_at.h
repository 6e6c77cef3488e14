/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The path at which commands see a managed workspace. Clients choose it, so cloisterd and the
 * spawner both check it here.
 */

#include "common/text.h"

#include <stdbool.h>

/* Where a managed workspace is seen whose client has chosen nothing. */
#define SHOWN_AT_DEFAULT "/workspace"

/**
 * Whether a managed workspace may be shown at @path: an absolute path of at most
 * LIMIT_SHOWN_AT_BYTES bytes, of names of letters, digits, ".", "_" and "-" that are neither "."
 * nor
 * "..". It is neither "/", nor at or below a directory that a cell has of its own: /bin, /boot,
 * /dev, /etc, /lib, /lib32, /lib64, /libx32, /proc, /run, /sbin, /sys, /tmp, /usr, /var, or
 * /home/agent, where HOME may be.
 */
bool shown_at_is_valid(struct text path);
