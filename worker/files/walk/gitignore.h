/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which files git ignores, and which of those it tracks nevertheless, for the files process. The
 * rules come from the .gitignore files between the workspace's root (or the repository that the
 * file is in) and the file, then from that repository's info/exclude. These files belong to
 * the workspace and are hostile: they are opened without following links, only if they are regular
 * files, and only up to LIMIT_GITIGNORE_BYTES. gitignore(5).
 *
 * Paths are relative to the workspace's root, without "."; the root itself is "".
 */

#include "worker/files/walk/root_open.h"

struct gitignore;

/** Returns an object without rules for @root, which is borrowed, or NULL if memory is out. */
struct gitignore *gitignore_new(const struct root *root);
void gitignore_free(struct gitignore *ignore);

/**
 * Reads the rules of the directory @dirfd (O_PATH is enough) at @path. Directories are entered from
 * above and left in reverse order. Rules from above do not apply in a repository: a directory whose
 * `.git` is a directory with HEAD, objects and refs, or a file or link that leads to one; git_dir.h
 * has the rest. Such files and links are followed in LIMIT_GIT_REPOSITORIES directories above each
 * other. An unreadable file counts as empty. Returns 0 or -ENOMEM.
 */
int gitignore_enter(struct gitignore *ignore, int dirfd, struct text path);
void gitignore_leave(struct gitignore *ignore, size_t path_len);

/** Enters the root and every directory on the way to @path, but not @path. Returns 0 or -ENOMEM. */
int gitignore_enter_above(struct gitignore *ignore, struct text path);

/**
 * Suspends rules that match all entries of the directory @path, such as "dist" followed by a slash
 * and a star. A caller who names the directory sees its entries, as with a rule that names the
 * directory itself.
 */
void gitignore_show(struct gitignore *ignore, struct text path);

/**
 * Whether @path, in the directory entered last, is ignored: by the last rule that matches it, or
 * because it is a `.git`. The caller checks the directories above it; everything in an ignored
 * directory is ignored.
 */
bool gitignore_excludes(const struct gitignore *ignore, struct text path, bool is_directory);

/**
 * Whether git shows the ignored @path nevertheless, because the index of its repository tracks it
 * or files below it. The index is opened at the first call and read as far as @path needs. Returns
 * 0, 1 or -ENOMEM; 0 also if the git directory is out of sight, if LIMIT_GIT_REPOSITORIES are
 * already entered, or if git_index.h rejects the index.
 */
int gitignore_tracks(struct gitignore *ignore, struct text path);

/**
 * Whether the directory entered last, of @path_len, is a repository: rules from above do not apply
 * in it.
 */
bool gitignore_in_repository(const struct gitignore *ignore, size_t path_len);
