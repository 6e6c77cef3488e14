/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shell patterns, for the files process. glob_match() follows gitignore(5) (git's wildmatch with
 * WM_PATHNAME); a glob_set is the `pattern` or `file_pattern` of a tool. Patterns come from models
 * and from hostile workspaces: time is polynomial in the lengths, and there is no recursion.
 */

#include "common/errors.h"
#include "common/text.h"

/**
 * Whether @pattern matches all of @path. `*`, `?` and classes do not match a slash; `**` between
 * slashes (or at either end) matches any number of directories; a backslash makes the next byte
 * literal. A malformed pattern matches nothing.
 */
bool glob_match(struct text pattern, struct text path);

/**
 * Returns 0, or -EINVAL if @pattern is malformed: an unclosed or unknown class, or a backslash at
 * its end.
 */
int glob_check(struct text pattern);

/* A tool's pattern: one glob, or several with {a,b}. */
struct glob_set;

/**
 * Compiles @pattern, which may hold (also nested) brace alternatives. An alternative without a
 * slash is compared with the last component of a path at any depth, any other with the whole path.
 * A leading "./" or "/" only anchors. Brackets also match themselves. An empty pattern gives the
 * NULL set, which matches every path. Returns TOOL_OK, TOOL_INVALID_PATTERN (malformed, also an
 * unclosed brace), TOOL_PATTERN_TOO_COMPLEX (more than LIMIT_GLOB_ALTERNATIVES) or
 * TOOL_EXECUTION_ERROR (no memory).
 */
enum tool_error glob_set_new(struct text pattern, struct glob_set **ret_set);
void glob_set_free(struct glob_set *set);

/**
 * Whether @path, relative to the workspace's root, matches. Its first @base bytes are the listed or
 * searched directory (0: the root); patterns may be relative to that directory or to the root.
 */
bool glob_set_match(const struct glob_set *set, struct text path, size_t base);
