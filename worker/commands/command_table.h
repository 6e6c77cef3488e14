/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/channel.h"

/*
 * cloister-worker: the commands of one workspace, from the request that begins one to the report
 * that ends it. One place owns a command's state; what comes for a command that has already ended
 * is a failed look-up.
 */

struct command_cgroups;
struct command_table;
struct worker_setup;

/** An empty table; reports go to the pipe @report_fd, HOME, the filter's pass and the wall are
 * those of @setup, and commands' groups are made in @cgroups (all borrowed). 0 or -errno. */
int command_table_new(int report_fd, const struct worker_setup *setup,
	struct command_cgroups *cgroups, struct command_table **ret);

/** Acts on one frame from cloisterd, taking its descriptors. 0, or -EBADMSG when cloisterd broke
 * the protocol. */
int command_table_handle(struct command_table *table, struct channel_frame *frame);

/** Reaps the inits that have ended, and reports the end of a command whose init did not. To be
 * called for every SIGCHLD. 0 or -errno when a report could not be written. */
int command_table_reap(struct command_table *table);

/** What can be done while nothing else is to do: makes inits ahead. Returns after how many
 * milliseconds of nothing command_table_idle is due; -1: never. */
int command_table_rest(struct command_table *table);

/** Gives up what is only kept for speed. */
void command_table_idle(struct command_table *table);
