/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The result of a call with a key, as the journal keeps it and as another call is given it; and
 * that of a preview, which is answered when its changes are known. */

#include "common/errors.h"
#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Numbers of keys and of their answers since cloisterd started, and the present ones. */
struct keys_state {
	uint64_t keys, replayed, joined, conflicts, unknown, resolved;
};

/* The result of a call in the two forms that are kept, borrowed from buffer. */
struct key_result {
	struct text json;  /* the observation */
	struct text model; /* the same for a model, as a string of JSON; empty: not kept */
	enum tool_error error;
	bool base64;
	char *buffer; /* malloc'ed, or NULL */
};

/** Frees what model_text_keep() has stored. */
static inline void key_result_done(struct key_result *result)
{
	free(result->buffer);
	*result = (struct key_result){0};
}
