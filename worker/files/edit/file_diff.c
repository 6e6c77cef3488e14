// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a job of the files process. Names, contents and attributes of the layers are hostile.
 * Which entries may have changed is read from the layers; whether they have, and what they were and
 * are, only from the two views that the kernel shows. A whiteout, or an attribute that makes a
 * directory opaque, does no more than to have whole directories compared, so a forged one costs
 * time and never hides or invents a change. overlayfs: Documentation/filesystems/overlayfs.rst
 *
 * No link is followed, and every name is looked up in the descriptor of its directory.
 */
#include "worker/files/edit/file_diff.h"

#include "common/array.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "common/layer_stack.h"
#include "common/limits.h"
#include "worker/files/edit/diff_patch.h"
#include "worker/files/file_attributes.h"
#include "worker/files/file_node.h"
#include "worker/files/walk/tree_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define DIRECTORY_FLAGS (O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define COMPARED_BYTES  (128 * KIB)
#define OPAQUE          "user.overlay.opaque"

enum { BEFORE, AFTER, SIDES };

/* How the entries of a directory are found. */
enum how {
	BY_LAYERS, /* those that the layers have */
	BY_VIEWS,  /* all that either view has */
};

/* An entry that is still to be compared. Its directory's path begins the path of the walk. */
struct pending {
	size_t parent_len;
	size_t name;  /* offset in names */
	size_t level; /* length of names before those of its directory */
	enum how how;
};

/*
 * The directory whose entries are compared, in both views and in the layers. Instead of a
 * descriptor there may be -ENOENT, or another -errno if it cannot be opened.
 */
struct place {
	size_t len; /* of its path; SIZE_MAX: none */
	int views[SIDES];
	int layers[LIMIT_LAYERS];
};

struct diff {
	const struct files_diff *request;
	struct reply *reply;
	int views[SIDES];
	int layers[LIMIT_LAYERS];
	size_t n_layers;
	struct place place;
	struct pending *pending;
	size_t n_pending, pending_size;
	char *names; /* one after the other, each with a NUL */
	size_t names_len, names_size;
	size_t patch_left;
	struct files_totals totals;
	uint64_t told;
	bool truncated;
	char path[LIMIT_WALK_PATH_BYTES + 1];
	char compared[SIDES][COMPARED_BYTES];
};

/* Directories. */

static bool is_our_fault(int r)
{
	return r == -EMFILE || r == -ENFILE || r == -ENOMEM;
}

/* Opens a directory. -ENOENT: there is none of that name. */
static int open_diff_directory(int dirfd, const char *name, int flags)
{
	int fd = dirfd < 0 ? dirfd : openat(dirfd, name, flags | DIRECTORY_FLAGS);

	if (dirfd < 0 || fd >= 0)
		return fd;
	return errno == ENOTDIR || errno == ELOOP ? -ENOENT : -errno;
}

static void leave_place(struct diff *diff)
{
	struct place *place = &diff->place;

	if (place->len == SIZE_MAX)
		return;
	for (size_t i = 0; i < SIDES; i++)
		close_fd(&place->views[i]);
	for (size_t i = 0; i < diff->n_layers; i++)
		close_fd(&place->layers[i]);
	place->len = SIZE_MAX;
}

/* Opens the directory at the first @len bytes of the path below @root. */
static int descend_layers(struct diff *diff, int root, size_t len)
{
	int fd = open_diff_directory(root, ".", O_PATH);
	size_t at = 0;

	while (fd >= 0 && at < len) {
		char *end = memchr(diff->path + at, '/', len - at);
		size_t next = end ? (size_t)(end - diff->path) : len;
		char kept = diff->path[next];
		int below;

		diff->path[next] = '\0';
		below = open_diff_directory(fd, diff->path + at, O_PATH);
		diff->path[next] = kept;
		close(fd);
		fd = below;
		at = next + 1;
	}
	return fd;
}

