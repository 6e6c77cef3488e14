// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a job of the files process: a sweep when the workspace is opened and when its size is
 * asked for, a clearing before it is removed. Only a process with the workspace's id can delete its
 * files.
 */
#include "worker/files/file_sweep.h"

#include "common/cleanup.h"
#include "common/directory_read.h"
#include "common/layer_stack.h"
#include "worker/files/walk/dir_marks.h"
#include "worker/files/walk/tree_walk.h"
#include "worker/tree_clear.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define OLD_SECONDS 3600
#define STAT_BLOCK  512 /* the unit of st_blocks, stat(3type) */
#define US_PER_S    1000000ULL
#define NS_PER_S    1000000000ULL

/*
 * Whether the write that the temporary file @name belongs to is over. No other write ever has the
 * name, so a call without a mark does not come back.
 */
static bool is_call_over(int dirfd, const char *name)
{
	uint64_t call = strtoull(strrchr(name, '-') + 1, NULL, 16);

	return !dir_has_call(dirfd, call);
}

/*
 * Whether no process writes the file any more: also one on another host of a network file system,
 * whose mark is not seen here. A read lease is refused while any process has the file open for
 * writing. On a file system without leases the file's age decides.
 */
static bool is_abandoned(int fd, const struct stat *st)
{
	if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0)
		return true;
	return st->st_ctime + OLD_SECONDS < time(NULL);
}

static void remove_abandoned(const struct walk_entry *entry)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	fd = openat(entry->dirfd, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
		is_call_over(entry->dirfd, entry->name) && is_abandoned(fd, &st))
		unlinkat(entry->dirfd, entry->name, 0);
}

/* Whether the workspace has closed its own directory to itself: it can open it again. */
static bool is_hidden(const struct stat *st)
{
	return S_ISDIR(st->st_mode) && st->st_uid == geteuid() &&
	       (st->st_mode & (S_IRUSR | S_IXUSR)) != (S_IRUSR | S_IXUSR);
}

/* Each of a file's names has its part, so that a file counts once. */
static void measure_swept(const struct walk_entry *entry, struct files_end *sum)
{
	struct stat st;
	bool is_directory = entry->type == DT_DIR;

	if (fstatat(entry->dirfd, entry->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return; /* it has gone */
	sum->files_searched += is_directory;
	sum->files_skipped += is_hidden(&st);
	sum->size += (uint64_t)st.st_blocks * STAT_BLOCK /
		     (is_directory || st.st_nlink == 0 ? 1 : st.st_nlink);
	sum->count += !is_directory;
}

static int clean_entry(const struct walk_entry *entry, void *context)
{
	(void)context;
	if (tree_walk_is_temporary(entry->name))
		remove_abandoned(entry);
	return 0;
}

static int count_swept(const struct walk_entry *entry, void *context)
{
	measure_swept(entry, context);
	return 0;
}

static int clean_and_count(const struct walk_entry *entry, void *context)
{
	(void)clean_entry(entry, NULL);
	return count_swept(entry, context);
}

/* Visits all of @root_fd, and adds to @sum whether a part of it was out of sight. */
static void walk_all(int root_fd, walk_visitor visit, struct files_end *sum)
{
	struct walk walk = {
		.path = TEXT_LITERAL("."),
		.recursive = true,
		.temporaries = true,
		.visit = visit,
		.context = sum,
	};
	_cleanup_close_ int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct walk_end end = {0};
	struct stat st;

	sum->truncated |=
		fd < 0 || tree_walk(&walk, fd, &end) < 0 || end.unreadable > 0 || end.truncated;
	/* What lies deeper than a walk goes was put there to be out of its sight. */
	sum->files_skipped +=
		end.truncated || (fd < 0 && fstat(root_fd, &st) == 0 && is_hidden(&st));
}

/*
 * What the overlay shows may be a template's, and what only a checkpoint still has is not shown: so
 * the layers are measured, each by itself. While two of them are being made one, each of their
 * files has a name in a third place, and counts half.
 */
static void count_layers(int layers, struct files_end *sum)
{
	DIR *directory = directory_read(layers, ".");
	const struct dirent *entry;

	sum->truncated |= !directory;
	if (!directory)
		return;
	while ((entry = readdir(directory))) {
		_cleanup_close_ int layer = -1;

		if (strncmp(entry->d_name, LAYERS_UPPER, strlen(LAYERS_UPPER)) != 0)
			continue;
		layer = openat(
			layers, entry->d_name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (layer < 0)
			sum->truncated = true;
		else
			walk_all(layer, count_swept, sum);
	}
	closedir(directory);
}

static uint64_t used_us(void)
{
	struct timespec used = {0};

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * US_PER_S + (uint64_t)used.tv_nsec / (NS_PER_S / US_PER_S);
}

void file_sweep(
	const struct root *root, const struct files_sweep *request, struct files_end *ret_end)
{
	const struct sched_param none = {0};

	/* A tenant that opens a file which this process has a lease on must not end it. */
	signal(SIGIO, SIG_IGN);
	if (!request->prompt)
		(void)sched_setscheduler(0, SCHED_IDLE, &none);
	*ret_end = (struct files_end){0};
	if (root->layers < 0) {
		walk_all(root->fd, clean_and_count, ret_end);
	} else {
		walk_all(root->fd, clean_entry, &(struct files_end){0});
		count_layers(root->layers, ret_end);
	}
	ret_end->lines = used_us();
}

void file_clear(const struct root *root, struct reply *reply)
{
	struct files_end end = {.path = TEXT_LITERAL(".")};
	uint64_t removed = 0;
	int r = tree_clear(root->fd, -1, &removed);

	if (r == -ENOMEM)
		reply_error(reply, TOOL_EXECUTION_ERROR, "Out of memory");
	else if (r < 0)
		reply_error(reply, tool_error_from_errno(-r), "%s", tool_errno_sentence(-r));
	if (r < 0)
		return;
	end.count = removed;
	reply_end(reply, &end);
}
