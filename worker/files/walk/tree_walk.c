// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process. The walk keeps a stack with a level for each directory that it is in.
 * Names and entries of all levels lie in two arrays that grow and shrink with the stack. When more
 * than LIMIT_WALK_OPEN_LEVELS directories are open, the uppermost but the first is closed. It is
 * opened again by name, from the first level down, when the walk returns to it, and must then be
 * the same inode. ".." is never used, because a directory that is moved takes its ".." along.
 */
#include "worker/files/walk/tree_walk.h"

#include "common/array.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/files/walk/gitignore.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define BATCH_BYTES      65536
#define TEMPORARY_NAME   ".cloister-"
#define TEMPORARY_DIGITS 16
#define DIRECTORY_FLAGS  (O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

struct entry {
	uint32_t name; /* offset in names */
	unsigned char type;
};

struct level {
	int fd;       /* -1: closed for now */
	dev_t device; /* with inode: identity of a closed level */
	ino_t inode;
	size_t path_len;
	size_t names_len; /* length of names before this level's names */
	size_t first;     /* index of its first entry */
	size_t next;      /* index of the next entry to visit */
	bool left_out;    /* git ignores the directory: visit only tracked files */
};

struct walker {
	const struct walk *walk;
	struct gitignore *ignore; /* NULL: ignore nothing */
	struct walk_end end;

	struct level *levels;
	size_t depth, levels_size;
	size_t open_from; /* levels[0] and the levels from here on are open */

	char *names; /* one after the other, each with a NUL */
	size_t names_len, names_size;
	struct entry *entries;
	size_t count, entries_size;
	bool has_rules; /* the directory read last has a .gitignore or a .git */

	char batch[BATCH_BYTES] __attribute__((aligned(__alignof__(struct dirent64))));
	char path[LIMIT_WALK_PATH_BYTES + 1]; /* of the entry visited last */
};

static void walker_free(struct walker **pointer)
{
	struct walker *walker = *pointer;

	if (!walker)
		return;
	/* levels[0].fd is borrowed */
	for (size_t i = 1; i < walker->depth; i++)
		close_fd(&walker->levels[i].fd);
	gitignore_free(walker->ignore);
	free(walker->levels);
	free(walker->names);
	free(walker->entries);
	free(walker);
}

/*
 * Whether the process itself lacks a resource, which ends the walk. Any other error costs one
 * directory.
 */
static bool is_our_fault(int error_number)
{
	return error_number == EMFILE || error_number == ENFILE || error_number == ENOMEM;
}

/* Counts a directory at @depth as unreadable, unless its entries would be above min_depth. */
static void note_unreadable(struct walker *walker, size_t depth)
{
	if (depth + 1 >= walker->walk->min_depth)
		walker->end.unreadable++;
}

bool tree_walk_is_temporary(const char *name)
{
	size_t prefix = strlen(TEMPORARY_NAME);

	return strncmp(name, TEMPORARY_NAME, prefix) == 0 &&
	       strspn(name + prefix, "0123456789abcdef") == TEMPORARY_DIGITS &&
	       name[prefix + TEMPORARY_DIGITS] == '\0';
}

/* Whether the walk considers a name that begins with a dot. */
static bool is_visited(struct walker *walker, const char *name)
{
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return false;
	if (strcmp(name, ".gitignore") == 0 || strcmp(name, ".git") == 0)
		walker->has_rules = true;
	return walker->walk->temporaries || !tree_walk_is_temporary(name);
}

static int add_entry(struct walker *walker, const struct dirent64 *dirent)
{
	size_t len = strlen(dirent->d_name) + 1;
	int r;

	if (dirent->d_name[0] == '.' && !is_visited(walker, dirent->d_name))
		return 0;
	if (len > LIMIT_NAME_BYTES + 1 ||
		walker->names_len + len + walker->count * sizeof(struct entry) >
			LIMIT_WALK_NAMES_BYTES) {
		walker->end.truncated = true;
		return 0;
	}
	/* first_bytes() may read behind the last name. */
	r = array_reserve(
		&walker->names, &walker->names_size, walker->names_len + len + sizeof(uint64_t), 1);
	if (r == 0)
		r = array_reserve(&walker->entries, &walker->entries_size, walker->count + 1,
			sizeof(struct entry));
	if (r < 0)
		return r;
	memcpy(walker->names + walker->names_len, dirent->d_name, len);
	walker->entries[walker->count++] = (struct entry){
		.name = (uint32_t)walker->names_len,
		.type = dirent->d_type,
	};
	walker->names_len += len;
	return 0;
}

/*
 * The first bytes of @name as a number, whose order is theirs. What lies behind a shorter name does
 * not count, since its NUL differs from any other name's byte there.
 */
static uint64_t first_bytes(const char *name)
{
	uint64_t bytes;

	memcpy(&bytes, name, sizeof(bytes));
	return be64toh(bytes);
}

