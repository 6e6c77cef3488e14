/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-files, in a job: some files of one directory, and what was found in them. The walk fills
 * a batch, one thread searches it, and whoever's turn it is reports it (search_pool.h).
 *
 * Files are read, not mapped: a tenant that truncates a mapped file kills its reader, and read(2)
 * into a warm buffer is faster.
 */

#include "common/text.h"
#include "worker/files/pattern_scan.h"

#include <pthread.h>
#include <stdatomic.h>

#define BATCH_FILES 32

/* A line that was found. */
struct batch_hit {
	size_t file; /* index of its file */
	uint64_t line;
	size_t text_at, text_len; /* in the batch's texts */
	bool cut;
};

/* How the search of a file ended. */
enum batch_file_state {
	FILE_SEARCHED,
	FILE_SKIPPED,
};

struct batch {
	int dirfd;  /* of the directory; -1: @file is the one file */
	int file;   /* borrowed; -1: open the names in dirfd */
	char *path; /* the directory's; empty: the root. Of a single file: its own */
	size_t path_len, path_size;
	char *names; /* NUL-terminated, one after the other */
	size_t names_len, names_size;
	size_t name_at[BATCH_FILES];
	size_t count;
	uint64_t unreadable; /* directories that the walk could not read before this */

	uint8_t state[BATCH_FILES]; /* of the first @done files */
	size_t done;
	struct batch_hit *hits;
	size_t hits_count, hits_size;
	char *texts;
	size_t texts_len, texts_size;
	int result; /* 0, or the -errno that ended it in file @done */
};

/** Empties @batch; it keeps its memory. */
void batch_clear(struct batch *batch);
void batch_free(struct batch *batch);

/** Makes the empty @batch one of the directory @dirfd, which it duplicates, at @path. */
int batch_begin(struct batch *batch, int dirfd, struct text path);

/** Makes the empty @batch the single file @fd (borrowed), whose path is @path. */
int batch_single(struct batch *batch, int fd, struct text path);

/** Adds the file @name; @batch holds fewer than BATCH_FILES. 0 or -ENOMEM. */
int batch_add(struct batch *batch, const char *name);

/** Writes the path of file @index to *@ret_path, which is valid until the next call. -ENOMEM. */
int batch_path(struct batch *batch, size_t index, struct text *ret_path);

/* What the large files that threads hold may take together. */
struct search_budget {
	pthread_mutex_t mutex;
	pthread_cond_t released;
	size_t left;
};

/* One thread's means of searching. */
struct searcher {
	struct scanner *scanner;
	char *buffer; /* kept from file to file */
	size_t buffer_size;
	struct search_budget *budget;
	uint64_t max_hits;       /* of one batch; more are not looked for */
	const atomic_bool *stop; /* leave the batch between two files */
};

/** 0 or -ENOMEM. @pattern, @budget and @stop are borrowed. */
int searcher_init(struct searcher *searcher, struct scan_pattern *pattern,
	struct search_budget *budget, uint64_t max_hits, const atomic_bool *stop);
void searcher_done(struct searcher *searcher);

/** Searches the files of @batch and closes its directory. */
void searcher_run(struct searcher *searcher, struct batch *batch);
