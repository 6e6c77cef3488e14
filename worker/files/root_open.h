/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-files: from a path that a model named to a descriptor that lies in the workspace. What
 * was checked is the descriptor that is used: no path is looked up twice. openat2(2),
 * path_resolution(7), symlink(7).
 */

#include "common/errors.h"
#include "common/text.h"
#include "worker/files/made_dirs.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The workspace as this process knows it. */
struct root {
	int fd; /* O_PATH directory: the workspace's root, which is also this process's root */
	/*
	 * O_PATH directory: self/fd of a procfs of its own, or -1. It names the descriptors of the
	 * process that opened it: a forked child opens its own or uses -1.
	 */
	int proc_self_fd;
	int proc_mount;      /* of that procfs, until files_setup_done; otherwise -1 */
	struct text visible; /* where commands see the root, "/home/me/tree", or "/" */
};

/* Where a path led. Owned by the caller: root_place_done. */
struct root_place {
	int parent; /* the directory that holds the last component, O_PATH at least; -1 if the path
		       is the root */
	char name[256]; /* the last component, after links were followed; "" if the path is the root
			 */
	char *path;     /* relative to the root, as root_open reports it */
	bool looked_at; /* what bore the name a moment ago had */
	mode_t mode;    /* this, 0 if there was nothing */
	struct made_dirs made; /* on the way to parent, for a write that fails to take back */
};

/**
 * Opens @path, following links inside the workspace, with open(2) @flags (O_CLOEXEC, O_NOCTTY and
 * O_NONBLOCK are added; O_CREAT and O_TMPFILE are not for this function). With O_NOFOLLOW a last
 * component that is a link is not followed. On success stores the descriptor in @ret_fd and, if
 * @ret_path is not NULL, the path relative to the root, without
 * "." and ".." (malloc'ed, the caller frees it; "." is the root): links in it are only resolved
 * where @path has a "..".
 *
 * Never blocks on a FIFO or a lease. A descriptor may be one of a FIFO: fstat(2) it before use.
 *
 * On failure returns the code for the observation and leaves the outputs untouched:
 * INVALID_ARGUMENTS for an empty path or one with a NUL (path_rules_sentence),
 * PATH_OUTSIDE_WORKSPACE for a path that climbs out, SYMLINK_OUTSIDE_WORKSPACE for a link that
 * leads out, NOT_A_REGULAR_FILE for a socket or device, BUSY while somebody's lease or renames
 * stand against it, otherwise what tool_error_from_errno says. Only the bytes of @path count: no
 * backslash is changed.
 */
enum tool_error root_open(
	const struct root *root, struct text path, int flags, int *ret_fd, char **ret_path);

/**
 * Finds the directory and name that writing to @path means, following links (also a last component
 * that is a link, dangling or not) inside the workspace. With @create_dirs missing directories are
 * made, mode 0777 less the umask, but none for a path with a ".." behind it; on failure they are
 * removed again. The last component itself need not exist; what is there may be anything but a
 * link, unless the tenant puts one there afterwards. Fails as root_open does; a trailing slash
 * behind anything but a directory is IS_A_DIRECTORY.
 */
enum tool_error root_place(
	const struct root *root, struct text path, bool create_dirs, struct root_place *ret_place);

#define ROOT_PLACE_NONE ((struct root_place){.parent = -1, .made = MADE_DIRS_NONE})

/** Releases @place; its fields are empty afterwards. Directories that were made stay. */
void root_place_done(struct root_place *place);
