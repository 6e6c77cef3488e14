/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-files: which files git tracks, as a repository's index says. The index is the
 * workspace's, hence hostile: it is opened without following links, only if regular, read whole
 * within named limits, and one that is not exactly as git writes it counts for nothing.
 * gitformat-index(5), versions 2 to 4, with names of objects of 20 and 32 bytes.
 */

#include "common/text.h"

struct git_index;

/**
 * Reads the file `index` in @git_dir, a `.git` (O_PATH will do). Returns 0 with *@ret_index, NULL
 * where there is none that can be used: none at all, one that is malformed, split or larger than
 * LIMIT_GIT_INDEX_BYTES, or whose names are longer than that together. Or -ENOMEM.
 */
int git_index_read(int git_dir, struct git_index **ret_index);

/** As git_index_read, from @bytes. 0, -ENOTSUP or -ENOMEM. */
int git_index_parse(struct text bytes, struct git_index **ret_index);

void git_index_free(struct git_index *index);

/** Whether @path, relative to the repository, is tracked or is a directory that holds what is. */
bool git_index_tracks(const struct git_index *index, struct text path);
