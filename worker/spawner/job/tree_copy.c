// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a child of the spawner that sees these two trees and nothing else (tree_copier.c).
 * Missing links are found by a directory that has one name of each file with several: it has a name
 * that no file of the source has, and goes in the end.
 */
#include "worker/spawner/job/tree_copy.h"

#include "common/cleanup.h"
#include "common/directory_read.h"
#include "common/io.h"
#include "common/limits.h"
#include "worker/tree_clear.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#define STAT_BLOCK 512 /* the unit of st_blocks, stat(3type) */
#define PIECE      (256 * KIB)

struct level {
	DIR *from;
	int to;
};

struct work {
	struct level levels[LIMIT_CLEAR_DEPTH];
	size_t depth;
	uint64_t bytes, files, max_bytes, max_files;
	bool to_memory;
	int links; /* directory of files with several names; -1: none was met yet */
	char links_name[32];
	char names[LIMIT_COPY_ATTRIBUTES], value[LIMIT_COPY_ATTRIBUTES], piece[PIECE];
};

static int add_bytes(struct work *work, uint64_t bytes)
{
	work->bytes += bytes;
	return work->bytes > work->max_bytes ? -EFBIG : 0;
}

uint64_t tree_copy_taken(const struct statfs *status)
{
	return (uint64_t)(status->f_blocks - status->f_bfree) * (uint64_t)status->f_bsize +
	       (uint64_t)(status->f_files - status->f_ffree) * LIMIT_TEMPLATE_FILE_BYTES;
}

/* Whether the tmpfs has room for one more file. A file of a template does not grow meanwhile. */
static int check_memory(const struct work *work, int to, const struct stat *stat_buf)
{
	/* One with several names is copied once. */
	uint64_t blocks = stat_buf->st_nlink > 1 ? 0 : (uint64_t)stat_buf->st_blocks;
	struct statfs status;

	if (!work->to_memory)
		return 0;
	if (fstatfs(to, &status) < 0)
		return -errno;
	/* It may have become smaller since the copy began. */
	return tree_copy_taken(&status) + LIMIT_TEMPLATE_FILE_BYTES + blocks * STAT_BLOCK >
			       (uint64_t)status.f_blocks * (uint64_t)status.f_bsize
		       ? -EFBIG
		       : 0;
}

/* Attributes. */

static bool is_copied(const char *name)
{
	static const char user[] = "user.", overlay[] = "user.overlay.";

	return strncmp(name, user, strlen(user)) == 0 &&
	       strncmp(name, overlay, strlen(overlay)) != 0;
}

/* Attributes that cannot be read or kept are left out, as by a file system without them. */
static int copy_attributes(struct work *work, int from, int to)
{
	ssize_t n = flistxattr(from, work->names, sizeof(work->names));
	int r = 0;

	for (ssize_t at = 0; r == 0 && at < n; at += (ssize_t)strlen(work->names + at) + 1) {
		const char *name = work->names + at;
		ssize_t size = is_copied(name)
				       ? fgetxattr(from, name, work->value, sizeof(work->value))
				       : -1;

		if (size < 0)
			continue;
		r = add_bytes(work, (uint64_t)size);
		if (r == 0 && fsetxattr(to, name, work->value, (size_t)size, 0) < 0 &&
			(errno == ENOSPC || errno == EDQUOT))
			r = -errno;
	}
	return r;
}

static int finish_copied_directory(struct work *work, int from, int to, const struct stat *stat_buf)
{
	const struct timespec times[] = {stat_buf->st_atim, stat_buf->st_mtim};
	mode_t kept = S_ISDIR(stat_buf->st_mode) ? 03777 : 01777;
	int r = copy_attributes(work, from, to);

	if (r == 0 && (fchmod(to, stat_buf->st_mode & kept) < 0 || futimens(to, times) < 0))
		r = -errno;
	return r;
}

/* Regular files. */

