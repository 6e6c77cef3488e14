/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Why cloisterd does not do what it is asked: one form for the service, admission, workspaces and
 * requests. A function that may refuse returns TOOL_OK, or the code with which it has filled in a
 * refusal of its caller's; a refusal is released with refusal_done().
 */

#include "common/errors.h"

#include <stdint.h>

struct refusal {
	enum tool_error error;
	const char *sentence;   /* static; NULL: that of the error */
	char *message;          /* malloc'ed: stands in place of the sentence, if there is one */
	int64_t retry_after_ms; /* 0: not said */
};

/** refusal_set() with a formatted sentence; without memory it is that of the error. */
enum tool_error __attribute__((format(printf, 3, 4)))
refusal_format(struct refusal *ret, enum tool_error error, const char *format, ...);

/** What to tell the client. Borrowed. */
const char *refusal_text(const struct refusal *refusal);

/** Frees what @refusal holds; it can be filled in again. */
void refusal_done(struct refusal *refusal);

/** Fills in @ret with a static @sentence, or NULL for that of the error. Returns @error, which is
 * not TOOL_OK: an analyzer sees it here. */
static inline enum tool_error refusal_set(
	struct refusal *ret, enum tool_error error, const char *sentence)
{
	refusal_done(ret);
	ret->error = error;
	ret->sentence = sentence;
	return error;
}
