/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The threads of one search job of the files process. The caller walks the tree and adds files in
 * order, first those near the searched directory, then the others. The threads, and the caller too,
 * search them; which matches are reported depends on the order in which files were added, and they
 * are reported in the order of names. If threads cannot be created, the search goes on without
 * them.
 */

#include "worker/files/reply.h"
#include "worker/files/search/pattern_scan.h"
#include "worker/files/walk/tree_walk.h"

struct search_pool;

/* Reasons to end a search before the last file. */
enum {
	SEARCH_POOL_FULL = 1,      /* max_results lines were reported, and there are more */
	SEARCH_POOL_LISTENER_GONE, /* cloisterd no longer reads the results */
};

struct search_pool_end {
	int result; /* 0, SEARCH_POOL_*, or -errno: -E2BIG when a limit of the pattern was reached
		     */
	uint64_t count;
	uint64_t files_searched;
	uint64_t files_utf16;   /* of these: text in UTF-16 */
	uint64_t files_skipped; /* including directories that the walk could not read */
};

struct search_wanted {
	uint64_t max_results;
	uint64_t offset;  /* matches that are passed over first, in the order of their files */
	uint32_t context; /* lines on each side of a match that are reported too */
};

/** Returns a pool that reports to @reply, or NULL if memory is out. All arguments are borrowed. */
struct search_pool *search_pool_new(
	struct scan_pattern *pattern, const struct search_wanted *wanted, struct reply *reply);

/**
 * Adds a file from the walk; those that are @near the searched directory come first. Returns 0,
 * SEARCH_POOL_FULL or another result of search_pool_end, or -errno.
 */
int search_pool_add(struct search_pool *pool, const struct walk_entry *entry, bool near);

/** Adds the file @fd (borrowed), whose path is @path. It must be the only one. */
int search_pool_add_single(struct search_pool *pool, int fd, struct text path);

/** Waits until all files are searched, and stores how the search ended. */
void search_pool_finish(struct search_pool *pool, struct search_pool_end *ret_end);

/** Stops the threads and frees the pool. */
void search_pool_free(struct search_pool *pool);
