/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-files: list_directory.
 */

#include "worker/files/reply.h"
#include "worker/files/root_open.h"

/**
 * Answers @request: an entry frame for each thing in the directory, or below it if recursive, in
 * tree_walk's order, then the end. `.` and `..` and what git ignores (if asked) are left out, also
 * what does not match the pattern; directories that do not match are still descended into. Sends at
 * most @request->max_entries, and never more than LIMIT_LIST_ENTRIES (0 means that). Links are
 * described, not followed, but for the path itself.
 */
void file_list(const struct root *root, const struct files_list *request, struct reply *reply);
