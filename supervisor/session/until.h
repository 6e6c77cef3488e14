/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The conditions that a reader of a background command's output waits for: literal bytes, silence,
 * a port that listens, the end. Runs in cloisterd. The output is hostile, and so may the conditions
 * be: the search is Knuth's, Morris's and Pratt's, which looks at each byte at most twice whatever
 * it is, and no expression is compiled.
 *
 * The text is found in one stream; bytes of the other stream may come between.
 */

#include "common/limits.h"
#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNTIL_STREAMS 2

enum until_kind {
	UNTIL_CONTAINS, /* a stream has written the bytes */
	UNTIL_EXIT,     /* the command has ended, and all its processes are gone */
	UNTIL_QUIET,    /* it has written nothing for quiet_ms */
	UNTIL_PORT,     /* it listens at a port */
};

struct until {
	enum until_kind kind;
	int64_t quiet_ms, port;
	bool after_output;             /* UNTIL_QUIET: only once there is output that is new */
	size_t len;                    /* of the bytes to be found */
	size_t matched[UNTIL_STREAMS]; /* how many of the bytes each stream ends with */
	uint16_t next[LIMIT_SESSION_UNTIL_BYTES];
	char bytes[LIMIT_SESSION_UNTIL_BYTES];
};

_Static_assert(LIMIT_SESSION_UNTIL_BYTES <= UINT16_MAX, "the type of next");

/** Waits for @bytes, 1 to LIMIT_SESSION_UNTIL_BYTES of them, which are copied. */
void until_contains(struct until *until, struct text bytes);

/**
 * Takes the next output of @stream. Returns whether the bytes have been found; the search is over
 * then.
 */
bool until_feed(struct until *until, unsigned stream, struct text output);
