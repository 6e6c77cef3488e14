/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Mounting by descriptor, for worker and files process while they build their roots. Every target
 * is a directory descriptor and a name in it, opened without following links: a hostile rootfs
 * cannot redirect a mount. fsopen(2), fsmount(2), open_tree(2), move_mount(2), mount_setattr(2).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** The value that leaves a tmpfs's size or inodes at the kernel's default. */
#define MOUNT_UNBOUNDED 0

/** A detached tmpfs with @mode, at most @bytes and @inodes, mounted with MOUNT_ATTR_* @attributes.
 */
int mount_new_tmpfs(mode_t mode, uint64_t bytes, uint64_t inodes, uint64_t attributes, int *ret_fd);

/** A detached proc of the caller's pid namespace. @subset_pid: processes only, nothing of the
 * kernel's. */
int mount_new_proc(bool subset_pid, int *ret_fd);

/** A detached cgroup2 whose root is that of the caller's cgroup namespace. */
int mount_new_cgroup(int *ret_fd);

/** Makes a detached mount of the POSIX message queues of this IPC namespace. mq_overview(7) */
int mount_new_mqueue(int *ret_fd);

/** A detached devpts instance of its own, of at most @terminals. */
int mount_new_devpts(uint64_t terminals, int *ret_fd);

/** A detached copy of what is at @path of (@dirfd): with everything mounted below it, and all of it
 * as mount_confine_tree makes it. */
int mount_clone(int dirfd, const char *path, uint64_t attributes, int *ret_fd);

/** Sets MOUNT_ATTR_* @attributes on the mount that @fd is the root of and on those below, and joins
 * them with no other: what the host mounts in the original from now on, without these attributes,
 * does not come here. mount_namespaces(7), "Shared subtrees". */
int mount_confine_tree(int fd, uint64_t attributes);

/** Attaches the detached mount @mount_fd over @name in @dirfd. */
int mount_attach(int mount_fd, int dirfd, const char *name);
/** The same over what @target has open, as deep as it was when that was opened. */
int mount_attach_over(int mount_fd, int target);

/** Sets MOUNT_ATTR_* @attributes on the mount that @fd is the root of, not on those below. */
int mount_set(int fd, uint64_t attributes);

/** Opens @path, O_PATH and with O_* @flags besides; a link anywhere in it is ELOOP. As open(2). */
int mount_open_point(const char *path, int flags);

/** Makes the directory @name in @dirfd and opens it, O_PATH. An existing directory is taken; a link
 * is -ENOTDIR or -ELOOP. */
int mount_make_directory(int dirfd, const char *name, mode_t mode, int *ret_fd);

/** Makes an empty file @name in @dirfd, for a bind mount to cover, and opens it. */
int mount_make_file(int dirfd, const char *name, int *ret_fd);
/** Changes the bound of the tmpfs that @fd lies in to @bytes. */
int mount_resize_tmpfs(int fd, uint64_t bytes);
