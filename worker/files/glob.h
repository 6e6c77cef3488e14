/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-files: shell patterns. glob_match has the meaning that gitignore(5) gives a pattern
 * (git's wildmatch with WM_PATHNAME), and a glob_set the meaning that the tools give their
 * `pattern` and `file_pattern`. Patterns come from models and from hostile workspaces: time is
 * polynomial in the lengths, and nothing recurses.
 */

#include "common/errors.h"
#include "common/text.h"

/**
 * Whether all of @path matches @pattern. `*` and `?` stop at a slash, as do classes; `**` between
 * slashes (or at either end) crosses directories; a backslash makes the next byte literal. A
 * malformed pattern matches nothing.
 */
bool glob_match(struct text pattern, struct text path);

/** 0, or -EINVAL if @pattern is malformed: an unclosed or unknown class, a backslash at the end. */
int glob_check(struct text pattern);

/* A tool's pattern: one glob, or with {a,b} several. */
struct glob_set;

/**
 * Compiles @pattern, which may hold brace alternatives, also nested ones. An alternative without a
 * slash is for the last component of a path at any depth, any other for the whole path. A leading
 * "./" or "/" only anchors. An empty pattern is the NULL set, which every path matches. Returns
 * TOOL_OK, TOOL_INVALID_PATTERN (malformed, also an unclosed brace), TOOL_PATTERN_TOO_COMPLEX (more
 * than LIMIT_GLOB_ALTERNATIVES) or TOOL_EXECUTION_ERROR (no memory).
 */
enum tool_error glob_set_new(struct text pattern, struct glob_set **ret_set);
void glob_set_free(struct glob_set *set);

/**
 * Whether @path, relative to the workspace's root, matches. The first @base bytes of it name the
 * directory that was listed or searched (0: the root); patterns relative to that directory match as
 * well as patterns relative to the root.
 */
bool glob_set_match(const struct glob_set *set, struct text path, size_t base);
