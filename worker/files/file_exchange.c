// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process. The tenant's commands may rename, replace and write both files
 * meanwhile, so what was looked at before the exchange is looked at again after it. Every name is
 * used relative to the directory that root_place() verified, and no link is followed.
 */
#include "worker/files/file_exchange.h"

#include "common/limits.h"
#include "worker/files/walk/dir_marks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether @fd has exactly @content. */
static bool has_content(int fd, struct text content)
{
	char buffer[32 * KIB];
	size_t at = 0;

	for (;;) {
		ssize_t n = pread(fd, buffer, sizeof(buffer), (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 && at == content.len;
		if ((size_t)n > content.len - at ||
			memcmp(buffer, content.data + at, (size_t)n) != 0)
			return false;
		at += (size_t)n;
	}
}

static bool is_same_inode(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool file_exchange_is_same(int fd, struct text content, const struct stat *found)
{
	struct stat expected;

	return fstat(fd, &expected) == 0 && is_same_inode(found, &expected) &&
	       has_content(fd, content);
}

/* Whether @found is the file that is to be replaced, with the content that was read. */
static bool is_expected(const struct file_exchange *exchange, const struct stat *found)
{
	return file_exchange_is_same(exchange->old_fd, exchange->old_content, found);
}

/* Exchanges the file of the temporary name with that of the target's; says what came out. */
static int exchange_once(const struct file_exchange *exchange, struct stat *ret_out)
{
	int dir = exchange->parent;

	if (renameat2(dir, exchange->temporary, dir, exchange->name, RENAME_EXCHANGE) < 0)
		return -errno;
	return fstatat(dir, exchange->temporary, ret_out, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/*
 * Another process had put a file there, @out, which the exchange took away: puts it back. If what
 * comes out then is not what was put there last, yet another file was put there meanwhile, and it
 * is the newest.
 */
static int put_back(const struct file_exchange *exchange, struct stat out)
{
	struct stat last;
	int r = fstat(exchange->new_fd, &last) < 0 ? -errno : 0;

	for (int i = 0; r == 0 && i < LIMIT_OPEN_RETRIES; i++) {
		struct stat put = out;

		r = exchange_once(exchange, &out);
		if (r == 0 && is_same_inode(&out, &last))
			return -ERROR_CHANGED;
		last = put;
	}
	return r < 0 ? r : -ERROR_CHANGED;
}

static int exchange_in_turn(const struct file_exchange *exchange, bool *ret_left)
{
	struct stat out;
	int r;

	if (fstatat(exchange->parent, exchange->name, &out, AT_SYMLINK_NOFOLLOW) < 0 ||
		!is_expected(exchange, &out))
		return -ERROR_CHANGED;
	r = exchange_once(exchange, &out);
	/* Some file systems cannot exchange two files. The look above must do there. */
	if (r == -EINVAL || r == -EOPNOTSUPP) {
		if (renameat(exchange->parent, exchange->temporary, exchange->parent,
			    exchange->name) < 0)
			return -errno;
		*ret_left = false;
		return 0;
	}
	if (r < 0)
		return r;
	if (!is_expected(exchange, &out))
		return put_back(exchange, out);
	*ret_left = true;
	return 0;
}

int file_exchange(const struct file_exchange *exchange, bool *ret_left)
{
	int r;

	if (exchange->marks < 0)
		return exchange_in_turn(exchange, ret_left);
	r = dir_take_turn(exchange->marks, exchange->name, exchange->call);
	if (r < 0)
		return r;
	r = exchange_in_turn(exchange, ret_left);
	dir_end_turn(exchange->marks, exchange->name);
	return r;
}

/* Renames @from to @to, which must not exist. */
static int rename_alone(int dir, const char *from, const char *to)
{
	if (renameat2(dir, from, dir, to, RENAME_NOREPLACE) == 0)
		return 0;
	/* Some file systems have no RENAME_NOREPLACE. */
	if (errno == EINVAL && faccessat(dir, to, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
		renameat(dir, from, dir, to) == 0)
		return 0;
	return -errno;
}

static int take_in_turn(const struct file_take *take)
{
	const int dir = take->parent;
	struct stat found;
	int r;

	if (fstatat(dir, take->name, &found, AT_SYMLINK_NOFOLLOW) < 0 ||
		!file_exchange_is_same(take->fd, take->content, &found))
		return -ERROR_CHANGED;
	r = rename_alone(dir, take->name, take->temporary);
	if (r == -EEXIST) {
		/* The tenant has put a file in the way. */
		unlinkat(dir, take->temporary, 0);
		r = rename_alone(dir, take->name, take->temporary);
	}
	if (r < 0)
		return r == -ENOENT ? -ERROR_CHANGED : r;
	if (fstatat(dir, take->temporary, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
		file_exchange_is_same(take->fd, take->content, &found))
		return 0;
	r = file_give_back(take);
	return r < 0 ? r : -ERROR_CHANGED;
}

int file_take(const struct file_take *take)
{
	int r;

	if (take->marks < 0)
		return take_in_turn(take);
	r = dir_take_turn(take->marks, take->name, take->call);
	if (r < 0)
		return r;
	r = take_in_turn(take);
	dir_end_turn(take->marks, take->name);
	return r;
}

int file_give_back(const struct file_take *take)
{
	int r = rename_alone(take->parent, take->temporary, take->name);

	if (r != -EEXIST)
		return r;
	unlinkat(take->parent, take->temporary, 0);
	return 0;
}
