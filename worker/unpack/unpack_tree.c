// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-unpack. The paths are hostile. openat2(2) alone resolves them, below the root of
 * the new tree and through no link, and each change is made in the directory that it has opened.
 */
#include "worker/unpack/unpack_tree.h"

#include "common/cleanup.h"
#include "common/io.h"
#include "worker/tree_clear.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define MODE_KEPT  01777
#define PAGE_BYTES 4096 /* what a file system gives for a byte, or more */
/* One less than a copier descends: tree_copy.c. */
#define DEPTH_MAX (LIMIT_CLEAR_DEPTH - 2)

struct unpack_directory {
	char *path;
	size_t depth, order;
	mode_t mode;
	struct timespec modified;
};

/* A path without "." and empty names, and with no ".."; of the root it is "". */
struct clean_path {
	char text[LIMIT_PATH_BYTES];
	size_t len, depth;
	size_t leaf; /* where its last name begins */
};

int unpack_tree_init(struct unpack_tree *tree, int root, uint64_t max_bytes, uint64_t max_files)
{
	*tree = (struct unpack_tree){.root = root,
		.max_bytes = max_bytes,
		.max_files = max_files < LIMIT_UNPACK_FILES ? max_files : LIMIT_UNPACK_FILES};
	return path_set_init(&tree->brought);
}

void unpack_tree_done(struct unpack_tree *tree)
{
	for (size_t i = 0; i < tree->n_directories; i++)
		free(tree->directories[i].path);
	free(tree->directories);
	tree->directories = NULL;
	tree->n_directories = 0;
	path_set_done(&tree->brought);
}

int unpack_refuse(struct unpack_tree *tree, enum unpack_fault fault, const char *name)
{
	size_t len = name ? strlen(name) : 0;

	tree->report.fault = fault;
	if (len > sizeof(tree->name))
		len = sizeof(tree->name);
	if (len > 0)
		memcpy(tree->name, name, len);
	tree->report.name = (struct text){tree->name, len};
	return -UNPACK_REFUSAL;
}

int unpack_tree_count(struct unpack_tree *tree)
{
	return ++tree->report.entries > tree->max_files ? unpack_refuse(tree, UNPACK_FILES, NULL)
							: 0;
}

void unpack_tree_next_layer(struct unpack_tree *tree)
{
	tree->layers = true;
	path_set_clear(&tree->brought);
}

static int charge_unpacked(struct unpack_tree *tree, uint64_t bytes)
{
	tree->bytes += bytes;
	return tree->bytes > tree->max_bytes ? unpack_refuse(tree, UNPACK_BYTES, NULL) : 0;
}

static int count_file(struct unpack_tree *tree)
{
	return ++tree->files > tree->max_files ? unpack_refuse(tree, UNPACK_FILES, NULL) : 0;
}

/* Paths. */

static int add_path_component(struct clean_path *path, const char *name, size_t len)
{
	if (len > LIMIT_NAME_BYTES || path->len + 1 + len >= sizeof(path->text))
		return -ENAMETOOLONG;
	if (path->len > 0)
		path->text[path->len++] = '/';
	path->leaf = path->len;
	memcpy(path->text + path->len, name, len);
	path->len += len;
	path->text[path->len] = '\0';
	path->depth++;
	return 0;
}

/* Reads the path @raw, which the refusal calls @shown. */
static int clean_archive_path(
	struct unpack_tree *tree, const char *raw, const char *shown, struct clean_path *ret)
{
	*ret = (struct clean_path){0};
	if (!raw || !*raw)
		return unpack_refuse(tree, UNPACK_NAME, shown);
	if (*raw == '/')
		return unpack_refuse(tree, UNPACK_ABSOLUTE, shown);
	while (*raw) {
		size_t len = strcspn(raw, "/");

		if (len == 2 && raw[0] == '.' && raw[1] == '.')
			return unpack_refuse(tree, UNPACK_CLIMBS, shown);
		if (len > 0 && !(len == 1 && raw[0] == '.') &&
			add_path_component(ret, raw, len) < 0)
			return unpack_refuse(tree, UNPACK_NAME, shown);
		raw += len + strspn(raw + len, "/");
	}
	return ret->depth > DEPTH_MAX ? unpack_refuse(tree, UNPACK_DEEP, shown) : 0;
}

