/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-files: search_files.
 */

#include "worker/files/reply.h"
#include "worker/files/root_open.h"

/**
 * Answers @request: a match frame for each line that matches (pattern_scan.h says which do), in
 * tree_walk's order, then the end. Only regular files are opened; a symbolic link is not followed,
 * but for the path itself. A path that is a file is searched even if git ignores it or file_pattern
 * does not match it. Binary, unreadable and over-large (LIMIT_SEARCH_FILE_BYTES) files are counted
 * as skipped, as are directories that cannot be read. Sends at most @request->max_results, and
 * never more than LIMIT_SEARCH_RESULTS (0 means that).
 */
void file_search(const struct root *root, const struct files_search *request, struct reply *reply);