static int copy_piece(struct work *work, int from, int to, off_t begin, off_t end)
{
	while (begin < end) {
		off_t left = end - begin;
		ssize_t n = pread(from, work->piece,
			left < (off_t)sizeof(work->piece) ? (size_t)left : sizeof(work->piece),
			begin);
		int r;

		if (n <= 0)
			return n < 0 ? -errno : 0;
		r = add_bytes(work, (uint64_t)n);
		if (r == 0)
			r = io_write(to, work->piece, (size_t)n, begin);
		if (r < 0)
			return r;
		begin += n;
	}
	return 0;
}

/* A file may have holes of any size: lseek(2). */
static int copy_data(struct work *work, int from, int to, off_t size)
{
	off_t begin = 0, end;
	int r = 0;

	while (r == 0 && begin < size) {
		begin = lseek(from, begin, SEEK_DATA);
		if (begin < 0)
			break;
		end = lseek(from, begin, SEEK_HOLE);
		if (end < 0 || end > size)
			end = size;
		r = copy_piece(work, from, to, begin, end);
		begin = end;
	}
	if (r == 0 && ftruncate(to, size) < 0)
		r = -errno;
	return r;
}

static int copy_content(struct work *work, int from, int to, const struct stat *stat_buf)
{
	if (stat_buf->st_size == 0)
		return 0;
	if (ioctl(to, FICLONE, from) == 0) {
		struct stat cloned;

		/* The file may have grown since it was looked at. */
		if (fstat(to, &cloned) < 0)
			return -errno;
		return add_bytes(work, (uint64_t)cloned.st_blocks * STAT_BLOCK);
	}
	return copy_data(work, from, to, stat_buf->st_size);
}

