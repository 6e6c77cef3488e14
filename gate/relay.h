/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Copies bytes between two sockets, each as fast as the other side reads. */

#include "common/text.h"

#include <stdbool.h>

struct event_base;
struct gate_relay;

/**
 * Relays between the non-blocking stream sockets @a and @b, which stay the caller's. The end of one
 * direction is passed on by shutdown(2). @ended is called once: when both directions have ended, or
 * when one socket has failed. It frees the relay. Returns NULL if memory is out.
 */
struct gate_relay *gate_relay_new(
	struct event_base *base, int a, int b, void (*ended)(void *context), void *context);

/** Sends @data to @b, before what comes from @a. Returns 0 or -ENOMEM. */
int gate_relay_send(struct gate_relay *relay, struct text data);
/** Sends @data to @a, before what comes from @b. Returns 0 or -ENOMEM. */
int gate_relay_answer(struct gate_relay *relay, struct text data);

/** Ends it, without a call of ended(). */
void gate_relay_free(struct gate_relay *relay);
