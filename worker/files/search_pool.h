/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-files, in a job: the threads of one search. The caller walks the tree and adds files in
 * order; they are searched by as many threads as help, the caller among them, and reported in the
 * order they were added, whatever the threads do. Threads that cannot be had are done without.
 */

#include "worker/files/pattern_scan.h"
#include "worker/files/reply.h"
#include "worker/files/tree_walk.h"

struct search_pool;

/* What ends a search before the last file. */
enum {
	SEARCH_POOL_FULL = 1,      /* max_results lines were reported, and there is one more */
	SEARCH_POOL_LISTENER_GONE, /* nobody takes what is reported */
};

struct search_pool_end {
	int result; /* 0, SEARCH_POOL_*, or -errno: -E2BIG when a limit of the pattern was reached
		     */
	uint64_t count;
	uint64_t files_searched;
	uint64_t files_skipped; /* with the directories that the walk could not read up to there */
};

/** A pool that reports to @reply. All are borrowed. NULL: out of memory. */
struct search_pool *search_pool_new(
	struct scan_pattern *pattern, uint64_t max_results, struct reply *reply);

/** Adds a file that the walk has come to. 0, SEARCH_POOL_FULL or another end of search_pool_end, or
 * -errno. */
int search_pool_add(struct search_pool *pool, const struct walk_entry *entry);

/** Adds the file @fd (borrowed), whose path is @path. It is the only one. */
int search_pool_add_single(struct search_pool *pool, int fd, struct text path);

/** Waits for all that was added, and says how it ended. */
void search_pool_finish(struct search_pool *pool, struct search_pool_end *ret_end);

/** Stops its threads. */
void search_pool_free(struct search_pool *pool);
