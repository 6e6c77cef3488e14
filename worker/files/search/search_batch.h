/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A batch: some files of one directory and the matches in them, in a search job of the files
 * process. The walk fills a batch, one thread searches it, and the thread that holds the lock
 * reports it in its turn (search_pool.h).
 *
 * Files are read, not mapped: truncating a mapped file would kill its reader, and read(2) into a
 * warm buffer is faster.
 */

#include "common/text.h"
#include "worker/files/search/pattern_scan.h"

#include <pthread.h>
#include <stdatomic.h>

#define BATCH_FILES 32

/* A matching line. */
struct batch_hit {
	size_t file; /* index of its file */
	uint64_t line;
	size_t text_at, text_len; /* position in the batch's texts */
	bool cut;
	enum hit_kind {
		HIT_MATCH,
		HIT_BEFORE, /* a line before the next match, which does not match */
		HIT_AFTER,  /* a line after the last match, likewise */
	} kind;
};

/* The result for one file. */
enum batch_file_state {
	FILE_SEARCHED,
	FILE_SKIPPED,
	FILE_UTF16, /* skipped, and it is text in UTF-16 */
};

struct batch {
	int dirfd;  /* of the directory; -1: the batch is the single file @file */
	int file;   /* borrowed; -1: open the names in dirfd */
	char *path; /* path of the directory, empty for the root; or of the single file */
	size_t path_len, path_size;
	char *names; /* one after the other, each with a NUL */
	size_t names_len, names_size;
	size_t name_at[BATCH_FILES];
	size_t count;
	uint64_t unreadable; /* directories before this one that the walk could not read */
	bool near;           /* its files are near the searched directory */

	uint8_t state[BATCH_FILES]; /* for the first @done files */
	size_t done;
	struct batch_hit *hits;
	size_t hits_count, hits_size;
	size_t matches; /* of the hits */
	char *texts;
	size_t texts_len, texts_size;
	int result; /* 0, or the -errno that ended it at file @done */
};

/** Empties @batch; it keeps its memory. */
void batch_clear(struct batch *batch);
void batch_free(struct batch *batch);

/** Starts an empty @batch for the directory @dirfd, which it duplicates, at @path. */
int batch_begin(struct batch *batch, int dirfd, struct text path);

/** Starts an empty @batch for the single file @fd (borrowed) at @path. */
int batch_single(struct batch *batch, int fd, struct text path);

/** Adds the file @name to a @batch with fewer than BATCH_FILES. Returns 0 or -ENOMEM. */
int batch_add(struct batch *batch, const char *name);

/**
 * Stores the path of file @index in *@ret_path, valid until the next call. Returns 0 or -ENOMEM.
 */
int batch_path(struct batch *batch, size_t index, struct text *ret_path);

/* Bound of the memory that all threads use for large files. */
struct search_budget {
	pthread_mutex_t mutex;
	pthread_cond_t released;
	size_t left;
};

/* The buffers and state of one searching thread. */
struct searcher {
	struct scanner *scanner;
	char *buffer; /* kept from file to file */
	size_t buffer_size;
	struct search_budget *budget;
	uint64_t max_hits;       /* matches of one batch; the search stops there */
	uint32_t context;        /* lines on each side of a match */
	const atomic_bool *stop; /* makes it leave the batch between two files */
};

/** Returns 0 or -ENOMEM. Borrows @pattern, @budget and @stop. */
int searcher_init(struct searcher *searcher, struct scan_pattern *pattern,
	struct search_budget *budget, uint64_t max_hits, uint32_t context, const atomic_bool *stop);
void searcher_done(struct searcher *searcher);

/** Searches the files of @batch and closes its directory. */
void searcher_run(struct searcher *searcher, struct batch *batch);
