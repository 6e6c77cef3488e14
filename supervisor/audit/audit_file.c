// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. An earlier cloisterd, or any process that may write to the file, wrote its
 * content. The chain continues from the last intact line; bytes behind that stay in the file and
 * are reported.
 */
#include "supervisor/audit/audit_file.h"

#include "common/cleanup.h"
#include "common/directory_read.h"
#include "common/io.h"
#include "common/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEQ_DIGITS 12 /* at least */

/*
 * One writer for each file, where the file system supports locks. The lock belongs to the open file
 * description, not to the process: fcntl(2).
 */
static int take_lock(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_SETLK, &lock) < 0 && (errno == EAGAIN || errno == EACCES) ? -EAGAIN
											 : 0;
}

static int open_regular(int directory_fd, const char *name, struct stat *ret_stat)
{
	/* O_NONBLOCK: if the name is a FIFO, open(2) must not wait. */
	_cleanup_close_ int fd = openat(directory_fd, name,
		O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0640);
	int r;

	if (fd < 0)
		return -errno;
	if (fstat(fd, ret_stat) < 0)
		return -errno;
	if (!S_ISREG(ret_stat->st_mode))
		return -EINVAL;
	r = take_lock(fd);
	return r < 0 ? r : TAKE_FD(fd);
}

/* Reads at most the last LIMIT_AUDIT_TAIL_BYTES of @fd, malloc'ed. */
static int read_tail(int fd, struct text *ret)
{
	off_t size = lseek(fd, 0, SEEK_END);
	off_t start =
		size > (off_t)LIMIT_AUDIT_TAIL_BYTES ? size - (off_t)LIMIT_AUDIT_TAIL_BYTES : 0;
	_cleanup_free_ char *tail = NULL;
	ssize_t len;

	if (size < 0)
		return -errno;
	tail = malloc((size_t)(size - start) + 1);
	if (!tail)
		return -ENOMEM;
	len = io_read(fd, tail, (size_t)(size - start), start);
	if (len < 0)
		return (int)len;
	*ret = (struct text){TAKE_PTR(tail), (size_t)len};
	return 0;
}

/*
 * Finds the last intact line in @tail, and how many bytes follow it. Returns false if there is
 * none.
 */
static bool find_last(struct text tail, struct audit_file *file)
{
	const char *last = tail.len > 0 ? memrchr(tail.data, '\n', tail.len) : NULL;
	size_t end = tail.len, start = last ? (size_t)(last - tail.data) + 1 : 0;
	struct audit_link link;

	/* Only the newline may be missing. */
	if (audit_link_read((struct text){tail.data + start, end - start}, &link) == 0) {
		file->last = link.self;
		file->in_line = true;
		return true;
	}
	while (end > 0) {
		const char *newline = memrchr(tail.data, '\n', end), *before;

		if (!newline)
			return false;
		end = (size_t)(newline - tail.data);
		before = memrchr(tail.data, '\n', end);
		start = before ? (size_t)(before - tail.data) + 1 : 0;
		if (audit_link_read((struct text){tail.data + start, end - start}, &link) == 0) {
			file->last = link.self;
			file->torn = tail.len - end - 1;
			file->in_line = file->torn > 0 && tail.data[tail.len - 1] != '\n';
			file->torn -= file->torn > 0 && !file->in_line;
			return true;
		}
	}
	return false;
}

/* Finds out whether @fd holds a chain to continue. */
static int find_chain(int fd, struct audit_file *file, bool *ret_found)
{
	struct text tail = {NULL, 0};
	int r = read_tail(fd, &tail);

	if (r < 0)
		return r;
	*ret_found = find_last(tail, file);
	if (!*ret_found && tail.len > 0) {
		file->torn = tail.len;
		file->in_line = tail.data[tail.len - 1] != '\n';
		file->torn -= !file->in_line;
	}
	free((void *)tail.data);
	return 0;
}

/* The files NAME.SEQ of a directory. */
struct full_files {
	uint64_t count, oldest, newest;
};

static char *full_name(const char *name, uint64_t seq)
{
	char *full;

	return asprintf(&full, "%s.%0*" PRIu64, name, SEQ_DIGITS, seq) < 0 ? NULL : full;
}

/* Whether @entry is the name of a full file; a name in another form is not cloisterd's. */
static bool is_full_name(const char *entry, const char *name, uint64_t *ret_seq)
{
	size_t len = strlen(name);
	const char *digits = entry + len + 1;

	if (strncmp(entry, name, len) != 0 || entry[len] != '.' || strlen(digits) < SEQ_DIGITS ||
		strspn(digits, "0123456789") != strlen(digits))
		return false;
	errno = 0;
	*ret_seq = strtoull(digits, NULL, 10);
	return errno == 0;
}

