/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A client's connection to the proxy of its cell, from its acceptance to its end. */

#include "egress/egress.h"

/** Begins with a non-blocking socket that was accepted at @door, and takes it. */
void conn_begin(const struct door *door, int client);

/** Ends the connection at once. */
void conn_abort(struct conn *conn);

/**
 * The rules may have changed: connections that they no longer allow are refused, or ended at once.
 */
void conn_renew(struct conn *conn);

/** cloisterd has read everything that was sent before egress_wait(). */
void conn_told(struct conn *conn);

/** Returns the next connection of the same cell. */
struct conn *conn_next(const struct conn *conn);

/** Returns the number of the call that it belongs to, or 0. */
uint64_t conn_call(const struct conn *conn);
