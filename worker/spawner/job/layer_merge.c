// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a child of the spawner that sees the layers of one workspace and nothing else
 * (layer_folds.c). The layers are hostile: what they have can only change what the workspace itself
 * shows. Only whiteouts and the attribute of opaque directories are understood.
 */
#include "worker/spawner/job/layer_merge.h"

#include "common/cleanup.h"
#include "common/directory_read.h"
#include "common/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define OPAQUE "user.overlay.opaque"

/* A directory that is merged: of both layers, or of one alone (the other is NULL). */
struct level {
	DIR *high, *low;
	int from; /* of the two, the one whose mode and attributes it has */
	int to;
	bool high_is_read;
	bool is_opaque; /* it hides what the layers below the two have at its place */
	bool is_alone;  /* they show nothing here, for it or a directory above it is opaque */
};

struct work {
	struct level levels[LIMIT_CLEAR_DEPTH];
	size_t depth;
	char names[LIMIT_COPY_ATTRIBUTES], value[LIMIT_COPY_ATTRIBUTES];
};

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool is_opaque(int directory)
{
	char value;

	return fgetxattr(directory, OPAQUE, &value, 1) == 1 && value == 'y';
}

/*
 * As the upper of the two has it. Those of access control lists are lists of our own id's. That it
 * was copied up ("user.overlay.origin") stays: where no other layer has the directory, the kernel
 * leaves whiteouts out of its list for that reason only.
 */
static int copy_attributes(struct work *work, int from, int to)
{
	ssize_t n = flistxattr(from, work->names, sizeof(work->names));

	if (n < 0 && errno != ENOTSUP)
		return -errno;
	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(work->names + at) + 1) {
		const char *name = work->names + at;
		ssize_t size;

		if (strcmp(name, OPAQUE) == 0 ||
			(strncmp(name, "user.", 5) != 0 &&
				strncmp(name, "system.posix_acl_", 17) != 0))
			continue;
		size = fgetxattr(from, name, work->value, sizeof(work->value));
		if (size < 0 || fsetxattr(to, name, work->value, (size_t)size, 0) < 0)
			return -errno;
	}
	return 0;
}

/* What filling it has changed is set in the end. */
static int finish_merge_level(struct work *work, const struct level *level)
{
	struct timespec times[2];
	struct stat stat_buf;
	int r;

	if (fstat(level->from, &stat_buf) < 0)
		return -errno;
	times[0] = stat_buf.st_atim;
	times[1] = stat_buf.st_mtim;
	r = copy_attributes(work, level->from, level->to);
	if (r == 0 && level->is_opaque && fsetxattr(level->to, OPAQUE, "y", 1, 0) < 0)
		r = -errno;
	if (r == 0 &&
		(fchmod(level->to, stat_buf.st_mode & 03777) < 0 || futimens(level->to, times) < 0))
		r = -errno;
	return r;
}

static void close_level(struct work *work)
{
	struct level *level = &work->levels[--work->depth];

	if (level->high)
		closedir(level->high);
	if (level->low)
		closedir(level->low);
	close_fd(&level->to);
}

static int open_merged_directory(int parent, const char *name, DIR **ret)
{
	DIR *directory = directory_read(parent, name);

	if (!directory)
		return -errno;
	*ret = directory;
	return 0;
}

/* Enters the directory @name of @high and @low; -1: that layer has none that shows. */
static int enter_merge_level(
	struct work *work, int high, int low, const char *name, int to, bool opaque)
{
	bool is_alone = work->depth > 0 && work->levels[work->depth - 1].is_alone;
	struct level *level = &work->levels[work->depth];
	int r = 0;

