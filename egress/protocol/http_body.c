// SPDX-License-Identifier: Apache-2.0
/* Runs in cloister-egress. Pure functions on a client's bytes, of which none is trusted. */
#include "egress/protocol/http_body.h"

#include <errno.h>

#define SIZE_DIGITS 15 /* so that a chunk's size fits 64 bits */

enum {
	SIZE,    /* hexadecimal digits of a chunk's size */
	SIZE_LF, /* after their CR */
	DATA,    /* the chunk's bytes */
	DATA_CR, /* the line end after them */
	DATA_LF, /* after its CR */
	LAST_CR, /* the empty line after the chunk of size 0 */
	LAST_LF, /* after its CR */
	OVER,
};

bool http_body_is_over(const struct http_body *body)
{
	return body->framing == HTTP_CHUNKED ? body->state == OVER : body->left == 0;
}

static int take_digit(struct http_body *body, char c)
{
	unsigned value = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
			 : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
			 : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
						: 16;

	if (value == 16 || body->digits == SIZE_DIGITS)
		return -EBADMSG;
	body->digits++;
	body->left = body->left * 16 + value;
	return 0;
}

static int expect(struct http_body *body, char c, char expected, uint8_t next)
{
	if (c != expected)
		return -EBADMSG;
	body->state = next;
	return 0;
}

/* Takes a byte that is none of a chunk's data. */
static int take_byte(struct http_body *body, char c)
{
	switch (body->state) {
	case SIZE:
		return c == '\r' && body->digits > 0 ? expect(body, c, '\r', SIZE_LF)
						     : take_digit(body, c);
	case SIZE_LF:
		body->digits = 0;
		return expect(body, c, '\n', body->left > 0 ? DATA : LAST_CR);
	case DATA_CR:
		return expect(body, c, '\r', DATA_LF);
	case DATA_LF:
		return expect(body, c, '\n', SIZE);
	case LAST_CR:
		return expect(body, c, '\r', LAST_LF);
	default:
		return expect(body, c, '\n', OVER);
	}
}

static size_t take_data(struct http_body *body, size_t n)
{
	if (n > body->left)
		n = (size_t)body->left;
	body->left -= n;
	return n;
}

ssize_t http_body_take(struct http_body *body, struct text bytes)
{
	size_t at = 0;

	if (body->framing != HTTP_CHUNKED)
		return (ssize_t)take_data(body, bytes.len);
	while (at < bytes.len && body->state != OVER) {
		if (body->state == DATA) {
			at += take_data(body, bytes.len - at);
			if (body->left == 0)
				body->state = DATA_CR;
		} else if (take_byte(body, bytes.data[at++]) < 0) {
			return -EBADMSG;
		}
	}
	return (ssize_t)at;
}
