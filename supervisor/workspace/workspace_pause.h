/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stops a workspace's commands while it is measured, so that no command can move files out of the
 * measurement's way. The worker stops them, if each has a cgroup (worker/commands/command_pause.h).
 * Calls that write wait meanwhile: a client could move files as well. Runs in cloisterd; a worker
 * that was taken over can say that its commands are stopped.
 */

#include <stdbool.h>
#include <stdint.h>

struct channel_frame;
struct timer;
struct workspace;

/** Has the files process measure the workspace, if it is there. Returns whether it is. */
bool workspace_measure(struct workspace *workspace, bool prompt);

void workspace_pause_init(struct workspace *workspace);

/**
 * Has the workspace measured while its commands are stopped, for @ms at most. If they cannot be
 * stopped, it is measured nevertheless.
 */
void workspace_pause_begin(struct workspace *workspace, int64_t ms);

/** Ends it, if there is one. Returns whether the files process has measured all the time. */
bool workspace_pause_end(struct workspace *workspace);

/** A call that writes has ended. */
void workspace_pause_advance(struct workspace *workspace);

/** Takes COMMAND_PAUSED. Returns 0 or -EBADMSG. */
int workspace_pause_told(struct workspace *workspace, const struct channel_frame *frame);

/**
 * Returns how long its commands have been stopped for measurements. Commands neither read, write
 * nor handle signals meanwhile, so this time does not count against their limits.
 */
int64_t workspace_stopped_ns(const struct workspace *workspace);

/**
 * Whether @timer, which has expired, came too early because the commands have been stopped since
 * *@stopped_ns. If so, it is set again for as long as they were stopped, and *@stopped_ns is
 * brought up to date.
 */
bool workspace_were_stopped(
	const struct workspace *workspace, int64_t *stopped_ns, struct timer *timer);
