/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names that look the same and are written with other characters: an e with an acute accent is one
 * character (NFC, what keyboards and models write) or two (NFD, what macOS stores). UAX #15. Runs
 * in the files process, on hostile bytes.
 */

#include "common/text.h"

#include <stdbool.h>

/** Whether two names are canonically equivalent. The order of several marks of a letter counts. */
bool same_name(struct text a, struct text b);

/**
 * Stores in @ret_path (malloc'ed) the path that exists in place of @path, which is relative to the
 * directory @root: each component that is not there is replaced by one of the same name. Returns
 * whether there is such a path, or the beginning of one.
 */
bool same_path(int root, const char *path, char **ret_path);
