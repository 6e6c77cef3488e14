/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the body of a request ends, read in the one strict way: RFC 9112, 6 and 7. Only bytes that
 * certainly belong to the request are sent to its host, so that they cannot contain a second
 * request.
 */

#include "common/text.h"

#include <stdint.h>
#include <sys/types.h>

#define HTTP_LENGTH_DIGITS 18 /* of Content-Length, so that it fits 64 bits */

enum http_framing {
	HTTP_NO_BODY,
	HTTP_LENGTH,  /* by Content-Length */
	HTTP_CHUNKED, /* by chunks, without extensions and trailer fields */
};

struct http_body {
	uint8_t framing; /* enum http_framing */
	uint8_t state;   /* of the chunks, http_body.c; 0 at the beginning */
	uint8_t digits;  /* of a chunk's size */
	uint64_t left;   /* bytes that are left of the body, or of the chunk */
};

/** Whether all of the body has been taken. */
bool http_body_is_over(const struct http_body *body);

/**
 * Takes the next @bytes of the connection. Returns how many of them belong to the body, which are
 * all unless its end was reached, or -EBADMSG.
 */
ssize_t http_body_take(struct http_body *body, struct text bytes);