static int open_below(int dirfd, const char *path, unsigned flags)
{
	struct open_how how = {.flags = flags | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
			   RESOLVE_NO_XDEV};
	int fd = (int)syscall(SYS_openat2, dirfd, *path ? path : ".", &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

static int make_parents(struct unpack_tree *tree, const char *parent)
{
	char path[LIMIT_PATH_BYTES];
	int r = 0;

	for (const char *end = parent; r == 0 && *end; end += *end == '/') {
		_cleanup_close_ int fd = -1;
		const char *begin = end;

		end += strcspn(end, "/");
		snprintf(path, sizeof(path), "%.*s", (int)(begin - parent), parent);
		fd = open_below(tree->root, path, O_PATH);
		if (fd < 0)
			return fd;
		snprintf(path, sizeof(path), "%.*s", (int)(end - begin), begin);
		if (mkdirat(fd, path, 0755) == 0)
			r = count_file(tree);
		else if (errno != EEXIST)
			r = -errno;
	}
	return r;
}

/* All directories of the path belong to the present archive too. */
static int bring_parents(struct unpack_tree *tree, const struct clean_path *path)
{
	int r = 0;

	for (size_t i = 1; tree->layers && r == 0 && i < path->leaf; i++)
		if (path->text[i] == '/')
			r = path_set_add(&tree->brought, path->text, i);
	return r;
}

/* Opens the directory that has the last name of @path; with @make it is made if need be. */
static int open_parent(
	struct unpack_tree *tree, const struct clean_path *path, bool make, const char *shown)
{
	char parent[LIMIT_PATH_BYTES];
	int fd;

	snprintf(parent, sizeof(parent), "%.*s", path->leaf > 0 ? (int)path->leaf - 1 : 0,
		path->text);
	fd = open_below(tree->root, parent, O_PATH);
	if (fd == -ENOENT && make) {
		int r = make_parents(tree, parent);

		fd = r < 0 ? r : open_below(tree->root, parent, O_PATH);
	}
	if (fd == -ELOOP)
		return unpack_refuse(tree, UNPACK_THROUGH_LINK, shown);
	if (fd == -ENOTDIR)
		return unpack_refuse(tree, UNPACK_THROUGH_FILE, shown);
	return fd;
}

/* What is there already. */

static int remove_directory(int parent, const char *name)
{
	_cleanup_close_ int fd =
		openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t removed;
	int r = fd < 0 ? -errno : tree_clear(fd, -1, &removed);

	return r == 0 && unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : r;
}

static int remove_one(int parent, const char *name, bool directory)
{
	if (directory)
		return remove_directory(parent, name);
	return unlinkat(parent, name, 0) < 0 ? -errno : 0;
}

/*
 * Makes room for a new entry, a @directory or not. Sets @ret_kept if there is a directory, which
 * stays. What a layer below has gives way to whatever comes; what this archive has brought itself
 * does so only if neither is a directory.
 */
static int make_room_for_entry(struct unpack_tree *tree, int parent, const struct clean_path *path,
	bool directory, const char *shown, bool *ret_kept)
{
	const char *name = path->text + path->leaf;
	struct stat stat_buf;
	bool is_directory;
	int r = 0;

	*ret_kept = false;
	if (fstatat(parent, name, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0) {
		is_directory = S_ISDIR(stat_buf.st_mode);
		*ret_kept = is_directory && directory;
		if (!*ret_kept && (is_directory || directory) &&
			(!tree->layers || path_set_has(&tree->brought, path->text, path->len)))
			return unpack_refuse(tree, UNPACK_SWAPPED, shown);
		if (!*ret_kept)
			r = remove_one(parent, name, is_directory);
	} else if (errno != ENOENT) {
		return -errno;
	}
	if (r == 0 && tree->layers)
		r = path_set_add(&tree->brought, path->text, path->len);
	return r < 0 || *ret_kept ? r : count_file(tree);
}

/* Opens the directory of a new entry that is not the root, and makes room in it. */
static int begin_unpack_entry(struct unpack_tree *tree, const struct unpack_entry *entry,
	bool directory, struct clean_path *ret_path, bool *ret_kept)
{
	int parent, r = clean_archive_path(tree, entry->path, entry->path, ret_path);

	if (r == 0 && ret_path->len == 0 && !directory)
		r = unpack_refuse(tree, UNPACK_SWAPPED, entry->path);
	if (r < 0)
		return r;
	if (ret_path->len == 0) {
		*ret_kept = true;
		return open_below(tree->root, "", O_PATH);
	}
	parent = open_parent(tree, ret_path, true, entry->path);
	r = parent < 0 ? parent : bring_parents(tree, ret_path);
	if (r == 0)
		r = make_room_for_entry(tree, parent, ret_path, directory, entry->path, ret_kept);
	if (r == 0)
		return parent;
	close_fd(&parent);
	return r;
}

/* Directories. */

static int remember_directory(
	struct unpack_tree *tree, const struct clean_path *path, const struct unpack_entry *entry)
{
	char *kept;

	tree->paths_bytes += path->len + 1 + sizeof(*tree->directories);
	if (tree->paths_bytes > LIMIT_UNPACK_PATHS_BYTES)
		return unpack_refuse(tree, UNPACK_FILES, NULL);
	if (tree->n_directories == tree->size_directories) {
		size_t size = tree->size_directories > 0 ? 2 * tree->size_directories : 256;
		void *more = reallocarray(tree->directories, size, sizeof(*tree->directories));

		if (!more)
			return -ENOMEM;
		tree->directories = more;
		tree->size_directories = size;
	}
	kept = strdup(path->text);
	if (!kept)
		return -ENOMEM;
	tree->directories[tree->n_directories] = (struct unpack_directory){.path = kept,
		.depth = path->depth,
		.order = tree->n_directories,
		.mode = entry->mode & MODE_KEPT,
		.modified = entry->modified};
	tree->n_directories++;
	return 0;
}

int unpack_tree_directory(struct unpack_tree *tree, const struct unpack_entry *entry)
{
	struct clean_path path;
	bool kept = false;
	_cleanup_close_ int parent = begin_unpack_entry(tree, entry, true, &path, &kept);

	if (parent < 0)
		return parent;
	/* What is to come must find its way, whatever the mode is. */
	if (!kept && mkdirat(parent, path.text + path.leaf, 0700) < 0)
		return -errno;
	return remember_directory(tree, &path, entry);
}

/* The deepest come first, and all of one path together, the last of them first. */
static int deeper_first(const void *a, const void *b)
{
	const struct unpack_directory *one = a, *other = b;
	int order;

	if (one->depth != other->depth)
		return one->depth > other->depth ? -1 : 1;
	order = strcmp(one->path, other->path);
	if (order != 0)
		return order;
	return one->order > other->order ? -1 : 1;
}

int unpack_tree_finish(struct unpack_tree *tree)
{
	if (tree->n_directories > 0)
		qsort(tree->directories, tree->n_directories, sizeof(*tree->directories),
			deeper_first);
	for (size_t i = 0; i < tree->n_directories; i++) {
		const struct unpack_directory *directory = &tree->directories[i];
		const struct timespec times[] = {directory->modified, directory->modified};
		_cleanup_close_ int fd = -1;

		/* What was said last of a directory holds. */
		if (i > 0 && strcmp(directory->path, directory[-1].path) == 0)
			continue;
		fd = open_below(tree->root, directory->path, O_RDONLY);
		/* Another layer has removed it. */
		if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
			continue;
		if (fd < 0)
			return fd;
		if (futimens(fd, times) < 0 || fchmod(fd, directory->mode) < 0)
			return -errno;
	}
	return 0;
}

/* Links. */

int unpack_tree_symlink(
	struct unpack_tree *tree, const struct unpack_entry *entry, const char *target)
{
	const struct timespec times[] = {entry->modified, entry->modified};
	struct clean_path path;
	bool kept;
	_cleanup_close_ int parent = -1;

	if (!target || !*target || strlen(target) >= LIMIT_PATH_BYTES)
		return unpack_refuse(tree, UNPACK_NAME, entry->path);
	parent = begin_unpack_entry(tree, entry, false, &path, &kept);
	if (parent < 0)
		return parent;
	if (symlinkat(target, parent, path.text + path.leaf) < 0 ||
		utimensat(parent, path.text + path.leaf, times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

int unpack_tree_link(struct unpack_tree *tree, const struct unpack_entry *entry, const char *target)
{
	_cleanup_close_ int parent = -1, from = -1;
	struct clean_path path, source;
	struct stat stat_buf;
	bool kept;
	int r = clean_archive_path(tree, target, entry->path, &source);

	if (r == 0)
		r = clean_archive_path(tree, entry->path, entry->path, &path);
	if (r < 0)
		return r;
	from = open_parent(tree, &source, false, entry->path);
	if (from < 0 && from != -ENOENT)
		return from;
	if (from < 0 || source.len == 0 ||
		fstatat(from, source.text + source.leaf, &stat_buf, AT_SYMLINK_NOFOLLOW) < 0 ||
		S_ISDIR(stat_buf.st_mode))
		return unpack_refuse(tree, UNPACK_LINK_MISSING, entry->path);
	if (strcmp(source.text, path.text) == 0)
		return 0; /* it is there */
	parent = begin_unpack_entry(tree, entry, false, &path, &kept);
	if (parent < 0)
		return parent;
	if (linkat(from, source.text + source.leaf, parent, path.text + path.leaf, 0) == 0)
		return 0;
	/* It was in what a layer below had in the link's place. */
	return errno == ENOENT ? unpack_refuse(tree, UNPACK_LINK_MISSING, entry->path) : -errno;
}

/* Files. */

int unpack_tree_file(
	struct unpack_tree *tree, const struct unpack_entry *entry, struct unpack_file *ret)
{
	struct clean_path path;
	bool kept;
	_cleanup_close_ int parent = begin_unpack_entry(tree, entry, false, &path, &kept);

	*ret = (struct unpack_file){.fd = -1};
	if (parent < 0)
		return parent;
	ret->fd = openat(parent, path.text + path.leaf,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return ret->fd < 0 ? -errno : 0;
}

/* Holes cost nothing; a byte costs its page. */
static int charge_pages(
	struct unpack_tree *tree, struct unpack_file *file, uint64_t offset, uint64_t len)
{
	uint64_t first = offset / PAGE_BYTES, end = (offset + len - 1) / PAGE_BYTES + 1;

	if (first < file->pages)
		first = file->pages;
	if (end <= first)
		return 0;
	file->pages = end;
	return charge_unpacked(tree, (end - first) * PAGE_BYTES);
}

int unpack_file_write(struct unpack_tree *tree, struct unpack_file *file, const void *data,
	size_t len, uint64_t offset)
{
	int r;

	if (len == 0)
		return 0;
	if (offset < file->end || offset > LIMIT_UNPACK_FILE_BYTES ||
		len > LIMIT_UNPACK_FILE_BYTES - offset)
		return unpack_refuse(tree, UNPACK_DAMAGED, NULL);
	r = charge_pages(tree, file, offset, len);
	file->end = offset + len;
	return r == 0 ? io_write(file->fd, data, len, (off_t)offset) : r;
}

int unpack_file_close(struct unpack_tree *tree, struct unpack_file *file,
	const struct unpack_entry *entry, uint64_t size)
{
	const struct timespec times[] = {entry->modified, entry->modified};
	int r = 0;

	if (size > LIMIT_UNPACK_FILE_BYTES)
		r = unpack_refuse(tree, UNPACK_FILE_SIZE, entry->path);
	else if ((size > file->end && ftruncate(file->fd, (off_t)size) < 0) ||
		 fchmod(file->fd, entry->mode & MODE_KEPT) < 0 || futimens(file->fd, times) < 0)
		r = -errno;
	close_fd(&file->fd);
	return r;
}

/* Whiteouts. */

static int hide(const struct clean_path *path, int parent, bool content)
{
	const char *name = path->len > 0 ? path->text + path->leaf : ".";
	_cleanup_close_ int fd = -1;
	struct stat stat_buf;
	uint64_t removed;

	if (fstatat(parent, name, &stat_buf, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!content)
		return remove_one(parent, name, S_ISDIR(stat_buf.st_mode));
	if (!S_ISDIR(stat_buf.st_mode))
		return 0;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : tree_clear(fd, -1, &removed);
}

int unpack_tree_hide(struct unpack_tree *tree, const char *raw, bool content)
{
	_cleanup_close_ int parent = -1;
	struct clean_path path;
	int r = clean_archive_path(tree, raw, raw, &path);
	char directory[LIMIT_PATH_BYTES];

	if (r < 0)
		return r;
	if (path.len == 0 && !content)
		return unpack_refuse(tree, UNPACK_WHITEOUT, raw);
	snprintf(directory, sizeof(directory), "%.*s", path.leaf > 0 ? (int)path.leaf - 1 : 0,
		path.text);
	parent = open_below(tree->root, directory, O_PATH);
	if (parent == -ENOENT || parent == -ELOOP || parent == -ENOTDIR)
		return 0;
	return parent < 0 ? parent : hide(&path, parent, content);
}
