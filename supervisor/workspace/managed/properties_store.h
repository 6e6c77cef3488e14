/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The properties of managed workspaces on disk: a file TENANT/NAME in "properties" of the state
 * directory. It is replaced by rename(2), and is there before the workspace's own directory is. A
 * workspace without a file keeps nothing. The files have a directory of their own because Landlock
 * gives access to whole directories, and cloisterd must not write files in the workspaces.
 */

#include "supervisor/workspace/managed/properties.h"

#include <dirent.h>

struct tenant;

#define PROPERTIES "properties"

/**
 * Reads those of the tenant's workspace @name, below @managed_fd. Returns 0 and *ret, to be
 * released with properties_done(); -EBADMSG if the file is damaged; or another -errno.
 */
int properties_load(
	int managed_fd, const struct tenant *tenant, const char *name, struct properties *ret);

/** Keeps @properties. Returns 0 or -errno. */
int properties_save(int managed_fd, const struct tenant *tenant, const char *name,
	const struct properties *properties);

/** Keeps none. Returns 0 or -errno. */
int properties_forget(int managed_fd, const struct tenant *tenant, const char *name);

/**
 * Opens the directory with the tenant's files, to read many. Returns 0 or -errno; *ret is NULL if
 * there is none.
 */
int properties_list(int managed_fd, const struct tenant *tenant, DIR **ret);
/** Returns the name of the next workspace that has a file, until the next call; NULL: the end. */
const char *properties_list_next(DIR *directory);
/** As properties_load(), for the workspace @name of that directory, which may be NULL. */
int properties_load_in(DIR *directory, const char *name, struct properties *ret);