	if (work->depth == LIMIT_CLEAR_DEPTH) {
		close_fd(&to);
		return -ENAMETOOLONG;
	}
	*level = (struct level){.to = to, .is_opaque = opaque};
	work->depth++;
	if (high >= 0)
		r = open_merged_directory(high, name, &level->high);
	if (r == 0 && low >= 0)
		r = open_merged_directory(low, name, &level->low);
	if (r < 0 || (!level->high && !level->low))
		return r < 0 ? r : -ENOENT;
	level->from = dirfd(level->high ? level->high : level->low);
	level->high_is_read = !level->high;
	level->is_opaque |= (level->high && is_opaque(dirfd(level->high))) ||
			    (level->low && is_opaque(dirfd(level->low)));
	level->is_alone = is_alone || level->is_opaque;
	return 0;
}

static bool is_whiteout(const struct stat *stat_buf)
{
	return S_ISCHR(stat_buf->st_mode) && stat_buf->st_rdev == 0;
}

static int merge_directory(
	struct work *work, const struct level *level, const char *name, bool in_high)
{
	int high = in_high ? dirfd(level->high) : -1, low = level->low ? dirfd(level->low) : -1, to;
	bool hides = false;
	struct stat stat_buf;
	DIR *upper = NULL;
	int r;

	if (in_high && low >= 0 && fstatat(low, name, &stat_buf, AT_SYMLINK_NOFOLLOW) < 0)
		low = errno == ENOENT ? -1 : low;
	else if (in_high && low >= 0 && !S_ISDIR(stat_buf.st_mode)) {
		/* A file or a whiteout: what is below it does not show. */
		hides = true;
		low = -1;
	}
	r = in_high && low >= 0 ? open_merged_directory(high, name, &upper) : 0;
	if (r < 0)
		return r;
	if (upper && is_opaque(dirfd(upper)))
		low = -1;
	if (upper)
		closedir(upper);
	if (mkdirat(level->to, name, 0700) < 0)
		return -errno;
	to = openat(level->to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (to < 0)
		return -errno;
	return enter_merge_level(work, high, low, name, to, hides);
}

static int merge_entry(struct work *work, const char *name, bool in_high)
{
	const struct level *level = &work->levels[work->depth - 1];
	int from = dirfd(in_high ? level->high : level->low);
	struct stat stat_buf;

	/* The upper one has it, too, and counts. */
	if (!in_high && level->high &&
		fstatat(dirfd(level->high), name, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (fstatat(from, name, &stat_buf, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISDIR(stat_buf.st_mode))
		return merge_directory(work, level, name, in_high);
	/* An overlay lists a directory that is alone as it is, with the whiteouts in it. */
	if (level->is_alone && is_whiteout(&stat_buf))
		return 0;
	if (linkat(from, name, level->to, name, 0) == 0)
		return 0;
	/* One device stands for many deleted files, until it has as many names as it can have. */
	if (errno == EMLINK && is_whiteout(&stat_buf))
		return mknodat(level->to, name, S_IFCHR, 0) < 0 ? -errno : 0;
	return -errno;
}

static int step_layer_merge(struct work *work)
{
	struct level *level = &work->levels[work->depth - 1];
	bool in_high = !level->high_is_read;
	const struct dirent *entry = NULL;
	int r;

	errno = 0;
	if (in_high || level->low)
		entry = readdir(in_high ? level->high : level->low);
	if (entry)
		return is_dots(entry->d_name) ? 0 : merge_entry(work, entry->d_name, in_high);
	if (errno)
		return -errno;
	if (in_high) {
		level->high_is_read = true;
		return 0;
	}
	r = finish_merge_level(work, level);
	if (r == 0)
		close_level(work);
	return r;
}

int layer_merge(int low, int high, int to)
{
	_cleanup_free_ struct work *work = calloc(1, sizeof(*work));
	int root = openat(to, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	if (!work || root < 0) {
		close_fd(&root);
		return work ? -errno : -ENOMEM;
	}
	r = enter_merge_level(work, high, low, ".", root, false);
	while (r == 0 && work->depth > 0)
		r = step_layer_merge(work);
	while (work->depth > 0)
		close_level(work);
	return r;
}
