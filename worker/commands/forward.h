/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Connections of clients to ports of the workspace. For each the worker forks a process without
 * privileges that connects to the port, copies bytes (common/relay.h) and exits: it is charged to
 * the workspace, and killed with it. It is cloister's own code, of the workspace's id; commands do
 * not see it, since it is outside their pid namespaces.
 */

#include "common/limits.h"
#include "common/wire/channel.h"

#include <stdbool.h>
#include <sys/types.h>

struct forwards {
	int report_fd;
	struct {
		pid_t pid; /* 0: unused */
		uint64_t number;
	} list[LIMIT_FORWARDS_PER_WORKSPACE];
};

/**
 * Acts on COMMAND_FORWARD, whose socket is taken. A forward that cannot begin has ended at once.
 * Returns 0, -EBADMSG if cloisterd broke the protocol, or another -errno if the end could not be
 * reported.
 */
int forward_begin(struct forwards *forwards, struct channel_frame *frame);

/**
 * The child @pid has ended. Reports the end if it was one of these. Returns 1 if it was, 0 if not,
 * or -errno.
 */
int forward_reaped(struct forwards *forwards, pid_t pid);
