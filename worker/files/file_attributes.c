// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process, which has no capabilities: the kernel decides which attributes it may
 * set. The tenant may rename anything meanwhile: the old file is opened by its name without
 * following a link, and its attributes are taken only if it is the inode that was looked at. Only
 * the new file is changed.
 */
#include "worker/files/file_attributes.h"

#include "common/cleanup.h"
#include "common/wire/wire_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ACL_ACCESS "system.posix_acl_access"

/* Copies attribute @name, if it can be read and set. */
static void copy_attribute(int from, int to, const char *name, char *value)
{
	ssize_t len = fgetxattr(from, name, value, XATTR_SIZE_MAX);

	if (len >= 0)
		(void)fsetxattr(to, name, value, (size_t)len, 0);
}

static void copy_attributes(int from, int to)
{
	_cleanup_free_ char *names = malloc(XATTR_LIST_MAX), *value = malloc(XATTR_SIZE_MAX);
	ssize_t len;

	if (!names || !value)
		return;
	len = flistxattr(from, names, XATTR_LIST_MAX);
	for (ssize_t at = 0; at < len; at += (ssize_t)strlen(names + at) + 1)
		if (strncmp(names + at, "user.", 5) == 0 || strcmp(names + at, ACL_ACCESS) == 0)
			copy_attribute(from, to, names + at, value);
}

int file_attributes_keep(int new_fd, int parent, const char *name, const struct stat *old)
{
	_cleanup_close_ int fd =
		openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fstat(new_fd, &st) < 0)
		return -errno;
	if (st.st_gid != old->st_gid)
		(void)!fchown(new_fd, (uid_t)-1, old->st_gid);
	/*
	 * An ACL inherited from the directory's default ACL could grant more than the old file's.
	 */
	if (flistxattr(new_fd, NULL, 0) != 0)
		(void)fremovexattr(new_fd, ACL_ACCESS);
	if ((st.st_mode & 07777) != (old->st_mode & 01777) &&
		fchmod(new_fd, old->st_mode & 01777) < 0)
		return -errno;
	if (fd >= 0 && flistxattr(fd, NULL, 0) > 0 && fstat(fd, &st) == 0 &&
		st.st_dev == old->st_dev && st.st_ino == old->st_ino)
		copy_attributes(fd, new_fd);
	return 0;
}

/* Those of an overlay are its own affair. */
static bool is_user_attribute(const char *name)
{
	return strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0;
}

/* Returns how many user.* attributes @fd has, whose names are in @names, and their length. */
static int list_attributes(int fd, char *names, ssize_t *ret_len)
{
	ssize_t len = flistxattr(fd, names, XATTR_LIST_MAX);
	int n = 0;

	if (len < 0 && errno != EOPNOTSUPP)
		return -errno;
	for (ssize_t at = 0; at < len; at += (ssize_t)strlen(names + at) + 1)
		n += is_user_attribute(names + at);
	*ret_len = len;
	return n;
}

static int attribute_differs(int before, int after, const char *name, char *values)
{
	char *others = values + XATTR_SIZE_MAX;
	ssize_t len = fgetxattr(before, name, values, XATTR_SIZE_MAX);
	ssize_t other = len < 0 ? -1 : fgetxattr(after, name, others, XATTR_SIZE_MAX);

	if (len < 0 || other < 0)
		return errno == ENODATA ? 1 : -errno;
	return len != other || memcmp(values, others, (size_t)len) != 0;
}

int file_attributes_differ(int before, int after)
{
	_cleanup_free_ char *names = malloc(XATTR_LIST_MAX), *values = NULL;
	int n, others, r = 0;
	ssize_t len = 0, ignored;

	if (!names)
		return -ENOMEM;
	others = list_attributes(after, names, &ignored);
	n = list_attributes(before, names, &len);
	if (n < 0 || others < 0)
		return n < 0 ? n : others;
	if (n != others || n == 0)
		return n != others;
	values = malloc(2UL * XATTR_SIZE_MAX);
	if (!values)
		return -ENOMEM;
	for (ssize_t at = 0; r == 0 && at < len; at += (ssize_t)strlen(names + at) + 1)
		if (is_user_attribute(names + at))
			r = attribute_differs(before, after, names + at, values);
	return r;
}

static void remove_attributes(int fd)
{
	_cleanup_free_ char *names = malloc(XATTR_LIST_MAX);
	ssize_t len = names ? flistxattr(fd, names, XATTR_LIST_MAX) : 0;

	for (ssize_t at = 0; at < len; at += (ssize_t)strlen(names + at) + 1)
		if (is_user_attribute(names + at))
			(void)fremovexattr(fd, names + at);
}

int file_attributes_set(int fd, struct text attributes)
{
	struct text left = attributes, name, value;
	char full[XATTR_NAME_MAX + 1];

	remove_attributes(fd);
	while (files_attribute_next(&left, &name, &value)) {
		int n = snprintf(full, sizeof(full), "user.%.*s", (int)name.len, name.data);

		if (n < 0 || (size_t)n >= sizeof(full) || !is_user_attribute(full))
			return -EINVAL;
		if (fsetxattr(fd, full, value.data, value.len, 0) < 0)
			return -errno;
	}
	return 0;
}
