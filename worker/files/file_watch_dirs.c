// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a job of the files process: the directories of one file.watch. The tenant may rename and
 * remove them meanwhile: a name is looked up only relative to its directory's descriptor.
 */
#include "worker/files/file_watch_state.h"

#include "common/cleanup.h"
#include "worker/files/file_watch.h"
#include "worker/files/walk/tree_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNTOLD_BYTES (1 * MIB) /* of paths that cannot be watched */

/* Opens @path, which events have told of, unless it is another one meanwhile. */
static enum tool_error watch_reopen(
	const struct watch *watch, struct text path, int flags, int *ret_fd)
{
	_cleanup_free_ char *given = NULL, *found = NULL;
	_cleanup_close_ int fd = -1;
	enum tool_error error;

	/* A name may look like an absolute path of another system. */
	if (asprintf(&given, "./%.*s", (int)path.len, path.data) < 0) {
		given = NULL;
		return TOOL_EXECUTION_ERROR;
	}
	error = root_open(watch->root, text_from(given), flags | O_NOFOLLOW, &fd, &found);
	if (error == TOOL_OK && !text_equal(text_from(found), path))
		error = TOOL_NOT_FOUND;
	if (error == TOOL_OK)
		*ret_fd = TAKE_FD(fd);
	return error;
}

/* The entry may have gone, or be another one, when it is looked at. */
static void add_node(struct watch *watch, struct files_event *event)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (!watch->entries || event->type == FILES_EVENT_REMOVED ||
		event->type == FILES_EVENT_MOVED_FROM || event->type >= FILES_EVENT_OVERFLOW ||
		watch_reopen(watch, event->path, O_PATH, &fd) != TOOL_OK || fstat(fd, &st) < 0)
		return;
	event->node = file_node(watch->root, &st, event->path, &watch->texts);
	if (S_ISLNK(st.st_mode))
		file_node_link(&event->node, fd, "", &watch->texts);
	event->has_node = true;
}

int file_watch_tell(struct watch *watch, enum files_event_type type, bool directory,
	uint32_t cookie, struct text path)
{
	struct files_event event = {
		.type = (uint8_t)type, .directory = directory, .cookie = cookie, .path = path};

	if (path.len > LIMIT_PATH_BYTES) {
		const char *slash = memrchr(path.data, '/', LIMIT_PATH_BYTES);

		event = (struct files_event){.type = FILES_EVENT_UNWATCHED,
			.directory = true,
			.path = {path.data, slash ? (size_t)(slash - path.data) : 1}};
	}
	add_node(watch, &event);
	return reply_event(watch->reply, &event) < 0 ? WATCH_NO_LISTENER : 0;
}

