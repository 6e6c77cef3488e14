/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Why cloisterd refuses a request, in one form for the service, admission, workspaces and requests.
 * A function that may refuse returns TOOL_OK, or an error code after filling in its caller's
 * refusal. The caller releases the refusal with refusal_done().
 */

#include "common/errors.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct refusal {
	enum tool_error error;
	const char *sentence;   /* static; NULL: the error code's own sentence */
	char *message;          /* malloc'ed; used in place of the sentence, unless it is NULL */
	int64_t retry_after_ms; /* 0: no time is given */
	const char *node;       /* with MOVED: the host to go to, the service's; otherwise NULL */
	bool exists;            /* with MOVED: the workspace is here, with its files */
};

/**
 * Like refusal_set(), with a formatted sentence. If memory is out, the error code's own is used.
 */
enum tool_error __attribute__((format(printf, 3, 4)))
refusal_format(struct refusal *ret, enum tool_error error, const char *format, ...);

/** Returns the sentence for the client, borrowed. */
const char *refusal_text(const struct refusal *refusal);

/** Frees what @refusal holds. It can be filled in again. */
static inline void refusal_done(struct refusal *refusal)
{
	free(refusal->message);
	*refusal = (struct refusal){0};
}

/**
 * Fills in @ret with the static @sentence, or NULL for the error code's own. Returns @error, which
 * is not TOOL_OK; it is inline so that static analyzers see that.
 */
static inline enum tool_error refusal_set(
	struct refusal *ret, enum tool_error error, const char *sentence)
{
	refusal_done(ret);
	ret->error = error;
	ret->sentence = sentence;
	return error;
}
