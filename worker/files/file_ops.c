// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process, or in a job of it; file_ops.h explains it. The tenant may rename
 * anything meanwhile: root_open() finds every directory, and no name is followed here.
 */
#include "worker/files/file_ops.h"

#include "common/cleanup.h"
#include "common/path_rules.h"
#include "worker/files/file_node.h"
#include "worker/files/walk/tree_walk.h"
#include "worker/tree_clear.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* An entry by its directory and its name, which is not followed. */
struct place {
	int parent; /* O_PATH */
	char name[LIMIT_NAME_BYTES + 1];
	char *path; /* relative to the root */
};

#define PLACE_NONE ((struct place){.parent = -1})

static void place_done(struct place *place)
{
	close_fd(&place->parent);
	free(TAKE_PTR(place->path));
}

static void end_errno(struct reply *reply, int error_number)
{
	reply_error(reply, tool_error_from_errno(error_number), "%s",
		tool_errno_sentence(error_number));
}

/* Splits @relative, which has been normalised, into directory and name. */
static enum tool_error split_path(const char *relative, struct text *ret_dir, const char **ret_name)
{
	const char *slash = strrchr(relative, '/');
	const char *name = slash ? slash + 1 : relative;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return TOOL_INVALID_ARGUMENTS;
	if (strlen(name) > LIMIT_NAME_BYTES)
		return TOOL_NAME_TOO_LONG;
	*ret_dir = slash ? (struct text){relative, (size_t)(slash - relative)} : TEXT_LITERAL(".");
	*ret_name = name;
	return TOOL_OK;
}

/* Finds the directory of @path. The entry itself need not exist. */
static enum tool_error find_place(
	const struct root *root, struct text path, struct place *ret_place)
{
	_cleanup_(place_done) struct place place = PLACE_NONE;
	_cleanup_free_ char *relative = NULL, *dir_path = NULL;
	enum tool_error error = path_rules_check(root->visible, path, true, &relative);
	struct text dir;
	const char *name;

	if (error != TOOL_OK)
		return error;
	path_rules_normalise(relative);
	error = split_path(relative, &dir, &name);
	if (error == TOOL_OK)
		error = root_open(root, dir, O_PATH | O_DIRECTORY, &place.parent, &dir_path);
	if (error != TOOL_OK)
		return error;
	memcpy(place.name, name, strlen(name) + 1);
	if (strcmp(dir_path, ".") == 0)
		place.path = strdup(name);
	else if (asprintf(&place.path, "%s/%s", dir_path, name) < 0)
		place.path = NULL;
	if (!place.path)
		return TOOL_EXECUTION_ERROR;
	memcpy(ret_place->name, place.name, sizeof(place.name));
	ret_place->path = TAKE_PTR(place.path);
	ret_place->parent = TAKE_FD(place.parent);
	return TOOL_OK;
}

static void end_place(
	struct reply *reply, const struct root *root, struct text path, enum tool_error error)
{
	if (error == TOOL_INVALID_ARGUMENTS)
		reply_error(reply, error,
			"The path must name an entry of a directory, not the workspace's root and "
			"not \"..\"");
	else
		reply_path_error(reply, root, path, error);
}

/* Tells of the entry @name in @dir, which is not followed. Returns 0 or -errno. */
static int tell_entry(
	const struct root *root, int dir, const char *name, struct text path, struct reply *reply)
{
	_cleanup_free_ struct node_texts *texts = calloc(1, sizeof(*texts));
	struct files_node node;
	struct stat st;

	if (!texts)
		return -ENOMEM;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	node = file_node(root, &st, path, texts);
	if (S_ISLNK(st.st_mode))
		file_node_link(&node, dir, name, texts);
	return reply_node(reply, &node);
}

void file_stat(const struct root *root, const struct files_ask *request, struct reply *reply)
{
	const int follow = request->follow ? 0 : O_NOFOLLOW;
	_cleanup_free_ struct node_texts *texts = calloc(1, sizeof(*texts));
	_cleanup_close_ int fd = -1, readable = -1;
	_cleanup_free_ char *path = NULL;
	enum tool_error error = root_open(root, request->path, O_PATH | follow, &fd, &path);
	struct files_node node;
	struct stat st;

	if (error != TOOL_OK) {
		reply_path_error(reply, root, request->path, error);
		return;
	}
	if (!texts || fstat(fd, &st) < 0) {
		end_errno(reply, texts ? errno : ENOMEM);
		return;
	}
	node = file_node(root, &st, text_from(path), texts);
	if (S_ISLNK(st.st_mode))
		file_node_link(&node, fd, "", texts);
	else if (request->attributes && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) &&
		 root_open(root, request->path, O_RDONLY | follow, &readable, NULL) == TOOL_OK)
		file_node_attributes(&node, readable, &st, texts);
	if (reply_node(reply, &node) == 0)
		reply_end(reply, &(struct files_end){.path = text_from(path)});
}

/* Reasons to end the walk, besides errors. */
enum {
	TREE_FULL = 1,
	LISTENER_GONE,
};

