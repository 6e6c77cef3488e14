/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads which files git tracks from a repository's index, for the files process. The index belongs
 * to the workspace and is hostile: it is opened without following links, only if it is a regular
 * file, and read whole within named limits. An index that is not exactly as git writes it is
 * ignored. gitformat-index(5), versions 2 to 4, object names of 20 and 32 bytes.
 */

#include "common/text.h"

struct git_index;

/**
 * Reads the file `index` in @git_dir, a `.git` directory (O_PATH is enough). Returns 0 with
 * *@ret_index, or -ENOMEM. *@ret_index is NULL if there is no usable index: none at all, a
 * malformed or split one, or one that is larger than LIMIT_GIT_INDEX_BYTES or whose names are.
 */
int git_index_read(int git_dir, struct git_index **ret_index);

/** Like git_index_read(), from @bytes, which it keeps using. Returns 0, -ENOTSUP or -ENOMEM. */
int git_index_parse(struct text bytes, struct git_index **ret_index);

void git_index_free(struct git_index *index);

/** Whether @path, relative to the repository, is tracked or is a directory with tracked files. */
bool git_index_tracks(const struct git_index *index, struct text path);
