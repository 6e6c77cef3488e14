/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-files: which files git would not list, and which of those it tracks. The rules of the
 * .gitignore files on the way from the workspace's root (or from the repository that a file is in)
 * down to the file, then those of that repository's .git/info/exclude. The files are the
 * workspace's, hence hostile: they are opened without following links, only if regular, and only up
 * to LIMIT_GITIGNORE_BYTES. gitignore(5).
 *
 * Paths are relative to the workspace's root, without "."; the root itself is "".
 */

#include "common/text.h"

struct gitignore;

/** No rules yet. NULL: out of memory. */
struct gitignore *gitignore_new(void);
void gitignore_free(struct gitignore *ignore);

/**
 * Reads the rules of the directory @dirfd (O_PATH will do), whose path is @path_len bytes long.
 * Directories are entered from above and left in reverse order. A directory that holds a `.git` is
 * a repository of its own: the rules from above do not reach into it. Files that cannot be read
 * hold no rules. Returns 0 or -ENOMEM.
 */
int gitignore_enter(struct gitignore *ignore, int dirfd, size_t path_len);
void gitignore_leave(struct gitignore *ignore, size_t path_len);

/**
 * Enters @root_fd and every directory on the way to @path, but not @path itself. Returns 0 or
 * -ENOMEM.
 */
int gitignore_enter_above(struct gitignore *ignore, int root_fd, struct text path);

/**
 * Whether @path, which lies in the directory entered last, is left out: by the last rule that
 * matches it, or because it is a `.git`. It says nothing about the directories above @path; what
 * lies in one that is left out is so too.
 */
bool gitignore_excludes(const struct gitignore *ignore, struct text path, bool is_directory);

/**
 * Whether git shows @path, which is left out, all the same: it is tracked, or a directory that
 * holds what is, as the index of the repository that it is in says. The index is read the first
 * time that this is asked. Where `.git` is a file (worktrees, submodules), LIMIT_GIT_REPOSITORIES
 * are entered, or the index is none that git_index.h takes: false. 0, 1 or -ENOMEM.
 */
int gitignore_tracks(struct gitignore *ignore, struct text path);

/** Whether the directory entered last, of @path_len, is a repository: what was left out above it
 * does not matter in it. */
bool gitignore_in_repository(const struct gitignore *ignore, size_t path_len);