static size_t watched_place(const struct watch *watch, int wd)
{
	size_t low = 0, high = watch->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (watch->directories[middle].wd < wd)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct watched *file_watch_find(const struct watch *watch, int wd)
{
	size_t at = watched_place(watch, wd);

	return at < watch->count && watch->directories[at].wd == wd ? &watch->directories[at]
								    : NULL;
}

void file_watch_forget(struct watch *watch, size_t at)
{
	free(watch->directories[at].path);
	watch->count--;
	memmove(&watch->directories[at], &watch->directories[at + 1],
		(watch->count - at) * sizeof(*watch->directories));
}

void file_watch_remove(struct watch *watch, size_t at)
{
	(void)inotify_rm_watch(watch->inotify, watch->directories[at].wd);
	file_watch_forget(watch, at);
}

/* Notes that @wd is of the directory @path. */
static int watch_note(struct watch *watch, int wd, struct text path)
{
	struct watched *known = file_watch_find(watch, wd);
	char *copy = NULL;
	size_t at = watched_place(watch, wd);

	if (asprintf(&copy, "%.*s", (int)path.len, path.data) < 0)
		return -ENOMEM;
	if (known) {
		free(known->path);
		known->path = copy;
		known->round = watch->round;
		return 0;
	}
	if (watch->count == watch->room) {
		size_t room = watch->room > 0 ? 2 * watch->room : 64;
		struct watched *grown =
			reallocarray(watch->directories, room, sizeof(*watch->directories));

		if (!grown) {
			free(copy);
			return -ENOMEM;
		}
		watch->directories = grown;
		watch->room = room;
	}
	memmove(&watch->directories[at + 1], &watch->directories[at],
		(watch->count - at) * sizeof(*watch->directories));
	watch->directories[at] = (struct watched){wd, watch->round, copy};
	watch->count++;
	return 0;
}

int file_watch_add(struct watch *watch, int fd, uint32_t events, struct text path)
{
	int wd, error;

	if (path.len > LIMIT_PATH_BYTES)
		return -ENAMETOOLONG;
	if (fchdir(fd) < 0)
		return -errno;
	wd = inotify_add_watch(watch->inotify, ".", events);
	error = errno;
	/* The kernel tells of a removal when no process has the directory open any more. */
	if (fchdir(watch->root->fd) < 0)
		return -errno;
	if (wd < 0)
		return error == ENOSPC ? WATCH_USED_UP : -error;
	/* A directory that is watched already has the same number again. */
	if (watch->count >= LIMIT_FILE_WATCH_DIRECTORIES && !file_watch_find(watch, wd)) {
		(void)inotify_rm_watch(watch->inotify, wd);
		return WATCH_TOO_MANY;
	}
	return watch_note(watch, wd, path);
}

static int note_untold(struct watch *watch, struct text path)
{
	if (path.len > LIMIT_PATH_BYTES || watch->untold.len > UNTOLD_BYTES)
		return 0;
	return byte_queue_append(&watch->untold, path.data, path.len) < 0 ||
			       byte_queue_append(&watch->untold, "", 1) < 0
		       ? -ENOMEM
		       : 0;
}

int file_watch_tell_untold(struct watch *watch)
{
	const struct text paths = byte_queue_peek(&watch->untold);
	int r = 0;

	for (size_t at = 0; r == 0 && at < paths.len; at += strlen(paths.data + at) + 1)
		r = file_watch_tell(
			watch, FILES_EVENT_UNWATCHED, true, 0, text_from(paths.data + at));
	byte_queue_free(&watch->untold);
	return r;
}

/* Watches a directory below; reports it if that fails. */
static int watch_below(struct watch *watch, int fd, struct text path, bool *ret_watched)
{
	int r = file_watch_add(watch, fd, FILE_WATCH_DIRECTORY, path);

	*ret_watched = r == 0;
	if (r == 0 || r == -ENOMEM || (r > 0 && watch->begins))
		return r;
	if (watch->begins)
		return note_untold(watch, path);
	return file_watch_tell(watch, FILES_EVENT_UNWATCHED, true, 0, path);
}

/* Is called for each entry of a directory that is watched already, so none is missed. */
static int watch_visit(const struct walk_entry *visited, void *context)
{
	struct watch *watch = context;
	const bool directory = visited->type == DT_DIR;
	_cleanup_close_ int fd = -1;
	bool watched;
	int r = watch->announce
			? file_watch_tell(watch, FILES_EVENT_CREATED, directory, 0, visited->path)
			: 0;

	if (r != 0 || !directory)
		return r;
	fd = openat(visited->dirfd, visited->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? 0 : watch_below(watch, fd, visited->path, &watched);
}

int file_watch_add_below(struct watch *watch, int fd, struct text path, bool announce)
{
	const struct walk walk = {.root = watch->root,
		.path = path,
		.recursive = true,
		.visit = watch_visit,
		.context = watch};
	struct walk_end end;

	watch->announce = announce;
	return tree_walk(&walk, fd, &end);
}

int file_watch_add_new(struct watch *watch, const char *path, bool announce)
{
	_cleanup_close_ int fd = -1;
	enum tool_error error = watch_reopen(watch, text_from(path), O_RDONLY | O_DIRECTORY, &fd);
	bool watched;
	int r;

	if (error == TOOL_PERMISSION_DENIED || error == TOOL_NAME_TOO_LONG)
		return file_watch_tell(watch, FILES_EVENT_UNWATCHED, true, 0, text_from(path));
	if (error != TOOL_OK)
		return 0; /* it is gone, and further events tell of that */
	r = watch_below(watch, fd, text_from(path), &watched);
	return r == 0 && watched ? file_watch_add_below(watch, fd, text_from(path), announce) : r;
}

/* Returns what follows @above in @path if that is @above or in it, or NULL. */
static const char *rest_below(const char *path, const char *above)
{
	size_t len = strlen(above);

	return strncmp(path, above, len) == 0 && (path[len] == '/' || path[len] == '\0')
		       ? path + len
		       : NULL;
}

void file_watch_remove_below(struct watch *watch, const char *path)
{
	for (size_t i = watch->count; i-- > 0;)
		if (rest_below(watch->directories[i].path, path))
			file_watch_remove(watch, i);
}

int file_watch_rename(struct watch *watch, const char *from, const char *to)
{
	int r = 0;

	for (size_t i = watch->count; r == 0 && i-- > 0;) {
		struct watched *directory = &watch->directories[i];
		const char *rest = rest_below(directory->path, from);
		char *path;

		if (!rest)
			continue;
		if (strlen(to) + strlen(rest) > LIMIT_PATH_BYTES) {
			file_watch_remove(watch, i);
			r = file_watch_tell(watch, FILES_EVENT_UNWATCHED, true, 0, text_from(to));
		} else if (asprintf(&path, "%s%s", to, rest) < 0) {
			r = -ENOMEM;
		} else {
			free(directory->path);
			directory->path = path;
		}
	}
	return r;
}
