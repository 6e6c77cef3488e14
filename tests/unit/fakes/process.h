/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A worker or files process, played by the test: its ends of cloisterd's channels, and a descriptor
 * in place of its pidfd, which becomes readable when the process "ends". SIGKILL ends it at once,
 * unless it is held. pidfd_send_signal(2) is replaced, so there is no real process. */

#include "common/wire/channel.h"

#include <stdbool.h>

struct fake_process {
	struct channel channel;
	int life;        /* closing it makes the pidfd readable; -1: the process has ended */
	bool held;       /* SIGKILL does not end it yet */
	unsigned killed; /* how often SIGKILL was sent */
	unsigned long pidfd_inode;
	struct fake_process *next;
};

/**
 * Starts a process that reads requests from @down and writes to @up, and owns both. Returns the
 * descriptor in place of its pidfd, which the caller owns.
 */
int fake_process_start(struct fake_process *process, int down, int up);

/** Ends the process: closes its channels and makes its pidfd readable. */
void fake_process_end(struct fake_process *process);

/** Ends the process, if it has not ended, and forgets it. */
void fake_process_done(struct fake_process *process);

/** Takes the next request to the process; the caller closes its descriptors. False: there is none.
 */
bool fake_process_hear(struct fake_process *process, struct channel_frame *ret);

/** Writes one frame to cloisterd. */
void fake_process_say(
	struct fake_process *process, uint8_t type, uint64_t call, struct text payload);
