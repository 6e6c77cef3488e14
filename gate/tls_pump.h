/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Copies bytes between an upgraded connection with TLS and a socket that its face gets. */

#include <gnutls/gnutls.h>
#include <stdint.h>

struct event_base;
struct tls_pump;

/**
 * Begins to copy between @session, whose socket is @net, and a new socket. Both stay the caller's,
 * who uses neither for data until tls_pump_free(). An end is passed on, either way.
 * Returns 0 and the new socket, non-blocking, which the caller closes; or -errno.
 */
int tls_pump_new(struct event_base *base, gnutls_session_t session, int net,
	struct tls_pump **ret_pump, int *ret_fd);

/**
 * The caller has closed its socket: sends what it has written, for as long as the client takes some
 * of it every @idle_ms. Then @done is called once, also from within this call.
 */
void tls_pump_finish(
	struct tls_pump *pump, uint64_t idle_ms, void (*done)(void *context), void *context);

/** Ends it, without a call of done(). */
void tls_pump_free(struct tls_pump *pump);
