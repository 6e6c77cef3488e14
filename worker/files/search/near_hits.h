/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The matches in the files near a searched directory, in a search job of the files process. These
 * files are searched before those further down, and their matches are kept so that all are told in
 * the order of names.
 */

#include "worker/files/reply.h"

/* At most LIMIT_SEARCH_RESULTS; begins as {0}. */
struct near_hits {
	struct near_hit **hits;
	size_t count, size;
	size_t sent; /* of these */
};

void near_hits_done(struct near_hits *near);

/** Keeps a copy of @match, which comes after those before. Returns 0 or -ENOMEM. */
int near_hits_keep(struct near_hits *near, const struct files_match *match);

/**
 * Sends to @reply those that come before the file @path, or all if @path is NULL. Returns 0 or the
 * error of @reply.
 */
int near_hits_send(struct near_hits *near, struct reply *reply, const struct text *path);
