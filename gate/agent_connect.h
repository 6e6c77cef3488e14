/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct gate;

/**
 * Connects to cloisterd's agent socket, without waiting. Returns the non-blocking socket, -EAGAIN
 * if cloisterd has no room now, or another -errno. agent_link.c, agent_socket.c
 */
int agent_connect(struct gate *gate);
