/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes an archive from a hostile workspace below one directory of the caller's, and nowhere else.
 * Every name is resolved one component at a time from that directory's descriptor, without
 * following a link and without "..", so no order of entries leads out. It makes regular files,
 * directories, and links that stay below the directory; other entries are skipped and named. A file
 * appears complete or not at all. It replaces any object of its name except a directory; nothing is
 * written through a link or into an existing file.
 */

#include "client/tar/tar.h"

struct tree_extract;

struct tree_extract_limits {
	uint64_t bytes; /* of all files together */
	uint64_t files; /* entries of any kind */
	bool any_links; /* also make links that lead out */
	bool no_link;   /* the directory must not be a link itself */
};

struct tree_extract_result {
	uint64_t files, bytes; /* that were written */
	uint64_t left_out;     /* entries that were skipped, each of which has been named */
};

/**
 * Extracts into @directory, which is made if it does not exist. Returns 0, or -errno after printing
 * why: also -ENOTDIR if it is a link and must be none.
 */
int tree_extract_new(const char *directory, const struct tree_extract_limits *limits,
	struct tree_extract **ret_tree);

/** From now on devices, FIFOs and objects of unknown type are left out without a word. */
void tree_extract_pass_over(struct tree_extract *tree);

/**
 * Functions for struct tar_reader_owner. They return -errno, after printing why, for an error that
 * ends the extraction: -EFBIG past a limit, a full disk, no memory.
 */
int tree_extract_begin(void *tree, const struct tar_entry *entry);
int tree_extract_content(void *tree, struct text data);
int tree_extract_end(void *tree);

/**
 * Whether a file with the kind, size, modification time and permissions of @entry exists already.
 * Follows no link.
 */
bool tree_extract_has(struct tree_extract *tree, const struct tar_entry *entry);

/**
 * Gives directories their permissions and times, removes an incomplete file, and frees @tree. NULL
 * is allowed.
 */
struct tree_extract_result tree_extract_finish(struct tree_extract *tree);
