/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stops all commands of the workspace for a while, so that its files can be measured while no
 * command writes. It ends when cloisterd says so or its time is over. If the worker dies, its
 * commands die too. Commands that are killed meanwhile end at once. Runs in the worker.
 */

#include <stdbool.h>
#include <stdint.h>

struct channel_frame;
struct command_cgroups;

struct command_pause_state {
	int report_fd;
	struct command_cgroups *cgroups;
	bool on, told; /* told: COMMAND_PAUSED was sent */
	uint64_t number;
	int64_t until, step_ms; /* until as now_ms() of the caller */
};

/** Takes COMMAND_PAUSE. Returns 0, -EBADMSG, or -errno if a report could not be written. */
int command_pause_handle(
	struct command_pause_state *pause, const struct channel_frame *frame, int64_t now_ms);

/**
 * Looks whether all commands are stopped, and whether the time is over. Call it again after the
 * milliseconds in @ret, -1: that need not be. Returns 0, or -errno if a report could not be
 * written.
 */
int command_pause_look(struct command_pause_state *pause, int64_t now_ms, int *ret);
