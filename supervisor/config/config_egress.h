/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The form of the egress_ keys. cloister-egress reads and follows them by itself; cloisterd checks
 * them by the same parser (common/egress), so that a mistake is named where the others are.
 */

#include <stdbool.h>
#include <stddef.h>

/* The kinds of words in these keys. */
enum egress_words {
	EGRESS_WORDS_ALLOW,    /* rules */
	EGRESS_WORDS_DENY,     /* rules */
	EGRESS_WORDS_NETWORKS, /* ADDRESS/PREFIX */
	EGRESS_WORDS_RESOLVER, /* ADDRESS[:PORT] */
	EGRESS_WORDS_UPSTREAM, /* http://HOST:PORT */
	EGRESS_WORDS_SECRET,   /* a line of common/egress/secret_line.h */
};

/** Whether @word has the form; otherwise the reason is in @why, which has @size bytes. */
bool config_egress_check(enum egress_words kind, const char *word, char *why, size_t size);