struct tree {
	const struct root *root;
	struct reply *reply;
	uint64_t count, max;
	bool attributes;
	struct node_texts texts;
};

static void add_attributes(struct tree *tree, const struct walk_entry *visited,
	const struct stat *st, struct files_node *node)
{
	_cleanup_close_ int fd = -1;

	if (!tree->attributes || !(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)))
		return;
	fd = openat(visited->dirfd, visited->name,
		O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0)
		file_node_attributes(node, fd, st, &tree->texts);
}

static int visit_node(const struct walk_entry *visited, void *context)
{
	struct tree *tree = context;
	struct files_node node;
	struct stat st;

	if (tree->count == tree->max)
		return TREE_FULL;
	if (fstatat(visited->dirfd, visited->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0; /* it has gone */
	node = file_node(tree->root, &st, visited->path, &tree->texts);
	if (S_ISLNK(st.st_mode))
		file_node_link(&node, visited->dirfd, visited->name, &tree->texts);
	add_attributes(tree, visited, &st, &node);
	if (reply_node(tree->reply, &node) < 0)
		return LISTENER_GONE;
	tree->count++;
	return 0;
}

void file_tree(const struct root *root, const struct files_ask *request, struct reply *reply)
{
	_cleanup_free_ struct tree *tree = calloc(1, sizeof(*tree));
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *path = NULL;
	struct walk walk = {
		.root = root,
		.recursive = request->depth != 1,
		.max_depth = request->depth,
		.visit = visit_node,
		.context = tree,
	};
	struct walk_end end;
	enum tool_error error =
		root_open(root, request->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, &fd, &path);
	int r;

	if (error != TOOL_OK || !tree) {
		reply_path_error(reply, root, request->path, error != TOOL_OK ? error : TOOL_BUSY);
		return;
	}
	tree->root = root;
	tree->reply = reply;
	tree->max = request->max_entries > 0 && request->max_entries < LIMIT_LIST_ENTRIES
			    ? request->max_entries
			    : LIMIT_LIST_ENTRIES;
	tree->attributes = request->attributes;
	walk.path = text_from(path);
	r = tree_walk(&walk, fd, &end);
	if (r == LISTENER_GONE)
		return;
	if (r < 0) {
		end_errno(reply, -r);
		return;
	}
	reply_end(reply, &(struct files_end){
				 .path = walk.path,
				 .truncated = r == TREE_FULL || end.truncated,
				 .count = tree->count,
			 });
}

/* Makes @name in @dir with exactly the bits of @mode, or with the usual ones. */
static int make_file_node(int dir, const char *name, uint32_t mode)
{
	const mode_t usual = mode > 0 ? umask(0) : 0;
	const int r = mkdirat(dir, name, mode > 0 ? mode : 0777) < 0 ? -errno : 0;

	if (mode > 0)
		umask(usual);
	return r;
}

void file_make_directory(
	const struct root *root, const struct files_ask *request, struct reply *reply)
{
	_cleanup_(root_place_done) struct root_place place = ROOT_PLACE_NONE;
	enum tool_error error = root_place(root, request->path, request->parents, &place);
	struct stat st;
	int r = -EEXIST;

	if (error != TOOL_OK) {
		reply_path_error(reply, root, request->path, error);
		return;
	}
	if (place.parent >= 0)
		r = make_file_node(place.parent, place.name, request->mode);
	/* The directory that was to be made may be one that the walk has made for the rest. */
	if (r == -EEXIST && place.parent >= 0 &&
		fstatat(place.parent, place.name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		!S_ISDIR(st.st_mode))
		r = -ENOTDIR;
	if (r < 0 && r != -EEXIST) {
		made_dirs_undo(&place.made);
		end_errno(reply, -r);
		return;
	}
	r = tell_entry(root, place.parent >= 0 ? place.parent : root->fd,
		    place.parent >= 0 ? place.name : ".", text_from(place.path), reply) == 0
		    ? r
		    : -ENOENT;
	reply_end(reply, &(struct files_end){.path = text_from(place.path), .created = r == 0});
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/*
 * rename(2) does nothing if both names are links to one file. Removes the old one then. In a
 * directory that ignores case both may be one link.
 */
static int remove_other_link(const struct place *from, const struct place *to)
{
	struct stat old, new, old_parent, new_parent;

	if (fstatat(from->parent, from->name, &old, AT_SYMLINK_NOFOLLOW) < 0 ||
		fstatat(to->parent, to->name, &new, AT_SYMLINK_NOFOLLOW) < 0 ||
		fstat(from->parent, &old_parent) < 0 || fstat(to->parent, &new_parent) < 0 ||
		!is_same_file(&old, &new) || S_ISDIR(old.st_mode) || old.st_nlink < 2 ||
		(is_same_file(&old_parent, &new_parent) && strcasecmp(from->name, to->name) == 0))
		return 0;
	return unlinkat(from->parent, from->name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* The same as renameat2(2) where the file system cannot do what @replace forbids. */
static int rename_entry(const struct place *from, const struct place *to, bool replace)
{
	struct stat st;

	if (replace)
		return renameat(from->parent, from->name, to->parent, to->name) < 0
			       ? -errno
			       : remove_other_link(from, to);
	if (renameat2(from->parent, from->name, to->parent, to->name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL)
		return -errno;
	if (fstatat(to->parent, to->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return renameat(from->parent, from->name, to->parent, to->name) < 0 ? -errno : 0;
}

static void end_rename(struct reply *reply, int error_number)
{
	switch (error_number) {
	case EEXIST:
		reply_error(reply, TOOL_STALE_FILE,
			"There is an entry at the new path already; give replace to replace a "
			"file, or remove it first");
		break;
	case ENOTEMPTY:
		reply_error(reply, TOOL_STALE_FILE,
			"There is a directory at the new path, and it is not empty");
		break;
	case EINVAL:
		reply_error(
			reply, TOOL_INVALID_ARGUMENTS, "A directory cannot be moved into itself");
		break;
	case EXDEV:
		reply_error(reply, TOOL_EXECUTION_ERROR,
			"The directory is older than the workspace's last checkpoint or is on "
			"another file system, so it cannot be renamed; a command with mv copies "
			"it");
		break;
	default:
		end_errno(reply, error_number);
	}
}

void file_rename(const struct root *root, const struct files_ask *request, struct reply *reply)
{
	_cleanup_(root_place_done) struct root_place made = ROOT_PLACE_NONE;
	_cleanup_(place_done) struct place from = PLACE_NONE, to = PLACE_NONE;
	enum tool_error error = find_place(root, request->path, &from);
	int r;

	if (error != TOOL_OK) {
		end_place(reply, root, request->path, error);
		return;
	}
	error = find_place(root, request->to, &to);
	if (error == TOOL_NOT_FOUND && request->parents) {
		error = root_place(root, request->to, true, &made);
		if (error == TOOL_OK)
			error = find_place(root, request->to, &to);
	}
	r = error == TOOL_OK ? rename_entry(&from, &to, request->replace) : 0;
	if (error != TOOL_OK || r < 0)
		made_dirs_undo(&made.made);
	if (error != TOOL_OK) {
		end_place(reply, root, request->to, error);
		return;
	}
	if (r == -ENOENT) {
		reply_path_error(reply, root, request->path, TOOL_NOT_FOUND);
		return;
	}
	if (r < 0) {
		end_rename(reply, -r);
		return;
	}
	(void)tell_entry(root, to.parent, to.name, text_from(to.path), reply);
	reply_end(reply, &(struct files_end){.path = text_from(to.path)});
}

/* Removes a directory with all that is in it. */
static int remove_tree(const struct place *place, uint64_t *removed)
{
	_cleanup_close_ int fd =
		openat(place->parent, place->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t count = 0;
	int r = fd < 0 ? -errno : tree_clear(fd, -1, &count);

	*removed += count;
	if (r == 0 && unlinkat(place->parent, place->name, AT_REMOVEDIR) < 0)
		r = -errno;
	*removed += r == 0;
	return r;
}

static bool is_directory(const struct place *place)
{
	struct stat st;

	return fstatat(place->parent, place->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(st.st_mode);
}

/* Another entry may get the name at any moment, so what it is shows by what the kernel does. */
static int remove_named_entry(const struct place *place, bool recursive, uint64_t *removed)
{
	int r = 0;

	for (int i = 0; i < LIMIT_OPEN_RETRIES; i++) {
		r = unlinkat(place->parent, place->name, 0) < 0 ? -errno : 0;
		*removed += r == 0;
		if ((r != -EISDIR && r != -EPERM) || !is_directory(place))
			return r;
		if (recursive)
			r = remove_tree(place, removed);
		else if ((r = unlinkat(place->parent, place->name, AT_REMOVEDIR) < 0 ? -errno
										     : 0) == 0)
			++*removed;
		if (r == 0 || (r != -ENOTDIR && r != -ELOOP && !(recursive && r == -ENOTEMPTY)))
			return r;
	}
	return r;
}

void file_remove(const struct root *root, const struct files_ask *request, struct reply *reply)
{
	_cleanup_(place_done) struct place place = PLACE_NONE;
	enum tool_error error = find_place(root, request->path, &place);
	uint64_t removed = 0;
	int r;

	if (error != TOOL_OK) {
		end_place(reply, root, request->path, error);
		return;
	}
	r = remove_named_entry(&place, request->recursive, &removed);
	if (r == -ENOENT)
		reply_path_error(reply, root, request->path, TOOL_NOT_FOUND);
	else if ((r == -ENOTEMPTY || r == -EEXIST) && !request->recursive)
		reply_error(reply, TOOL_IS_A_DIRECTORY,
			"The directory is not empty; give recursive to remove it with what is in "
			"it");
	else if (r == -ENOTEMPTY || r == -ENOTDIR || r == -ELOOP)
		reply_error(reply, TOOL_BUSY,
			"Another process puts entries there while they are removed; try again");
	else if (r < 0)
		end_errno(reply, -r);
	else
		reply_end(reply,
			&(struct files_end){.path = text_from(place.path), .count = removed});
}
