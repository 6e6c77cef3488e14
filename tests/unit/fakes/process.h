/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process of a workspace, played by the test: its ends of the channels that cloisterd made, and a
 * descriptor that stands for its pidfd and becomes readable when the process "ends". SIGKILL ends
 * it at once, unless it is held. With pidfd_send_signal(2) replaced, no process is needed.
 */

#include "common/channel.h"

#include <stdbool.h>

struct fake_process {
	struct channel channel;
	int life;        /* closed: its pidfd is readable; -1: it has ended */
	bool held;       /* a kill does not end it yet */
	unsigned killed; /* how often SIGKILL was sent */
	unsigned long pidfd_inode;
	struct fake_process *next;
};

/** The process that reads requests from @down and writes to @up, which are taken. Returns what
 * stands for its pidfd, the caller's. */
int fake_process_start(struct fake_process *process, int down, int up);

/** It ends: its channels are closed and its pidfd is readable. */
void fake_process_end(struct fake_process *process);

/** Ends it where it has not, and forgets it. */
void fake_process_done(struct fake_process *process);

/** The next request that has come to it, whose descriptors the caller closes. False: none has. */
bool fake_process_hear(struct fake_process *process, struct channel_frame *ret);

/** It writes one frame. */
void fake_process_say(
	struct fake_process *process, uint8_t type, uint64_t call, struct text payload);
