/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Why a command ended that nobody had told to: from its shell's status and what its cgroup counted.
 */

#include "common/wire_commands.h"
#include "supervisor/call/ended_by.h"

#include <stddef.h>

struct tenant_limits;

/**
 * The cause. A command that came to a good end in spite of a limit it met did not end by it: memory
 * and pids are only causes where the shell was killed or failed.
 */
enum ended_by command_cause(const struct command_ended *ended);

/** What to do about @cause, which came of @limits, written to @buffer; NULL for one that needs no
 * advice. */
const char *command_cause_sentence(
	enum ended_by cause, const struct tenant_limits *limits, char *buffer, size_t size);
