/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The directories of managed workspaces, TENANT/NAME in the state directory, so that two tenants
 * may use the same name. In user mode without a configuration there is one tenant and the path is
 * just NAME. Only names in the state directory are looked up here, never names inside a workspace.
 */

#include <dirent.h>
#include <stdbool.h>
#include <time.h>

struct tenant;

/** Makes the directory that holds the tenant's workspaces, if it is not there. Returns 0 or -errno.
 */
int managed_directory_make(int managed_fd, const struct tenant *tenant);

/** Makes the directory of the tenant's workspace @name, which is not there. Returns 0 or -errno. */
int managed_add(int managed_fd, const struct tenant *tenant, const char *name);

/** The same for one that has nothing of an earlier one of its name. */
int managed_make(int managed_fd, const struct tenant *tenant, const char *name);

/**
 * Notes whether the workspace @name, which is not there yet, is a whole root, which commands see as
 * "/". A mark beside it says so until it is removed. Returns 0; -EEXIST if the workspace is there,
 * which stays what it is; or another -errno.
 */
int managed_set_root(int managed_fd, const struct tenant *tenant, const char *name, bool is_root);
bool managed_is_root(int managed_fd, const struct tenant *tenant, const char *name);

/** Opens the directory that holds the tenant's workspaces (O_PATH). Returns it or -errno. */
int managed_directory(int managed_fd, const struct tenant *tenant);

/**
 * Opens the directory that holds the tenant's workspaces, to go through it in pieces. Returns 0 or
 * -errno; *ret is NULL if there is none.
 */
int managed_list(int managed_fd, const struct tenant *tenant, DIR **ret);

/**
 * Returns the name of the next workspace, until the next call; NULL at the end, or when *left
 * (names, counted down) is 0.
 */
const char *managed_list_next(DIR *directory, size_t *left);

/** Whether the workspace @name of that directory, which may be NULL, is a whole root. */
bool managed_is_root_in(DIR *directory, const char *name);

/**
 * Finds out when it was made, statx(2). Returns 0; -ENODATA if the file system does not know; or
 * another -errno.
 */
int managed_created_in(DIR *directory, const char *name, time_t *ret);

/** Gives the name of each of the tenant's workspaces to @each. Returns 0 or -errno. */
int managed_each(int managed_fd, const struct tenant *tenant,
	void (*each)(void *context, const char *name), void *context);

#define MANAGED_ASIDE_BYTES 96
/**
 * Gives the directory of a workspace a name that only one to be cleared has, which is stored. From
 * here on there is no workspace @name. Returns 0 or -errno.
 */
int managed_put_away(int managed_fd, const struct tenant *tenant, const char *name,
	char ret_aside[MANAGED_ASIDE_BYTES]);

/** Removes the empty directory of a workspace. Returns 0 or -errno. */
int managed_remove(int managed_fd, const struct tenant *tenant, const char *name);

/** The same for removed workspaces that are not cleared yet; their names are temporary ones. */
int managed_each_removed(int managed_fd, const struct tenant *tenant,
	void (*each)(void *context, const char *name), void *context);

/**
 * Like managed_list_next(), for each record beside a workspace's directory: its layers, that it is
 * a whole root, or that an older version had begun to remove it. There may be none of that name,
 * and some come more than once.
 */
const char *managed_left_next(DIR *directory, size_t *left);

/** Whether there is a workspace @name. */
bool managed_exists(int managed_fd, const struct tenant *tenant, const char *name);

/**
 * Removes the mark that an older version used to finish removals. Returns whether there was one.
 */
bool managed_unmark(int managed_fd, const struct tenant *tenant, const char *name);

/** Removes the mark that a workspace, which is gone, was a whole root. */
void managed_forget_root(int managed_fd, const struct tenant *tenant, const char *name);

/** Counts a new workspace; and that the files of one that was removed have been cleared. */
void managed_count_added(const struct tenant *tenant);
void managed_count_cleared(const struct tenant *tenant);
