/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-files: from a path that a model named to a descriptor that lies in the workspace. What was checked is the
 * descriptor that is used: no path is looked up twice. openat2(2), path_resolution(7), symlink(7).
 */

#include "common/errors.h"
#include "common/text.h"

#include <stdint.h>

/* The workspace as this process knows it. */
struct root {
	int fd;		     /* O_PATH directory: the workspace's root, which is also this process's root */
	int proc_self_fd;    /* O_PATH directory: self/fd of a procfs of its own, or -1 */
	struct text visible; /* where commands see the root, "/home/me/tree", or "/" */
};

/* Where a path led. Owned by the caller: root_place_done. */
struct root_place {
	int parent;	 /* O_PATH directory that holds the last component; -1 if the path is the root */
	char name[256];	 /* the last component, after links were followed; "" if the path is the root */
	char *path;	 /* resolved path relative to the root, without "." or ".."; "." is the root */
};

/**
 * Opens @path, following links inside the workspace, with open(2) @flags (O_CLOEXEC is added; O_CREAT and O_TMPFILE
 * are not for this function). Use O_NONBLOCK where a FIFO or device could hide. On success stores the descriptor in
 * @ret_fd and, if @ret_path is not NULL, the resolved path relative to the root (malloc'ed, the caller frees it).
 *
 * On failure returns the code for the observation and leaves the outputs untouched: PATH_OUTSIDE_WORKSPACE for a path that
 * climbs out, SYMLINK_OUTSIDE_WORKSPACE for a link that leads out, otherwise what tool_error_from_errno says.
 */
enum tool_error root_open(
	const struct root *root, struct text path, int flags, int *ret_fd, char **ret_path);

/**
 * Finds the directory and name that writing to @path means, following links (also a last component that is a
 * link, dangling or not) inside the workspace. With @create_dirs missing directories are made, mode 0777 less the umask.
 * The last component itself need not exist. Fails as root_open does.
 */
enum tool_error root_place(
	const struct root *root, struct text path, bool create_dirs, struct root_place *ret_place);

void root_place_done(struct root_place *place);
