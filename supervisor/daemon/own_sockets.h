/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The sockets on which cloisterd listens: the service manager passed them, or cloisterd makes them.
 * Nobody is served before lock-down. Each function is a step of the start and ends the process if
 * it fails.
 */

struct daemon;

/** Takes or makes the agent socket and the control socket, if there is to be one. */
void own_sockets_bind(struct daemon *daemon);

/** Takes or makes the socket where cloister-egress connects, if there is to be one. */
void own_sockets_bind_egress(struct daemon *daemon);
