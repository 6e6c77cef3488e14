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

/** An empty table; reports go to @channel, HOME is @home and commands' groups are made in @cgroups
 * (all borrowed). 0 or -errno. */
int command_table_new(struct channel *channel, const char *home, struct command_cgroups *cgroups,
	struct command_table **ret);

/** Acts on one frame from cloisterd, taking its descriptors. 0, or -EBADMSG when cloisterd broke
 * the protocol. */
int command_table_handle(struct command_table *table, struct channel_frame *frame);

/** Reaps what has ended and reports it. To be called for every SIGCHLD. 0 or -errno when a report
 * could not be queued. */
int command_table_reap(struct command_table *table);
