/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The form of the egress_ keys. cloister-egress reads and enforces them. cloisterd checks them with
 * the same parser (common/egress), so that it reports their mistakes too.
 */

#include "common/config/config_reader.h"
#include "common/egress/rules.h"

/* The kinds of words in these keys. */
enum egress_words {
	EGRESS_WORDS_ALLOW,    /* rules */
	EGRESS_WORDS_DENY,     /* rules */
	EGRESS_WORDS_NETWORKS, /* ADDRESS/PREFIX */
	EGRESS_WORDS_RESOLVER, /* ADDRESS[:PORT] */
	EGRESS_WORDS_UPSTREAM, /* http://HOST:PORT */
	EGRESS_WORDS_SECRET,   /* a line of common/egress/secret_line.h */
};

/* A tenant's rules, with the places where they were written. */
struct config_egress {
	struct rules allow, deny;
	struct networks private;
};

/**
 * Adds @word, which config_egress_check() has found good, as read at the reader's place.
 * Returns false with the reason in @why.
 */
bool config_egress_add(struct config_egress *egress, enum egress_words kind, const char *word,
	const struct config_reader *reader, char *why, size_t size);

/** Forgets the words of one kind: a later file replaces them. */
void config_egress_reset(struct config_egress *egress, enum egress_words kind);

/** Complains of a rule that can match nothing. */
void config_egress_finish(const struct config_egress *egress, struct config_reader *reader);

void config_egress_done(struct config_egress *egress);

/** Whether @word has the form; otherwise the reason is in @why, which has @size bytes. */
bool config_egress_check(enum egress_words kind, const char *word, char *why, size_t size);

/**
 * Adds the rule @word of a workspace's request, in the form of egress_allow, to @rules. A set
 * counts as all its rules. Returns false with the reason in @why.
 */
bool config_egress_ask(struct rules *rules, const char *word, char *why, size_t size);
