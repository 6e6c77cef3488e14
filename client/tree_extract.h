/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes what a hostile workspace says below one directory of the caller's, and nowhere else. Every
 * name is resolved one component at a time from that directory's descriptor, without following a
 * link and without "..", so no order of entries leads out. Regular files, directories and links
 * that stay below the directory are made; anything else is left out and named. A file appears
 * complete or not at all, and takes the place of whatever but a directory has its name; nothing is
 * written through a link or into a file that is there already.
 */

#include "client/tar.h"

struct tree_extract;

struct tree_extract_limits {
	uint64_t bytes; /* of files together */
	uint64_t files; /* entries of any kind */
	bool any_links; /* also links that lead out */
};

struct tree_extract_result {
	uint64_t files, bytes; /* that were written */
	uint64_t left_out;     /* entries that were not, each of which has been named */
};

/** Into @directory, which is made if it is not there. 0 or -errno after printing why not. */
int tree_extract_new(const char *directory, const struct tree_extract_limits *limits,
	struct tree_extract **ret_tree);

/** As the functions of struct tar_reader_owner. -errno, after printing why, for what ends
 * everything: -EFBIG past a limit, a full disk, memory. */
int tree_extract_begin(void *tree, const struct tar_entry *entry);
int tree_extract_content(void *tree, struct text data);
int tree_extract_end(void *tree);

/** Whether a file like @entry is there already: the same kind, size, time of modification and
 * permissions. Follows no link. */
bool tree_extract_has(struct tree_extract *tree, const struct tar_entry *entry);

/** Gives directories their permissions and times, removes what is incomplete, and frees. NULL is
 * fine. */
struct tree_extract_result tree_extract_finish(struct tree_extract *tree);
