/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Turns a path from a model into a descriptor inside the workspace, in the files process. The
 * descriptor that was checked is the one that is used; no path is looked up twice. openat2(2),
 * path_resolution(7), symlink(7).
 */

#include "common/errors.h"
#include "common/text.h"
#include "worker/files/walk/made_dirs.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct stat;

/* The workspace, as the files process sees it. */
struct root {
	int fd; /* O_PATH: the workspace's root, which is also this process's root */
	/*
	 * O_PATH: self/fd of a private procfs, or -1. It refers to the process that opened it: a
	 * forked child opens its own or uses -1.
	 */
	int proc_self_fd;
	int proc_mount; /* mount of that procfs until files_setup_done(), then -1 */
	/* frozen layers and their views, common/layer_stack.h; -1: the workspace has none */
	int layers;
	bool has_quota;      /* the kernel limits what our id takes on disk: disk_quota_holds() */
	bool is_fork;        /* a whole root that cloister has made, of a template */
	struct text visible; /* path at which commands see the root, "/home/me/tree", or "/" */
};

/* The place that a path leads to. The caller frees it with root_place_done(). */
struct root_place {
	/* directory of the last component, at least O_PATH; -1 if the path is the root */
	int parent;
	char name[256]; /* last component, after links were followed; "" if the path is the root */
	char *path;     /* relative to the root, as root_open() reports it */
	bool looked_at; /* mode is set */
	mode_t mode;    /* mode of the entry a moment ago, 0 if there was none */
	struct made_dirs made; /* directories made on the way, for a failing write to remove */
};

/**
 * Opens @path, following links inside the workspace, with open(2) @flags (O_CLOEXEC, O_NOCTTY and
 * O_NONBLOCK are added; O_CREAT and O_TMPFILE are not allowed). With O_NOFOLLOW a link in the last
 * component is not followed. On success stores the descriptor in @ret_fd and, if @ret_path is not
 * NULL, the path relative to the root, without "." and ".." (malloc'ed for the caller; "." is the
 * root). Links in it are resolved only if @path has a "..". A name that is not there stands for one
 * that is written with other characters (same_name.h).
 *
 * Never blocks on a FIFO or a lease. The descriptor may be a FIFO's: fstat(2) it before use.
 *
 * On failure returns the code for the observation and leaves the outputs untouched:
 * INVALID_ARGUMENTS for an empty path or one with a NUL (path_rules_sentence),
 * PATH_OUTSIDE_WORKSPACE for a path that climbs out, SYMLINK_OUTSIDE_WORKSPACE for a link that
 * leads out, NOT_A_REGULAR_FILE for a socket or device, BUSY while a lease or repeated renames
 * prevent it, otherwise the code of tool_error_from_errno(). Backslashes in @path are ordinary
 * bytes.
 */
enum tool_error root_open(
	const struct root *root, struct text path, int flags, int *ret_fd, char **ret_path);

/**
 * As root_open() to read a regular file, whose attributes it stores in @ret_st. Any other is
 * IS_A_DIRECTORY or NOT_A_REGULAR_FILE.
 */
enum tool_error root_open_file(const struct root *root, struct text path, struct stat *ret_st,
	int *ret_fd, char **ret_path);

/**
 * Finds the directory and name for a write to @path, following links inside the workspace, also in
 * the last component and dangling ones. With @create_dirs makes missing directories, mode 0777 less
 * the umask, but none for a path with a later ".."; after a failure they are removed again. The
 * last component need not exist; an existing one may be anything but a link, unless the tenant
 * creates one afterwards. Fails like root_open(); a trailing slash on anything but a directory is
 * IS_A_DIRECTORY.
 */
enum tool_error root_place(
	const struct root *root, struct text path, bool create_dirs, struct root_place *ret_place);

#define ROOT_PLACE_NONE ((struct root_place){.parent = -1, .made = MADE_DIRS_NONE})

/** Frees @place and empties its fields. Directories that were made stay. */
void root_place_done(struct root_place *place);
