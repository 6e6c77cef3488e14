/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Connections of clients to ports of a workspace. Runs in cloisterd, which gives each connection to
 * the workspace's worker and keeps its number, until the worker reports its end or is lost.
 */

#include <stdbool.h>
#include <stdint.h>

struct channel_frame;
struct workspace;

/** Whether @workspace or its tenant has as many as it may. */
bool workspace_forwards_full(const struct workspace *workspace);

/** Whether the worker of @workspace takes forwards now. */
bool workspace_serves_forwards(const struct workspace *workspace);

/**
 * Hands a client's connection @fd, which is taken also on failure, to the worker, to be connected
 * to @port of ::1 (@ipv6) or 127.0.0.1 inside. Returns 0 or -ENOMEM.
 */
int workspace_forward(struct workspace *workspace, uint16_t port, bool ipv6, int fd);

/** Takes COMMAND_FORWARD_ENDED. Returns 0 or -EBADMSG. */
int workspace_forward_ended(struct workspace *workspace, const struct channel_frame *frame);

/** The worker ends, and all of its forwards with it. */
void workspace_end_forwards(struct workspace *workspace);