static int list_full(int directory_fd, const char *name, struct full_files *ret)
{
	struct full_files files = {.oldest = UINT64_MAX};
	DIR *directory = directory_read(directory_fd, ".");
	const struct dirent *entry;
	uint64_t seq;

	if (!directory)
		return -errno;
	while ((entry = readdir(directory))) {
		if (!is_full_name(entry->d_name, name, &seq))
			continue;
		files.count++;
		if (seq < files.oldest)
			files.oldest = seq;
		if (seq > files.newest)
			files.newest = seq;
	}
	closedir(directory);
	*ret = files;
	return 0;
}

/* Continues the chain of the file @former, unless that of @file is longer. */
static bool follow_chain(int directory_fd, const char *former, struct audit_file *file)
{
	_cleanup_close_ int fd = -1;
	struct audit_file found = *file;
	struct stat stat_buf = {0};
	bool is_there = false;

	if (!former)
		return false;
	fd = openat(
		directory_fd, former, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &stat_buf) < 0 || !S_ISREG(stat_buf.st_mode) ||
		find_chain(fd, &found, &is_there) < 0 || !is_there ||
		found.last.seq <= file->last.seq)
		return false;
	/* Torn bytes there are at the end of their own file. */
	file->last = found.last;
	file->torn = found.torn;
	return true;
}

/* Continues the chain of the previous file, which cloisterd or logrotate(8) has renamed. */
static bool follow_former(int directory_fd, const char *name, struct audit_file *file)
{
	_cleanup_free_ char *rotated = NULL, *full = NULL;
	struct full_files files = {0};
	bool found;

	if (asprintf(&rotated, "%s.1", name) < 0)
		return false;
	found = follow_chain(directory_fd, rotated, file);
	if (list_full(directory_fd, name, &files) < 0 || files.count == 0)
		return found;
	full = full_name(name, files.newest);
	return follow_chain(directory_fd, full, file) || found;
}

int audit_file_open(int directory_fd, const char *name, struct audit_file *ret)
{
	struct audit_file file = {.fd = -1, .last = audit_chain_new()};
	struct stat stat_buf = {0};
	bool found;
	int r;

	file.fd = open_regular(directory_fd, name, &stat_buf);
	if (file.fd < 0)
		return file.fd;
	file.dev = stat_buf.st_dev;
	file.ino = stat_buf.st_ino;
	file.size = (uint64_t)stat_buf.st_size;
	r = find_chain(file.fd, &file, &found);
	if (r < 0) {
		audit_file_close(&file);
		return r;
	}
	if (!found && file.torn == 0)
		found = file.from_former = follow_former(directory_fd, name, &file);
	file.new_chain = !found;
	*ret = file;
	return 0;
}

/* Whether @name is the open file. */
static bool is_named(const struct audit_file *file, int directory_fd, const char *name)
{
	struct stat stat_buf;

	return file->fd >= 0 && fstatat(directory_fd, name, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0 &&
	       stat_buf.st_dev == file->dev && stat_buf.st_ino == file->ino;
}

int audit_file_reopen(struct audit_file *file, int directory_fd, const char *name)
{
	struct stat stat_buf = {0};
	struct audit_file found = {0};
	bool is_there = false;
	int fd, r = 0;

	/*
	 * The lock conflicts with any other descriptor, even one of ours: do not open the same file
	 * again.
	 */
	if (is_named(file, directory_fd, name))
		return 0;
	fd = open_regular(directory_fd, name, &stat_buf);
	if (fd < 0)
		return fd;
	/* Other programs may have written to this file. Only its last byte must be a newline. */
	if (stat_buf.st_size > 0)
		r = find_chain(fd, &found, &is_there);
	if (r < 0) {
		close(fd);
		return r;
	}
	audit_file_close(file);
	file->fd = fd;
	file->dev = stat_buf.st_dev;
	file->ino = stat_buf.st_ino;
	file->size = (uint64_t)stat_buf.st_size;
	file->in_line = found.in_line;
	return 0;
}

static int remove_oldest(int directory_fd, const char *name, uint64_t keep)
{
	struct full_files files = {0};
	int r = list_full(directory_fd, name, &files);

	while (r == 0 && files.count > 0 && files.count >= keep) {
		_cleanup_free_ char *oldest = full_name(name, files.oldest);

		if (!oldest)
			return -ENOMEM;
		if (unlinkat(directory_fd, oldest, 0) < 0)
			return -errno;
		r = list_full(directory_fd, name, &files);
	}
	return r;
}

int audit_file_rename_full(
	const struct audit_file *file, int directory_fd, const char *name, uint64_t keep)
{
	_cleanup_free_ char *full = full_name(name, file->last.seq);
	struct stat stat_buf;
	int r;

	if (!full)
		return -ENOMEM;
	if (!is_named(file, directory_fd, name))
		return 0;
	r = remove_oldest(directory_fd, name, keep);
	if (r < 0)
		return r;
	/* Not every file system has RENAME_NOREPLACE. Only cloisterd makes such names, so the check
	 * is enough. */
	if (fstatat(directory_fd, full, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return renameat(directory_fd, name, directory_fd, full) < 0 ? -errno : 0;
}

void audit_file_close(struct audit_file *file)
{
	close_fd(&file->fd);
}