/* @context is the names without what the compared ones begin with. */
static int compare_entries(const void *a, const void *b, void *context)
{
	const char *names = context;
	const char *left = names + ((const struct entry *)a)->name;
	const char *right = names + ((const struct entry *)b)->name;
	uint64_t left_bytes = first_bytes(left), right_bytes = first_bytes(right);

	if (left_bytes != right_bytes)
		return left_bytes < right_bytes ? -1 : 1;
	return strcmp(left, right);
}

/* Files are often numbered: names that begin alike are compared behind that. */
static void sort_entries(const struct walker *walker, struct entry *entries, size_t count)
{
	const char *first = walker->names + entries[0].name;
	size_t alike = strlen(first);

	for (size_t i = 1; i < count; i++)
		while (strncmp(walker->names + entries[i].name, first, alike) != 0)
			alike--;
	qsort_r(entries, count, sizeof(*entries), compare_entries, walker->names + alike);
}

/* Whether there is no room for another name of any length. */
static bool walk_is_full(const struct walker *walker)
{
	return walker->names_len + LIMIT_NAME_BYTES + 1 + walker->count * sizeof(struct entry) >
	       LIMIT_WALK_NAMES_BYTES;
}

/* Adds the entries of @fd, sorted. */
static int read_directory(struct walker *walker, int fd)
{
	size_t first = walker->count;

	walker->has_rules = false;
	for (;;) {
		ssize_t len;

		/*
		 * A tenant that keeps adding names while they are read must not keep the walk
		 * going.
		 */
		if (walk_is_full(walker)) {
			walker->end.truncated = true;
			break;
		}
		len = getdents64(fd, walker->batch, sizeof(walker->batch));
		if (len < 0)
			note_unreadable(walker, walker->depth - 1);
		if (len <= 0)
			break;
		for (ssize_t at = 0; at < len;) {
			const struct dirent64 *dirent = (const void *)(walker->batch + at);
			int r = add_entry(walker, dirent);

			if (r < 0)
				return r;
			at += dirent->d_reclen;
		}
	}
	if (walker->count > first)
		sort_entries(walker, walker->entries + first, walker->count - first);
	return 0;
}

/* Closes the uppermost open level but the first, and notes its identity. */
static void park_level(struct walker *walker)
{
	struct level *level = &walker->levels[walker->open_from++];
	struct stat st = {0};

	(void)fstat(level->fd, &st); /* after a failure inode is 0, which matches no file */
	level->device = st.st_dev;
	level->inode = st.st_ino;
	close_fd(&level->fd);
}

/*
 * Enters @fd, whose path is the first @path_len bytes of path, and takes it (the first level's
 * stays the caller's).
 */
static int push_level(struct walker *walker, int fd, size_t path_len, bool left_out)
{
	struct level *level;
	int r = array_reserve(
		&walker->levels, &walker->levels_size, walker->depth + 1, sizeof(*level));

	if (r < 0) {
		if (walker->depth > 0)
			close(fd);
		return r;
	}
	if (walker->depth - walker->open_from + 1 > LIMIT_WALK_OPEN_LEVELS)
		park_level(walker);
	level = &walker->levels[walker->depth++];
	*level = (struct level){
		.fd = fd,
		.path_len = path_len,
		.names_len = walker->names_len,
		.first = walker->count,
		.next = walker->count,
	};
	level->left_out = left_out;
	r = read_directory(walker, fd);
	if (r == 0 && walker->ignore && walker->has_rules) {
		r = gitignore_enter(walker->ignore, fd, (struct text){walker->path, path_len});
		if (r == 0 && gitignore_in_repository(walker->ignore, path_len))
			level->left_out = false;
	}
	return r;
}

static void pop_level(struct walker *walker)
{
	struct level *level = &walker->levels[--walker->depth];

	if (walker->depth > 0)
		close_fd(&level->fd);
	if (walker->open_from > walker->depth && walker->depth > 0)
		walker->open_from = walker->depth;
	if (walker->ignore)
		gitignore_leave(walker->ignore, level->path_len);
	walker->names_len = level->names_len;
	walker->count = level->first;
}

/* Opens levels[@index] again by its name in @parent. */
static int reopen_level(struct walker *walker, int parent, size_t index)
{
	const struct level *level = &walker->levels[index];
	size_t above = walker->levels[index - 1].path_len;
	const char *from = walker->path + (above ? above + 1 : 0);
	char name[LIMIT_NAME_BYTES + 1];
	_cleanup_close_ int fd = -1;
	struct stat st;

	*(char *)mempcpy(name, from, (size_t)(walker->path + level->path_len - from)) = '\0';
	fd = openat(parent, name, O_PATH | DIRECTORY_FLAGS);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_dev != level->device || st.st_ino != level->inode)
		return -ESTALE;
	return TAKE_FD(fd);
}

/*
 * Opens the deepest levels again when all but the first are closed. It opens half as many as may be
 * open, so that this is seldom needed.
 */
