/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A body of multipart/form-data (RFC 7578), read by libmicrohttpd as it comes: of a part, it keeps
 * the names alone.
 */

#include "common/text.h"

#include <stdint.h>

struct gate_form;
struct gate_request;

struct gate_part {
	const char *name, *filename; /* of the form's field; NULL: it has none */
	uint64_t offset;             /* of data in the part; 0: a part begins, maybe an empty one */
	struct text data;
};

/** Makes the reader of @request's body. NULL: its Content-Type is no form's, or there is no memory.
 */
struct gate_form *gate_form_new(struct gate_request *request,
	void (*each)(void *context, const struct gate_part *part), void *context);

/** Reads the next bytes of the body. Returns 0, or -EBADMSG if they are no form. */
int gate_form_take(struct gate_form *form, struct text data);

/** Ends and frees the form. Returns 0, or -EBADMSG if its end is missing. NULL is allowed. */
int gate_form_end(struct gate_form *form);
