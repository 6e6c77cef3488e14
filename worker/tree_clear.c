// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a job of the files process and in the spawner's home cleaner, each with the id that the
 * files belong to. A hostile tree may be arbitrarily deep: a directory at the depth limit is moved
 * up to the root and cleared there, so neither stack nor descriptors grow. unlinkat(2).
 */
#include "worker/tree_clear.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct clear {
	int own_fds;
	DIR *levels[LIMIT_CLEAR_DEPTH];
	char names[LIMIT_CLEAR_DEPTH][NAME_MAX + 1]; /* name of each level in the level above */
	size_t depth;
	uint64_t removed;
	uint64_t moved; /* counts the names given, so that none is used twice */
	/* Since the root was last read from its beginning: */
	bool moved_up;         /* a directory was moved up */
	int kept;              /* one could not be removed, with this -errno; 0: none */
	uint64_t removed_then; /* how many were removed until then */
};

/*
 * The owner of a directory without permissions can grant them again. Whoever changes the tree
 * meanwhile can put a link in the place of the name, but not in that of a descriptor.
 */
static int grant(const struct clear *clear, int parent, const char *name)
{
	_cleanup_close_ int fd = -1;
	char number[16];

	if (clear->own_fds < 0)
		return fchmodat(parent, name, 0700, 0);
	fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	snprintf(number, sizeof(number), "%d", fd);
	return fd < 0 ? -1 : fchmodat(clear->own_fds, number, 0700, 0);
}

static int enter_cleared(struct clear *clear, int parent, const char *name)
{
	_cleanup_close_ int fd =
		openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	DIR *directory;

	if (fd < 0 && errno == EACCES && grant(clear, parent, name) == 0)
		fd = openat(
			parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	(void)fchmod(fd, 0700);
	directory = fdopendir(fd);
	if (!directory)
		return -errno;
	TAKE_FD(fd);
	snprintf(clear->names[clear->depth], sizeof(clear->names[0]), "%s", name);
	clear->levels[clear->depth++] = directory;
	return 0;
}

/* Removes the entry @name of the deepest level, or descends into it. */
static int remove_cleared_entry(struct clear *clear, const char *name)
{
	int parent = dirfd(clear->levels[clear->depth - 1]);
	char moved[64];
	int r;

	if (unlinkat(parent, name, 0) == 0) {
		clear->removed++;
		return 0;
	}
	if (errno != EISDIR && errno != EPERM)
		return errno == ENOENT ? 0 : -errno;
	if (clear->depth < LIMIT_CLEAR_DEPTH)
		return enter_cleared(clear, parent, name);
	/*
	 * At the depth limit: move it to the root under a free name. Moving a directory needs write
	 * permission on it.
	 */
	(void)!grant(clear, parent, name);
	do
		snprintf(moved, sizeof(moved), ".cloister-cleared-%llu",
			(unsigned long long)clear->moved++);
	while ((r = renameat2(parent, name, dirfd(clear->levels[0]), moved, RENAME_NOREPLACE)) <
			0 &&
		errno == EEXIST);
	/* If the move failed, the removal of the parent fails too and reports the error. */
	clear->moved_up = clear->moved_up || r == 0;
	return 0;
}

/* The deepest level has been read to its end: removes it, unless it is the root. */
static int leave_cleared(struct clear *clear)
{
	size_t top = clear->depth - 1;

	if (top == 0) {
		/*
		 * A directory that was moved up may lie behind the current reading position. One
		 * that could not be moved, because the disk was full, can be when others are gone.
		 */
		if (clear->moved_up || (clear->kept < 0 && clear->removed > clear->removed_then)) {
			clear->moved_up = false;
			clear->kept = 0;
			clear->removed_then = clear->removed;
			rewinddir(clear->levels[0]);
			return 0;
		}
		if (clear->kept < 0)
			return clear->kept;
	} else if (unlinkat(dirfd(clear->levels[top - 1]), clear->names[top], AT_REMOVEDIR) < 0) {
		/* The first is the reason of those above it. */
		if (clear->kept == 0)
			clear->kept = -errno;
	} else {
		clear->removed++;
	}
	closedir(clear->levels[top]);
	clear->depth--;
	return 0;
}

static int step_tree_clear(struct clear *clear)
{
	struct dirent *entry;

	errno = 0;
	entry = readdir(clear->levels[clear->depth - 1]);
	if (!entry)
		return errno ? -errno : leave_cleared(clear);
	if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
		return 0;
	return remove_cleared_entry(clear, entry->d_name);
}

int tree_clear(int fd, int own_fds, uint64_t *ret_removed)
{
	_cleanup_free_ struct clear *clear = calloc(1, sizeof(*clear));
	int r;

	if (!clear)
		return -ENOMEM;
	clear->own_fds = own_fds;
	r = enter_cleared(clear, fd, ".");
	while (r == 0 && clear->depth > 0)
		r = step_tree_clear(clear);
	while (clear->depth > 0)
		closedir(clear->levels[--clear->depth]);
	*ret_removed = clear->removed;
	return r;
}
