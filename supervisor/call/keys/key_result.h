/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The result of a call with a key, as the journal keeps it and as another call is given it; and
 * that of a preview, which is answered when its changes are known. */

#include "common/errors.h"
#include "common/text.h"

#include <stdbool.h>
#include <stdlib.h>

struct observation;

/* The result of a call in the two forms that are kept, borrowed from buffer. */
struct key_result {
	struct text json;  /* the observation */
	struct text model; /* the same for a model, as a string of JSON; empty: not kept */
	enum tool_error error;
	bool base64;
	char *buffer; /* malloc'ed, or NULL */
};

/**
 * Writes @observation in both forms, as far as it has them, of at most @max bytes each, which
 * empties it. Returns 0 and a result, to be freed with key_result_done(); -EMSGSIZE; or -ENOMEM.
 */
int key_result_write(const struct observation *observation, size_t max, struct key_result *ret);

static inline void key_result_done(struct key_result *result)
{
	free(result->buffer);
	*result = (struct key_result){0};
}
