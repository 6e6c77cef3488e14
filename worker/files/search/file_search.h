/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* search_files in the files process. */

#include "worker/files/reply.h"
#include "worker/files/walk/root_open.h"

/**
 * Answers @request: one match frame for each matching line (pattern_scan.h defines which match), in
 * tree_walk's order, then the end. Opens regular files only, and follows no symbolic link except
 * the path itself. A path that is a file is searched even if git ignores it or file_pattern does
 * not match. Binary, unreadable and too large (LIMIT_SEARCH_FILE_BYTES) files, and unreadable
 * directories, are counted as skipped. Sends at most @request->max_results, and never more than
 * LIMIT_SEARCH_RESULTS (0 means that).
 */
void file_search(const struct root *root, const struct files_search *request, struct reply *reply);
