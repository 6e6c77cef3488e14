/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The sockets on which cloisterd listens: the service manager passed them, or cloisterd makes them.
 * Nobody is served before lock-down. Each function is a step of the start and ends the process if
 * it fails.
 */

struct daemon;

/** Takes or makes the agent socket and, if configured, the control socket. */
void own_sockets_bind(struct daemon *daemon);

/** Takes or makes the socket for cloister-egress, if configured. */
void own_sockets_bind_egress(struct daemon *daemon);
