/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The notes of an ended command: failed attempts, such as at the network, and background processes
 * that ended with it. Runs in cloisterd; the report and the output are hostile, and decide about
 * notes only.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

struct command_io;
struct notes;
struct observation;
struct tenant;

/** Whether the end of what the command of @observation wrote has one of @sentences, NULL at the
 * end. */
bool command_ends_with(const struct observation *observation, const char *const *sentences);

/**
 * Adds notes about @observation, whose command and io are set. @offered: the set that the client is
 * offered. @has_input: its stdin was given.
 */
void command_notes_add(const struct tenant *tenant, uint64_t offered,
	const struct observation *observation, bool has_input, struct notes *notes);

/**
 * Adds notes about a command in the background that goes on as a session: @command is its text.
 * @has_input: it was given all its input at the start.
 */
void command_notes_go_on(
	const struct command_io *io, struct text command, bool has_input, struct notes *notes);
