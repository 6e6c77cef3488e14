/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Mounting by descriptor, for the worker and the files process while they build their roots. Every
 * target is a directory descriptor and a name in it, opened without following links, so that a
 * hostile rootfs cannot redirect a mount. Functions return 0 or -errno. fsopen(2), fsmount(2),
 * open_tree(2), move_mount(2), mount_setattr(2).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** Leaves the size or the inodes of a tmpfs at the kernel's default. */
#define MOUNT_UNBOUNDED 0

/** Makes a detached tmpfs with @mode, at most @bytes and @inodes, and MOUNT_ATTR_* @attributes. */
int mount_new_tmpfs(mode_t mode, uint64_t bytes, uint64_t inodes, uint64_t attributes, int *ret_fd);

/**
 * Makes a detached proc of the caller's pid namespace. With @subset_pid it shows only processes.
 */
int mount_new_proc(bool subset_pid, int *ret_fd);

/** Makes a detached cgroup2 whose root is the root of the caller's cgroup namespace. */
int mount_new_cgroup(int *ret_fd);

/** Makes a detached mount of the POSIX message queues of this IPC namespace. mq_overview(7) */
int mount_new_mqueue(int *ret_fd);

/** Makes a detached, separate devpts instance with at most @terminals terminals. */
int mount_new_devpts(uint64_t terminals, int *ret_fd);

/**
 * Makes a detached copy of the mount at @path (from @dirfd) with all mounts below it, each confined
 * as by mount_confine_tree().
 */
int mount_clone(int dirfd, const char *path, uint64_t attributes, int *ret_fd);

/** Makes a detached copy of the mount whose root is @fd, without the mounts below it. */
int mount_clone_alone(int fd, int *ret_fd);

/**
 * Sets MOUNT_ATTR_* @attributes on the mount whose root is @fd and on all mounts below it, and
 * makes them private: later mounts of the host in the original do not appear here.
 * mount_namespaces(7), "Shared subtrees".
 */
int mount_confine_tree(int fd, uint64_t attributes);

/** Attaches the detached mount @mount_fd over @name in @dirfd. */
int mount_attach(int mount_fd, int dirfd, const char *name);
/** Attaches @mount_fd over the open @target, below any mount that was attached to it since. */
int mount_attach_over(int mount_fd, int target);

/** Sets MOUNT_ATTR_* @attributes on the mount whose root is @fd, not on those below. */
int mount_set(int fd, uint64_t attributes);

/**
 * Opens @path with O_PATH and the O_* @flags. Fails with ELOOP if any component is a link. Returns
 * a descriptor like open(2).
 */
int mount_open_point(const char *path, int flags);

/**
 * Opens @path with O_PATH if it is a directory or a regular file, without waiting for its file
 * system to read it. Returns a descriptor, and in @ret_directory which of the two it is; otherwise
 * -errno: -ELOOP for a link, -EINVAL for any other kind of file.
 */
int mount_open_shown(const char *path, bool *ret_directory);

/** Writes the name of the step that failed to show @path with mount_open_shown()'s result @r. */
void mount_name_shown(char *step, size_t size, const char *path, int r);

/**
 * Makes the directory @name in @dirfd, if it does not exist, and opens it with O_PATH. A link gives
 * -ENOTDIR or -ELOOP.
 */
int mount_make_directory(int dirfd, const char *name, mode_t mode, int *ret_fd);

/** Makes and opens an empty file @name in @dirfd, as a target for a bind mount. */
int mount_make_file(int dirfd, const char *name, int *ret_fd);
/** Makes the file system of @fd read-only in all of its mounts. */
int mount_freeze(int fd);

/**
 * Maps the ids of the detached mount @fd by the user namespace @namespace. mount_setattr(2)
 */
int mount_map_ids(int fd, int namespace);

/** Changes the size of the tmpfs that @fd lies in to @bytes. */
int mount_resize_tmpfs(int fd, uint64_t bytes);
