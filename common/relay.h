/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Copies bytes between a client and a server until both have said all: in a child of the worker,
 * and in one of `cloister forward`. Both ends may be hostile.
 */

/**
 * Relays between the stream sockets @client and @server, both O_NONBLOCK, until each has closed its
 * sending half and all of that is passed on, one of them is gone, or @idle_ms have passed without a
 * byte either way (-1: any time). The end of one direction is passed on by shutdown(2). Returns 0
 * if both have said all, -ETIMEDOUT, or another -errno. Its buffers are static: a process relays
 * once.
 */
int relay(int client, int server, int idle_ms);