static int reopen_levels(struct walker *walker)
{
	size_t window = LIMIT_WALK_OPEN_LEVELS / 2;
	size_t keep_from = walker->depth > window ? walker->depth - window : 1;
	_cleanup_close_ int passing = -1;
	int parent = walker->levels[0].fd;

	for (size_t i = 1; i < walker->depth; i++) {
		int fd = reopen_level(walker, parent, i);

		if (fd < 0) {
			for (size_t j = keep_from; j < i; j++)
				close_fd(&walker->levels[j].fd);
			return fd;
		}
		close_fd(&passing);
		*(i < keep_from ? &passing : &walker->levels[i].fd) = fd;
		parent = fd;
	}
	walker->open_from = keep_from;
	return 0;
}

/* Appends @name to the path of @level. Returns false if the path is too long. */
static bool set_path(
	struct walker *walker, const struct level *level, const char *name, size_t *ret_len)
{
	size_t at = level->path_len;
	size_t len = strlen(name);

	if (at + 1 + len > LIMIT_WALK_PATH_BYTES)
		return false;
	if (at > 0)
		walker->path[at++] = '/';
	memcpy(walker->path + at, name, len + 1);
	*ret_len = at + len;
	return true;
}

/* Enters the directory @name, if possible. */
static int descend_tree(
	struct walker *walker, int dirfd, const char *name, size_t path_len, bool left_out)
{
	int fd = openat(dirfd, name, O_RDONLY | DIRECTORY_FLAGS);

	if (fd >= 0)
		return push_level(walker, fd, path_len, left_out);
	if (is_our_fault(errno))
		return -errno;
	note_unreadable(walker, walker->depth);
	return 0;
}

/*
 * Decides whether @entry of @level is visited; *@ret_left_out says whether that is only because git
 * tracks it or a file in it. Returns 0, 1 or -ENOMEM.
 */
static int judge_entry(struct walker *walker, const struct level *level,
	const struct walk_entry *entry, bool *ret_left_out)
{
	*ret_left_out =
		walker->ignore && (level->left_out || gitignore_excludes(walker->ignore,
							      entry->path, entry->type == DT_DIR));
	return *ret_left_out ? gitignore_tracks(walker->ignore, entry->path) : 1;
}

/* Visits the next entry of the deepest level. */
static int visit_next(struct walker *walker)
{
	struct level *level = &walker->levels[walker->depth - 1];
	const struct entry *entry = &walker->entries[level->next++];
	const char *name = walker->names + entry->name;
	struct walk_entry visited = {.name = name, .depth = walker->depth, .type = entry->type};
	const struct walk *walk = walker->walk;
	size_t path_len;
	bool left_out;
	int r;

	if (level->fd < 0) {
		r = reopen_levels(walker);
		if (r < 0) {
			/*
			 * It was moved away during the walk, so the rest of it cannot be reached.
			 */
			note_unreadable(walker, walker->depth - 1);
			level->next = walker->count;
			return is_our_fault(-r) ? r : 0;
		}
	}
	if (!set_path(walker, level, name, &path_len)) {
		walker->end.truncated = true;
		return 0;
	}
	visited.dirfd = level->fd;
	visited.path = (struct text){walker->path, path_len};
	visited.unreadable = walker->end.unreadable;
	if (visited.type == DT_UNKNOWN) {
		struct stat st;

		if (fstatat(level->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return 0; /* removed meanwhile */
		visited.type = (unsigned char)IFTODT(st.st_mode);
	}
	if (visited.type != DT_DIR && visited.depth < walk->min_depth)
		return 0;
	r = judge_entry(walker, level, &visited, &left_out);
	walker->end.ignored +=
		r == 0 && visited.depth >= walk->min_depth && strcmp(name, ".git") != 0;
	if (r <= 0)
		return r;
	r = visited.depth < walk->min_depth ? 0 : walk->visit(&visited, walk->context);
	if (r != 0 || visited.type != DT_DIR || !walk->recursive ||
		visited.depth == walk->max_depth)
		return r;
	return descend_tree(walker, level->fd, name, path_len, left_out);
}

static int walk_from(struct walker *walker, int fd, struct text path)
{
	int r = 0;

	if (path.len > LIMIT_WALK_PATH_BYTES)
		return -ENAMETOOLONG;
	if (path.len > 0)
		memcpy(walker->path, path.data, path.len);
	if (walker->walk->gitignore) {
		walker->ignore = gitignore_new(walker->walk->root);
		if (!walker->ignore)
			return -ENOMEM;
		r = gitignore_enter_above(walker->ignore, path);
		gitignore_show(walker->ignore, path);
	}
	if (r == 0)
		r = push_level(walker, fd, path.len, false);
	while (r == 0 && walker->depth > 0) {
		if (walker->levels[walker->depth - 1].next < walker->count)
			r = visit_next(walker);
		else
			pop_level(walker);
	}
	return r;
}

int tree_walk(const struct walk *walk, int fd, struct walk_end *ret_end)
{
	_cleanup_(walker_free) struct walker *walker = calloc(1, sizeof(*walker));
	bool is_root = text_equal(walk->path, TEXT_LITERAL("."));
	int r;

	*ret_end = (struct walk_end){0};
	if (!walker)
		return -ENOMEM;
	walker->walk = walk;
	walker->open_from = 1;
	r = walk_from(walker, fd, is_root ? TEXT_LITERAL("") : walk->path);
	*ret_end = walker->end;
	return r;
}
