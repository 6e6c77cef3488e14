/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What can be told about a path from its string alone. cloisterd uses it as the clear early answer,
 * cloister-files to turn a path into one relative to the root. It never grants anything: which file
 * a path means is decided by worker/files/root_open.h on descriptors. Makes no system call.
 */

#include "common/errors.h"
#include "common/text.h"

/**
 * Checks @path as a client gave it against @visible_root, the absolute path at which the
 * workspace's commands see its root ("/" possible), and stores the path relative to the root ("."
 * is the root itself) in @ret_relative, malloc'ed. Components "." and ".." and a trailing slash are
 * kept: what they mean is the kernel's to say.
 *
 * Unless @raw, a backslash means "/" and a drive letter ("C:\x", "c:/x", "c:x") is outside. @raw
 * takes the bytes as they are: for names that a listing gave, and for paths that were normalised
 * before.
 *
 * An absolute path is accepted iff it goes through @visible_root, component by component. A path is
 * refused for its
 * ".." only where no component comes before it, because a/../../b lies inside when "a" is a link to
 * "c/d/e". Percent signs are ordinary bytes.
 *
 * Returns TOOL_OK; INVALID_ARGUMENTS for an empty path or one with a NUL; NAME_TOO_LONG;
 * PATH_OUTSIDE_WORKSPACE.
 */
enum tool_error path_rules_check(
	struct text visible_root, struct text path, bool raw, char **ret_relative);

/** The sentence for @error that @path was refused or failed with. Static storage. */
const char *path_rules_sentence(enum tool_error error, struct text path);

/**
 * The part of absolute @path below @visible_root, borrowed from @path; "" for the root itself. NULL
 * when @path does not go through it.
 */
const char *path_rules_rebase(struct text visible_root, const char *path);

/** Whether @relative, taken as plain names, climbs above the root: what holds if none of its names
 * is a link. */
bool path_rules_climbs(const char *relative);

/** Whether a component of @path is "..". */
bool path_rules_has_dotdot(const char *path);

/** The next component, borrowed, with @rest moved behind it; slashes are skipped. Empty: there is
 * none. */
struct text path_rules_next(struct text *rest);

/** @path without empty components, "." and a trailing slash, in place; what becomes empty becomes
 * ".". */
void path_rules_normalise(char *path);
