/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Existing paths that are similar to one that does not exist. Runs in the files process; the names
 * in directories are hostile bytes.
 */

#include "worker/files/walk/root_open.h"

#include <stddef.h>

#define NEAR_PATHS_SIZE 1024 /* for the sentence */

/**
 * Returns the sentence for @error, with which @path could not be opened. For NOT_FOUND it names one
 * or two existing paths that differ from @path in the first component that does not exist, or
 * @path without the name of the root before it. Looks at no more than LIMIT_NEAR_ENTRIES of one
 * directory. Static or in @buffer of NEAR_PATHS_SIZE bytes.
 */
const char *near_paths_sentence(
	const struct root *root, struct text path, enum tool_error error, char *buffer);