static int enter_place(struct diff *diff, size_t len, enum how how)
{
	struct place *place = &diff->place;
	int r = 0;

	if (place->len == len)
		return 0;
	leave_place(diff);
	place->len = len;
	for (size_t i = 0; i < SIDES; i++)
		place->views[i] = descend_layers(diff, diff->views[i], len);
	for (size_t i = 0; i < diff->n_layers; i++)
		place->layers[i] =
			how == BY_LAYERS ? descend_layers(diff, diff->layers[i], len) : -ENOENT;
	for (size_t i = 0; i < SIDES; i++)
		r = is_our_fault(place->views[i]) ? place->views[i] : r;
	return r;
}

/* Finding what may have changed. */

static int add_pending(struct diff *diff, const struct pending *like, const char *name)
{
	size_t len = strlen(name) + 1;
	struct pending pending = *like;
	int r;

	if (like->parent_len + 1 + len > sizeof(diff->path) ||
		diff->names_len + len + diff->n_pending * sizeof(struct pending) >
			LIMIT_WALK_NAMES_BYTES) {
		diff->truncated = true;
		return 0;
	}
	r = array_reserve(&diff->names, &diff->names_size, diff->names_len + len, 1);
	if (r == 0)
		r = array_reserve(&diff->pending, &diff->pending_size, diff->n_pending + 1,
			sizeof(struct pending));
	if (r < 0)
		return r;
	memcpy(diff->names + diff->names_len, name, len);
	pending.name = diff->names_len;
	diff->pending[diff->n_pending++] = pending;
	diff->names_len += len;
	return 0;
}

static bool is_hidden(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || tree_walk_is_temporary(name);
}

/* Adds the names in a directory (taken), each as an entry that is like @like. */
static int add_names(struct diff *diff, int fd, const struct pending *like)
{
	DIR *stream = fdopendir(fd);
	struct dirent *entry;
	int r = 0;

	if (!stream) {
		close(fd);
		return -ENOMEM;
	}
	errno = 0;
	while (r == 0 && (entry = readdir(stream)))
		if (!is_hidden(entry->d_name))
			r = add_pending(diff, like, entry->d_name);
	if (r == 0 && errno != 0)
		diff->totals.unread++;
	closedir(stream);
	return r;
}

/*
 * Whether the layers tell all that may have changed in the directory @name. They do not where one
 * of them has something else of that name, or hides what is below.
 */
static int layers_tell(const struct diff *diff, const char *name)
{
	char value[1];

	for (size_t i = 0; i < diff->n_layers; i++) {
		int dirfd = diff->place.layers[i];
		_cleanup_close_ int fd = open_diff_directory(dirfd, name, O_RDONLY);
		struct stat st;

		if (fd == -ENOENT &&
			(dirfd < 0 || (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
					      errno == ENOENT)))
			continue;
		if (is_our_fault(fd))
			return fd;
		if (fd < 0 || fgetxattr(fd, OPAQUE, value, sizeof(value)) >= 0 || errno == ERANGE)
			return 0;
	}
	return 1;
}

static int compare_names(const void *a, const void *b, void *names)
{
	const struct pending *left = a, *right = b;

	return strcmp((const char *)names + right->name, (const char *)names + left->name);
}

/* The first to be taken comes last; each name once. */
static void sort_pending(struct diff *diff, size_t first)
{
	struct pending *pending = diff->pending + first;
	size_t n = diff->n_pending - first, kept = 0;

	if (n == 0)
		return;
	qsort_r(pending, n, sizeof(*pending), compare_names, diff->names);
	for (size_t i = 0; i < n; i++)
		if (kept == 0 || strcmp(diff->names + pending[i].name,
					 diff->names + pending[kept - 1].name) != 0)
			pending[kept++] = pending[i];
	diff->n_pending = first + kept;
}

/* Adds the entries of the directory @name of the place, whose path is diff->path. */
static int add_entries(struct diff *diff, const char *name, size_t len, enum how how)
{
	const struct place *place = &diff->place;
	const int *dirfds = place->layers;
	size_t n = diff->n_layers, first = diff->n_pending;
	struct pending like = {.parent_len = len, .level = diff->names_len};
	int r = 0;

	if (how == BY_LAYERS) {
		r = layers_tell(diff, name);
		if (r == 0)
			how = BY_VIEWS;
	}
	if (how == BY_VIEWS) {
		dirfds = place->views;
		n = SIDES;
	}
	like.how = how;
	for (size_t i = 0; r >= 0 && i < n; i++) {
		int fd = open_diff_directory(dirfds[i], name, O_RDONLY);

		if (is_our_fault(fd))
			r = fd;
		else if (fd >= 0)
			r = add_names(diff, fd, &like);
		else if (fd != -ENOENT)
			diff->totals.unread++;
	}
	sort_pending(diff, first);
	return r < 0 ? r : 0;
}

