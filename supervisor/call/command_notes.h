/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The notes of a command that has ended: what it tried in vain, and which processes ended with it.
 * Runs in cloisterd; the report and the output are hostile, and decide about notes only.
 */

#include <stdbool.h>

struct notes;
struct observation;
struct tenant;

/** Adds notes about @observation, whose command and io are set. @has_input: its stdin was given. */
void command_notes_add(const struct tenant *tenant, const struct observation *observation,
	bool has_input, struct notes *notes);
