/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/wire/channel.h"

/*
 * The commands of one workspace in the worker, from the request that begins one to the report of
 * its end. Only this file owns a command's state. A request for a command that has ended finds no
 * entry and is ignored.
 */

struct command_cgroups;
struct command_table;
struct worker_setup;

/**
 * Makes an empty table. Reports go to the pipe @report_fd. HOME, the filter's cookie and
 * the Landlock rules come from @setup, and commands' cgroups are made in @cgroups; all are
 * borrowed. Returns 0 or -errno.
 */
int command_table_new(int report_fd, const struct worker_setup *setup,
	struct command_cgroups *cgroups, struct command_table **ret);

/**
 * Acts on one frame from cloisterd and takes its descriptors. Returns 0, or -EBADMSG if cloisterd
 * broke the protocol.
 */
int command_table_handle(struct command_table *table, struct channel_frame *frame);

/**
 * Reaps the inits that have ended, and reports the end of a command whose init did not. Call it for
 * every SIGCHLD. Returns 0, or -errno if a report could not be written.
 */
int command_table_reap(struct command_table *table);

/**
 * Does the work between two events: checks a pause, creates inits ahead. Returns the milliseconds
 * without an event after which command_table_idle() is due, or -1 for never.
 */
int command_table_rest(struct command_table *table);

/**
 * Does periodic work: ends the waiting inits, which exist only for speed, and checks whether
 * commands wait for input. Returns 0, or -errno if a report could not be written.
 */
int command_table_idle(struct command_table *table);