/* Comparing. */

/* Returns whether @name is there, or -errno if that cannot be found out. */
static int look_at_diff_name(int dirfd, const char *name, struct stat *ret)
{
	if (dirfd < 0)
		return dirfd == -ENOENT ? 0 : dirfd;
	if (fstatat(dirfd, name, ret, AT_SYMLINK_NOFOLLOW) == 0)
		return 1;
	return errno == ENOENT ? 0 : -errno;
}

static int open_diff_file(int dirfd, const char *name)
{
	_cleanup_close_ int fd =
		openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? TAKE_FD(fd) : -EINVAL;
}

/* Returns whether two files of one size have different bytes or attributes, or -errno. */
static int contents_differ(struct diff *diff, const char *name)
{
	_cleanup_close_ int before = open_diff_file(diff->place.views[BEFORE], name);
	_cleanup_close_ int after = open_diff_file(diff->place.views[AFTER], name);
	off_t at = 0;

	if (after == -ENOENT || after == -EINVAL || after == -ELOOP)
		return 1; /* it has been replaced meanwhile */
	if (before < 0 || after < 0)
		return before < 0 ? before : after;
	for (;;) {
		ssize_t n = io_read(before, diff->compared[BEFORE], COMPARED_BYTES, at);
		ssize_t m = io_read(after, diff->compared[AFTER], COMPARED_BYTES, at);

		if (n < 0 || m < 0)
			return (int)(n < 0 ? n : m);
		if (n != m || memcmp(diff->compared[BEFORE], diff->compared[AFTER], (size_t)n) != 0)
			return 1;
		if ((size_t)n < COMPARED_BYTES)
			return file_attributes_differ(before, after);
		at += n;
	}
}

/* What cannot be opened is told when its entries are looked at. */
static int directories_differ(const struct diff *diff, const char *name)
{
	static const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	_cleanup_close_ int before = openat(diff->place.views[BEFORE], name, flags);
	_cleanup_close_ int after = openat(diff->place.views[AFTER], name, flags);

	return before < 0 || after < 0 ? 0 : file_attributes_differ(before, after);
}

static int targets_differ(struct diff *diff, const char *name)
{
	ssize_t len[SIDES];

	for (size_t i = 0; i < SIDES; i++) {
		len[i] =
			readlinkat(diff->place.views[i], name, diff->compared[i], LIMIT_PATH_BYTES);
		if (len[i] < 0)
			return -errno;
	}
	return len[BEFORE] != len[AFTER] ||
	       memcmp(diff->compared[BEFORE], diff->compared[AFTER], (size_t)len[BEFORE]) != 0;
}

/* Returns whether an entry that is in both views differs, or -errno. */
static int differ(struct diff *diff, const char *name, const struct stat st[SIDES])
{
	const mode_t shown = S_IFMT | 07777;

	if ((st[BEFORE].st_mode & shown) != (st[AFTER].st_mode & shown))
		return 1;
	if (S_ISREG(st[AFTER].st_mode))
		return st[BEFORE].st_size != st[AFTER].st_size ? 1 : contents_differ(diff, name);
	if (S_ISDIR(st[AFTER].st_mode))
		return directories_differ(diff, name);
	return S_ISLNK(st[AFTER].st_mode) ? targets_differ(diff, name) : 0;
}

/* Telling. */

static struct files_state_of diff_state_of(bool there, const struct stat *st)
{
	if (!there)
		return (struct files_state_of){0};
	/* The size of a directory is the file system's own affair. */
	return (struct files_state_of){.type = file_node_type(st->st_mode),
		.size = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size,
		.mode = st->st_mode & 07777};
}

static bool has_content(mode_t mode)
{
	return S_ISREG(mode) || S_ISLNK(mode);
}