static int make_file(struct work *work, int parent, int to_parent, const char *name)
{
	_cleanup_close_ int from =
		openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	_cleanup_close_ int to = -1;
	struct stat stat_buf;
	int r;

	if (from < 0)
		return errno == ENOENT || errno == ELOOP || errno == ENXIO ? 0 : -errno;
	if (fstat(from, &stat_buf) < 0)
		return -errno;
	if (!S_ISREG(stat_buf.st_mode))
		return 0; /* it was exchanged */
	to = openat(to_parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	r = copy_content(work, from, to, &stat_buf);
	return r == 0 ? finish_copied_directory(work, from, to, &stat_buf) : r;
}

/* Hard links. */

static int open_links(struct work *work)
{
	uint64_t number;

	if (work->links >= 0)
		return 0;
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -EIO;
	snprintf(work->links_name, sizeof(work->links_name), ".cloister-%016llx",
		(unsigned long long)number);
	if (mkdirat(work->levels[0].to, work->links_name, 0700) < 0)
		return -errno;
	work->links = openat(work->levels[0].to, work->links_name,
		O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return work->links < 0 ? -errno : 0;
}

/* The second name of a file is a link to the copy that was made of the first. */
static int copy_linked(
	struct work *work, int parent, int to_parent, const char *name, const struct stat *stat_buf)
{
	char known[64];
	int r = open_links(work);

	if (r < 0)
		return r;
	snprintf(known, sizeof(known), "%llx-%llx", (unsigned long long)stat_buf->st_dev,
		(unsigned long long)stat_buf->st_ino);
	if (linkat(work->links, known, to_parent, name, 0) == 0)
		return 0;
	if (errno != ENOENT && errno != EMLINK)
		return -errno;
	r = make_file(work, parent, to_parent, name);
	if (r == 0 && linkat(to_parent, name, work->links, known, 0) < 0 && errno != EEXIST &&
		errno != EMLINK && errno != ENOENT)
		r = -errno;
	return r;
}

static int drop_links(struct work *work)
{
	uint64_t removed;
	int r = work->links < 0 ? 0 : tree_clear(work->links, -1, &removed);

	if (r == 0 && work->links >= 0 &&
		unlinkat(work->levels[0].to, work->links_name, AT_REMOVEDIR) < 0)
		r = -errno;
	close_fd(&work->links);
	return r;
}

/* The tree. */

static int copy_symlink(int parent, int to_parent, const char *name, const struct stat *stat_buf)
{
	const struct timespec times[] = {stat_buf->st_atim, stat_buf->st_mtim};
	char target[PATH_MAX];
	ssize_t n = readlinkat(parent, name, target, sizeof(target) - 1);

	if (n < 0)
		return errno == ENOENT || errno == EINVAL ? 0 : -errno;
	target[n] = '\0';
	if (symlinkat(target, to_parent, name) < 0 ||
		utimensat(to_parent, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

static int copy_fifo(int to_parent, const char *name, const struct stat *stat_buf)
{
	const struct timespec times[] = {stat_buf->st_atim, stat_buf->st_mtim};

	if (mkfifoat(to_parent, name, 0600) < 0 ||
		fchmodat(to_parent, name, stat_buf->st_mode & 01777, 0) < 0 ||
		utimensat(to_parent, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

/* Takes @to, a directory of the copy. */
static int enter_copied_directory(struct work *work, int parent, const char *name, int to)
{
	DIR *directory = directory_read(parent, name);

	if (!directory) {
		int r = -errno;

		close_fd(&to);
		return r;
	}
	work->levels[work->depth++] = (struct level){directory, to};
	return 0;
}

static int copy_directory(struct work *work, int parent, int to_parent, const char *name)
{
	int to, r;

	if (work->depth == LIMIT_CLEAR_DEPTH)
		return -ENAMETOOLONG;
	if (mkdirat(to_parent, name, 0700) < 0)
		return -errno;
	to = openat(to_parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (to < 0)
		return -errno;
	r = enter_copied_directory(work, parent, name, to);
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? 0 : r; /* it was exchanged */
}

static int copy_entry(struct work *work, const char *name)
{
	const struct level *level = &work->levels[work->depth - 1];
	int parent = dirfd(level->from);
	struct stat stat_buf;
	int r;

	if (fstatat(parent, name, &stat_buf, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (++work->files > work->max_files)
		return -EOVERFLOW;
	r = check_memory(work, level->to, &stat_buf);
	if (r < 0)
		return r;
	switch (stat_buf.st_mode & S_IFMT) {
	case S_IFREG:
		return stat_buf.st_nlink > 1 ? copy_linked(work, parent, level->to, name, &stat_buf)
					     : make_file(work, parent, level->to, name);
	case S_IFDIR:
		return copy_directory(work, parent, level->to, name);
	case S_IFLNK:
		return copy_symlink(parent, level->to, name, &stat_buf);
	case S_IFIFO:
		return copy_fifo(level->to, name, &stat_buf);
	default:
		return 0;
	}
}

static void close_level(struct work *work)
{
	struct level *level = &work->levels[--work->depth];

	closedir(level->from);
	close_fd(&level->to);
}

/* All of the deepest directory is copied: what writing in it has changed is set in the end. */
static int leave_copied_directory(struct work *work)
{
	const struct level *level = &work->levels[work->depth - 1];
	struct stat stat_buf;
	int r = work->depth == 1 ? drop_links(work) : 0;

	if (r == 0 && fstat(dirfd(level->from), &stat_buf) < 0)
		r = -errno;
	if (r == 0)
		r = finish_copied_directory(work, dirfd(level->from), level->to, &stat_buf);
	if (r == 0)
		close_level(work);
	return r;
}

static int step_tree_copy(struct work *work)
{
	const struct dirent *entry;

	errno = 0;
	entry = readdir(work->levels[work->depth - 1].from);
	if (!entry)
		return errno ? -errno : leave_copied_directory(work);
	if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
		return 0;
	return copy_entry(work, entry->d_name);
}

int tree_copy(const struct tree_copy *copy)
{
	_cleanup_free_ struct work *work = calloc(1, sizeof(*work));
	int to = openat(copy->to, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	if (!work || to < 0) {
		close_fd(&to);
		return work ? -errno : -ENOMEM;
	}
	work->links = -1;
	work->max_bytes = copy->max_bytes;
	work->max_files = copy->max_files;
	work->to_memory = copy->to_memory;
	r = enter_copied_directory(work, copy->from, ".", to);
	while (r == 0 && work->depth > 0)
		r = step_tree_copy(work);
	close_fd(&work->links);
	while (work->depth > 0)
		close_level(work);
	return r;
}
