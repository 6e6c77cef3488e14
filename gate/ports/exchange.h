/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Passes a request to a server of a workspace, and its answer back; after 101, bytes both ways. The
 * gate holds at most 64 KiB of a request's body and 640 KiB of an answer.
 */

#include "gate/e2b/op.h"

#include <stdbool.h>
#include <stdint.h>

#define EXCHANGE_HOST_BYTES 272

struct exchange_to {
	const char *target; /* path and query, of the request */
	char prefix[48];    /* what the client has before them; "": nothing */
	uint16_t port;
	bool has_name;      /* the request's host is the server's */
	bool shares_origin; /* fields.h */
};

/**
 * Makes the exchange of @op, of which nothing has been asked yet, and holds the body. Returns
 * false if the request has been answered.
 */
bool exchange_new(struct op *op, const struct exchange_to *to);

/** Connects to the port of the op's sandbox, and begins. @host: what the server is told; "": as
 * usual.
 */
void exchange_begin(struct op *op, const char *host);
uint16_t exchange_port(const struct op *op);
