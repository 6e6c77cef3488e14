/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* libmicrohttpd on the loop: requests from their head to the end of their answer. */

struct gate;
struct gate_listeners;

/**
 * Starts the daemons, for TLS with certificate and key as PEM text (NULL: without TLS). Returns 0
 * or -EINVAL if they do not fit.
 */
int gate_server_new(struct gate *gate, const char *certificate, const char *key);

/**
 * New connections get this certificate; those that are open keep theirs. Returns like
 * gate_server_new(), and the former certificate stays if it fails.
 */
int gate_server_renew(struct gate *gate, const char *certificate, const char *key);

/** Serves what @listeners accept. */
int gate_server_begin(struct gate_listeners *listeners);

/** Ends the requests of keys that are not valid any more. */
void gate_server_check_keys(struct gate *gate);