/* Reads the content of a small file or a link. @ret_data is malloc'ed. */
static void read_side(
	int dirfd, const char *name, const struct stat *st, char **ret_data, struct diff_side *ret)
{
	_cleanup_close_ int fd = -1;
	size_t size = S_ISLNK(st->st_mode) ? LIMIT_PATH_BYTES : LIMIT_DIFF_FILE_BYTES + 1;
	ssize_t len = -1;

	if (!has_content(st->st_mode))
		return;
	ret->mode = st->st_mode;
	*ret_data = malloc(size);
	if (*ret_data && S_ISLNK(st->st_mode)) {
		len = readlinkat(dirfd, name, *ret_data, size);
	} else if (*ret_data) {
		fd = open_diff_file(dirfd, name);
		len = fd < 0 ? -1 : io_read(fd, *ret_data, size, 0);
	}
	ret->read = len >= 0 && (uint64_t)len <= LIMIT_DIFF_FILE_BYTES;
	if (ret->read)
		ret->content = (struct text){*ret_data, (size_t)len};
}

/* Tells the change as a part of the patch, if it has a place in it. */
static int tell_patch(struct diff *diff, struct text path, const char *name, const int there[SIDES],
	const struct stat st[SIDES])
{
	struct diff_side sides[SIDES] = {{.content = {"", 0}}, {.content = {"", 0}}};
	struct diff_text out = {.max = diff->patch_left};
	char *data[SIDES] = {NULL, NULL};
	int r = 0;

	for (size_t i = 0; i < SIDES; i++)
		if (there[i])
			read_side(diff->place.views[i], name, &st[i], &data[i], &sides[i]);
	if (sides[BEFORE].mode == 0 && sides[AFTER].mode == 0)
		; /* directories have no place in a patch, nor have sockets */
	else if (!diff_patch(path, &sides[BEFORE], &sides[AFTER], &out) || out.failed)
		diff->totals.unpatched++;
	else
		r = reply_data(diff->reply, out.data, out.len);
	if (!out.failed)
		diff->patch_left -= out.len;
	free(out.data);
	free(data[BEFORE]);
	free(data[AFTER]);
	return r;
}

static int tell_difference(struct diff *diff, const char *name, size_t len, const int there[SIDES],
	const struct stat st[SIDES])
{
	struct text path = len > 0 ? (struct text){diff->path, len} : TEXT_LITERAL(".");
	struct files_change change = {.path = path,
		.before = diff_state_of(there[BEFORE], &st[BEFORE]),
		.after = diff_state_of(there[AFTER], &st[AFTER])};
	int r;

	diff->totals.added += !there[BEFORE];
	diff->totals.deleted += !there[AFTER];
	diff->totals.changed += there[BEFORE] && there[AFTER];
	if (diff->told == diff->request->max_changes) {
		diff->truncated = true;
		return 0;
	}
	diff->told++;
	r = reply_change(diff->reply, &change);
	return r < 0 || !diff->request->patch ? r : tell_patch(diff, path, name, there, st);
}

/* Compares the entry @name of the place, whose path is diff->path. */
static int compare_entry(struct diff *diff, const char *name, size_t len, enum how how)
{
	struct stat st[SIDES] = {0};
	int there[SIDES], r = 0;

	for (size_t i = 0; i < SIDES; i++) /* st stays 0 where nothing is */
		there[i] = look_at_diff_name(diff->place.views[i], name, &st[i]);
	if (there[BEFORE] < 0 || there[AFTER] < 0)
		r = -EACCES;
	else if (there[BEFORE] != there[AFTER])
		r = 1;
	else if (there[BEFORE])
		r = differ(diff, name, st);
	if (is_our_fault(r))
		return r;
	if (r < 0) {
		diff->totals.unread++;
		return 0;
	}
	if (r > 0)
		r = tell_difference(diff, name, len, there, st);
	if (r < 0 || (!S_ISDIR(st[BEFORE].st_mode) && !S_ISDIR(st[AFTER].st_mode)))
		return r;
	if (!S_ISDIR(st[BEFORE].st_mode) || !S_ISDIR(st[AFTER].st_mode))
		how = BY_VIEWS;
	return add_entries(diff, name, len, how);
}

