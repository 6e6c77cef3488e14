/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The socket at which a cell's commands reach cloister-egress. The child that becomes the worker
 * makes it in the cell's new network namespace before it executes its program, when no other code
 * has run there, and gives it to the spawner. unix(7), network_namespaces(7).
 */

#include <stdint.h>

/** In the child: makes a socket that listens on @port of every address, and sends it over @to.
 * Returns 0 or -errno. */
int cell_proxy_make(uint32_t port, int to);

/** In the spawner, when the child has reported that it is ready: takes the socket that it has sent
 * over @from. Returns 0 or -errno. */
int cell_proxy_take(int from, int *ret_socket);
