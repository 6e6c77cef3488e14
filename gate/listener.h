/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The gate's listening sockets: whom it accepts, and how many. */

#include "gate/request_state.h"

struct gate_listeners;

/** Binds all of the configuration's addresses. Returns 0, or -errno with the address in @ret_at. */
int gate_listeners_open(struct gate *gate, struct gate_listeners **ret, const char **ret_at);

/**
 * Begins to accept: @take gets each socket (its own from then on) with its connection, and whether
 * TLS is spoken on it. It returns false if it has closed the socket.
 */
int gate_listeners_begin(struct gate_listeners *listeners,
	bool (*take)(struct gate *gate, struct gate_conn *conn, bool tls));

/** A connection has begun its wait for a head; has its head. */
void gate_conn_await(struct gate_conn *conn);
void gate_conn_has_head(struct gate_conn *conn);

/** A connection is over: frees it, and accepts again where that was paused. */
void gate_conn_free(struct gate_conn *conn);

/** The connection of the proxy: @text is the address for which it speaks. */
bool gate_peer_parse(const char *text, struct gate_peer *ret);