/* Takes the next pending entry's name out, and makes its path that of the walk. */
static size_t take_path(struct diff *diff, const struct pending *next, char name[NAME_MAX + 1])
{
	size_t len = next->parent_len, name_len = strlen(diff->names + next->name);

	memcpy(name, diff->names + next->name, name_len + 1);
	if (len > 0)
		diff->path[len++] = '/';
	memcpy(diff->path + len, name, name_len + 1);
	return len + name_len;
}

static int walk(struct diff *diff)
{
	char name[NAME_MAX + 1];
	int r = enter_place(diff, 0, BY_LAYERS);

	if (r == 0)
		r = compare_entry(diff, ".", 0, BY_LAYERS);
	while (r == 0 && diff->n_pending > 0) {
		struct pending next = diff->pending[--diff->n_pending];
		size_t len = take_path(diff, &next, name);

		/* It was the last of its directory. */
		if (diff->n_pending == 0 || diff->pending[diff->n_pending - 1].level != next.level)
			diff->names_len = next.level;
		r = enter_place(diff, next.parent_len, next.how);
		if (r == 0)
			r = compare_entry(diff, name, len, next.how);
	}
	leave_place(diff);
	return r;
}

/* The views and layers. */

/* Opens the layers above @since. Returns 0 or -errno. */
static int open_diff_layers(struct diff *diff, int layers)
{
	int fd = openat(layers, ".", O_RDONLY | DIRECTORY_FLAGS), r = 0;
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!stream) {
		r = -errno;
		close_fd(&fd);
		return r;
	}
	while (r == 0 && (entry = readdir(stream))) {
		const char *number = entry->d_name + strlen(LAYERS_UPPER);

		if (strncmp(entry->d_name, LAYERS_UPPER, strlen(LAYERS_UPPER)) != 0 ||
			strtoul(number, NULL, 10) <= diff->request->since)
			continue;
		if (diff->n_layers == LIMIT_LAYERS)
			r = -EBADMSG;
		else
			r = open_diff_directory(layers, entry->d_name, O_PATH);
		if (r < 0)
			break;
		diff->layers[diff->n_layers++] = r;
		r = 0;
	}
	closedir(stream);
	return r;
}

static int open_views(struct diff *diff, const struct root *root)
{
	char name[sizeof(LAYERS_VIEW "4294967295")];

	snprintf(name, sizeof(name), LAYERS_VIEW "%u", diff->request->since);
	diff->views[BEFORE] =
		root->layers < 0 ? -ENOENT : open_diff_directory(root->layers, name, O_PATH);
	if (diff->views[BEFORE] < 0)
		return diff->views[BEFORE];
	diff->views[AFTER] = open_diff_directory(root->fd, ".", O_PATH);
	return diff->views[AFTER] < 0 ? diff->views[AFTER] : open_diff_layers(diff, root->layers);
}

static void diff_free(struct diff **pointer)
{
	struct diff *diff = *pointer;

	if (!diff)
		return;
	for (size_t i = 0; i < SIDES; i++)
		close_fd(&diff->views[i]);
	for (size_t i = 0; i < diff->n_layers; i++)
		close_fd(&diff->layers[i]);
	free(diff->pending);
	free(diff->names);
	free(diff);
}

void file_diff(const struct root *root, const struct files_diff *request, struct reply *reply)
{
	_cleanup_(diff_free) struct diff *diff = calloc(1, sizeof(*diff));
	int r;

	if (!diff) {
		reply_error(reply, TOOL_EXECUTION_ERROR, "Out of memory");
		return;
	}
	diff->request = request;
	diff->reply = reply;
	diff->views[BEFORE] = diff->views[AFTER] = -1;
	diff->place.len = SIZE_MAX;
	diff->patch_left = LIMIT_DIFF_PATCH_BYTES;
	r = open_views(diff, root);
	if (r == -ENOENT) {
		reply_error(reply, TOOL_NOT_FOUND,
			"The workspace has no such checkpoint: workspace.checkpoints lists them");
		return;
	}
	if (r == 0)
		r = walk(diff);
	if (r < 0) {
		reply_error(reply, tool_error_from_errno(-r), "%s", tool_errno_sentence(-r));
		return;
	}
	reply_totals(reply, &diff->totals);
	reply_end(reply, &(struct files_end){.truncated = diff->truncated, .count = diff->told});
}
