/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* list_directory in the files process. */

#include "common/limits.h"
#include "worker/files/reply.h"
#include "worker/files/walk/root_open.h"

/**
 * Answers @request: one entry frame for each entry of the directory, or of the whole tree if
 * recursive, in tree_walk's order, then the end. It omits `.` and `..`, entries that git ignores
 * (on request) and entries that do not match the pattern, but descends into directories that do not
 * match. Sends at most @request->max_entries, and never more than LIMIT_LIST_ENTRIES (0 means
 * that). A link is reported as a link; only the listed path itself is resolved. With by_depth the
 * entries nearest to the directory come first.
 */
void file_list(const struct root *root, const struct files_list *request, struct reply *reply);
