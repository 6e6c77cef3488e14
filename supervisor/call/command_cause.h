/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds out why a command ended that cloisterd did not cancel, from its shell's status and its
 * cgroup's counters.
 */

#include "common/wire_commands.h"
#include "supervisor/call/ended_by.h"

#include <stddef.h>

struct tenant_limits;

/**
 * Returns the cause. A command that succeeded although it met a limit did not end because of it:
 * memory and pids are causes only if the shell was killed or failed.
 */
enum ended_by command_cause(const struct command_ended *ended);

/**
 * Writes to @buffer what to do about @cause, given @limits. Returns NULL for a cause that needs no
 * advice.
 */
const char *command_cause_sentence(
	enum ended_by cause, const struct tenant_limits *limits, char *buffer, size_t size);
