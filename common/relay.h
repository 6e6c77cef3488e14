/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Copies bytes between a client and a server until both have closed: in a child of the worker, and
 * in a child of `cloister forward`. Both ends may be hostile.
 */

/**
 * Relays between the stream sockets @client and @server, both O_NONBLOCK. It ends when each has
 * closed its sending half and all bytes are passed on, when one of them is gone, or after @idle_ms
 * without a byte either way (-1: never). The end of one direction is passed on by shutdown(2).
 * Returns 0 if both have said all, -ETIMEDOUT, or another -errno. Its buffers are static: a process
 * relays once.
 */
int relay(int client, int server, int idle_ms);
