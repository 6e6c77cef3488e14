/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks that need only a path's string and no system call. cloisterd uses them for a clear early
 * answer; the files process uses them to make a path relative to the root. They grant nothing:
 * worker/files/walk/root_open.h finds out by descriptors which file a path names.
 */

#include "common/errors.h"
#include "common/text.h"

/**
 * Checks @path as a client gave it against @visible_root, the absolute path at which the
 * workspace's commands see its root (it may be "/"). Stores the path relative to the root,
 * malloc'ed, in @ret_relative; "." is the root itself. "." and ".." components and a trailing slash
 * are kept, because only the kernel can resolve them.
 *
 * Without @raw, a backslash is read as "/" and a path with a drive letter ("C:\x", "c:/x", "c:x")
 * is outside the workspace. With @raw the bytes are taken as they are: for names from a listing,
 * and for paths that were normalised before.
 *
 * An absolute path is accepted only if it goes through @visible_root, component by component. ".."
 * is refused only if no other component precedes it, because a/../../b lies inside when "a" is a
 * link to "c/d/e". Percent signs are ordinary bytes.
 *
 * Returns TOOL_OK; INVALID_ARGUMENTS for an empty path or one with a NUL; NAME_TOO_LONG;
 * PATH_OUTSIDE_WORKSPACE.
 */
enum tool_error path_rules_check(
	struct text visible_root, struct text path, bool raw, char **ret_relative);

/** Returns the sentence that explains why @path failed with @error. Static storage. */
const char *path_rules_sentence(enum tool_error error, struct text path);

/**
 * Returns the part of absolute @path below @visible_root, borrowed from @path; "" for the root
 * itself, NULL if @path does not go through it.
 */
const char *path_rules_rebase(struct text visible_root, const char *path);

/** Whether @relative climbs above the root, assuming that none of its components is a link. */
bool path_rules_climbs(const char *relative);

/** Whether a component of @path is "..". */
bool path_rules_has_dotdot(const char *path);

/**
 * Returns the next component, borrowed, and moves @rest behind it. Skips slashes. Empty at the end.
 */
struct text path_rules_next(struct text *rest);

/**
 * Removes empty components, "." and a trailing slash from @path, in place. A path that becomes
 * empty becomes ".".
 */
void path_rules_normalise(char *path);
