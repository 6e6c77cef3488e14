/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the git directory of a work tree, for the files process: `.git` itself, or what a link or a
 * file of that name leads to, as in linked work trees and submodules. All of it belongs to the
 * workspace and is hostile: paths are resolved by root_open.h, which does not leave the workspace,
 * and no more of a file is read than a path may have. gitrepository-layout(5).
 */

#include "worker/files/walk/root_open.h"

struct git_dir {
	bool repository; /* rules from above do not apply */
	bool followed;   /* `.git` is a file or a link */
	int own;         /* O_PATH at least: HEAD and the index are in it; -1: none can be opened */
	int common; /* the same for objects, refs and info, if linked work trees share them; or -1
		     */
};

/**
 * Finds the git directory of @dirfd (O_PATH is enough) at @path, relative to @root; "" is the root.
 * Without @follow a file or a link counts as a repository, and is not looked at. So does a link or
 * file that leads out of the workspace, where git may find a repository that is out of sight here.
 * The caller closes both descriptors.
 */
struct git_dir git_dir_find(const struct root *root, int dirfd, struct text path, bool follow);
