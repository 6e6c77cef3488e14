/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads which files git tracks from a repository's index, for the files process. The index belongs
 * to the workspace and is hostile: it is opened without following links, only if it is a regular
 * file, and read within named limits, as far as the questions need it. Entries count up to the
 * first one that git would not write so. gitformat-index(5), versions 2 to 4, object names of 20
 * and 32 bytes.
 */

#include "common/text.h"

struct git_index;

/**
 * Opens the file `index` in @git_dir, a `.git` directory (O_PATH is enough), and reads its first
 * LIMIT_GIT_INDEX_PIECE bytes. Returns 0 with *@ret_index, which the caller frees, or -ENOMEM.
 * *@ret_index is NULL if there is no usable index: none at all, one with a fault in what was read
 * (so a small split index, too), or one that is larger than LIMIT_GIT_INDEX_BYTES.
 */
int git_index_open(int git_dir, struct git_index **ret_index);

/** Like git_index_open(), of the file @fd, which it takes, of @size bytes. */
int git_index_from(int fd, size_t size, struct git_index **ret_index);

void git_index_free(struct git_index *index);

/**
 * Whether @path, relative to the repository, is tracked or is a directory with tracked files. Files
 * in a directory of a sparse index are not: git removes them, and lists those that came back by
 * name. Reads on until the names are past @path, so paths in the order of git's names are answered
 * after one pass. Returns 0, 1 or -ENOMEM.
 */
int git_index_tracks(struct git_index *index, struct text path);
