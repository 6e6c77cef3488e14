// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a job of the files process; file_watch.h explains it. The tenant may rename and remove
 * watched files meanwhile.
 */
#include "worker/files/file_watch.h"

#include "common/cleanup.h"
#include "worker/files/file_watch_state.h"
#include "worker/files/walk/tree_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EVENT_BYTES  (64 * KIB) /* of events that are read at once */
#define MOVE_WAIT_MS 20         /* for the other half of a move */

/* Whether the same was told, and nothing else since. */
static bool is_repeated(struct watch *watch, const struct inotify_event *event)
{
	if (!(event->mask & (IN_MODIFY | IN_ATTRIB))) {
		watch->n_changes = 0;
		return false;
	}
	for (size_t i = 0; i < watch->n_changes; i++) {
		const struct inotify_event *before = watch->changes[i];

		if (before->wd == event->wd && before->mask == event->mask &&
			before->len == event->len &&
			memcmp(before->name, event->name, event->len) == 0)
			return true;
	}
	if (watch->n_changes < KEPT_CHANGES)
		watch->changes[watch->n_changes++] = event;
	return false;
}

/* An event of the entry @path in a watched directory. */
static int take_entry(struct watch *watch, const struct inotify_event *event, const char *path)
{
	const struct text told = text_from(path);
	const bool directory = event->mask & IN_ISDIR, follows = directory && watch->recursive;
	int r;

	if (event->mask & IN_CREATE) {
		r = file_watch_tell(watch, FILES_EVENT_CREATED, directory, 0, told);
		return r == 0 && follows ? file_watch_add_new(watch, path, true) : r;
	}
	if (event->mask & IN_MOVED_TO) {
		if (file_watch_was_temporary(watch, event->cookie))
			return file_watch_tell(watch, FILES_EVENT_CHANGED, directory, 0, told);
		r = file_watch_tell(watch, FILES_EVENT_MOVED_TO, directory, event->cookie, told);
		return r == 0 && follows ? file_watch_arrive(watch, event->cookie, path) : r;
	}
	if ((event->mask & IN_MOVED_FROM) && !directory)
		return file_watch_hold(watch, event->cookie, path);
	if (event->mask & IN_MOVED_FROM) {
		r = file_watch_tell(watch, FILES_EVENT_MOVED_FROM, directory, event->cookie, told);
		return r == 0 && follows ? file_watch_note_move(watch, event->cookie, path) : r;
	}
	if (event->mask & IN_DELETE)
		return file_watch_tell(watch, FILES_EVENT_REMOVED, directory, 0, told);
	return file_watch_tell(watch,
		event->mask & IN_MODIFY ? FILES_EVENT_CHANGED : FILES_EVENT_ATTRIBUTES, directory,
		0, told);
}

/* Whether the watched directory is still at its path. */
static bool is_in_place(const struct watch *watch)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	return root_open(watch->root, watch->path, O_PATH | O_DIRECTORY, &fd, NULL) == TOOL_OK &&
	       fstat(fd, &st) == 0 && st.st_dev == watch->device && st.st_ino == watch->inode;
}

/* Events were lost: finds the directories that are there now. Returns -ENOENT if it is gone. */
static int begin_again(struct watch *watch)
{
	_cleanup_close_ int fd = -1;
	int r = file_watch_tell(watch, FILES_EVENT_OVERFLOW, true, 0, watch->path);

	(void)file_watch_moves_wait(watch, true);
	if (r == 0 && !is_in_place(watch))
		return -ENOENT;
	if (r != 0 || !watch->recursive ||
		root_open(watch->root, watch->path, O_RDONLY | O_DIRECTORY, &fd, NULL) != TOOL_OK)
		return r;
	watch->round++;
	r = file_watch_add(watch, fd, FILE_WATCH_TOP, watch->path);
	if (r == 0)
		r = file_watch_add_below(watch, fd, watch->path, false);
	for (size_t i = watch->count; r == 0 && i-- > 0;)
		if (watch->directories[i].round != watch->round)
			file_watch_remove(watch, i);
	return r;
}

/* Returns 0, a reason to end, or -ENOENT if the watched directory is gone. */
static int take_event(struct watch *watch, const struct inotify_event *event)
{
	const struct watched *in = file_watch_find(watch, event->wd);
	_cleanup_free_ char *path = NULL;
	bool top;
	int r;

	if (event->len == 0 || !tree_walk_is_temporary(event->name)) {
		r = file_watch_tell_held(watch);
		if (r != 0)
			return r;
	}
	if (event->mask & IN_Q_OVERFLOW)
		return begin_again(watch);
	if (!in)
		return 0;
	top = text_equal(text_from(in->path), watch->path);
	if (event->mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)) {
		if (top)
			return -ENOENT;
		if (event->mask & IN_IGNORED)
			file_watch_forget(watch, (size_t)(in - watch->directories));
		return 0;
	}
	if (is_repeated(watch, event))
		return 0;
	if (event->len == 0) /* of another directory its own tells */
		return top ? file_watch_tell(watch, FILES_EVENT_ATTRIBUTES, true, 0, watch->path)
			   : 0;
	if (tree_walk_is_temporary(event->name)) {
		file_watch_note_temporary(watch, event);
		return 0;
	}
	if (strcmp(in->path, ".") == 0)
		path = strdup(event->name);
	else if (asprintf(&path, "%s/%s", in->path, event->name) < 0)
		path = NULL;
	return path ? take_entry(watch, event, path) : -ENOMEM;
}

/* Takes all that is read at once. */
static int take_events(struct watch *watch, const char *buffer, size_t len)
{
	int r = 0;

	watch->n_changes = 0;
	for (size_t at = 0; r == 0 && at < len;) {
		const struct inotify_event *event = (const void *)(buffer + at);

		r = take_event(watch, event);
		at += sizeof(*event) + event->len;
	}
	return r;
}

/* Tells of events until the watch ends. */
static int watch_serve(struct watch *watch)
{
	_Alignas(struct inotify_event) static char buffer[EVENT_BYTES];
	int r = reply_flush(watch->reply) < 0 ? WATCH_NO_LISTENER : 0;
	bool wait = false;

	while (r == 0) {
		struct pollfd ready = {.fd = watch->inotify, .events = POLLIN};
		int n = poll(&ready, 1, wait ? MOVE_WAIT_MS : -1);
		ssize_t len = n > 0 ? read(watch->inotify, buffer, sizeof(buffer)) : 0;

		if ((n < 0 || len < 0) && errno != EINTR)
			return -errno;
		if (len > 0)
			r = take_events(watch, buffer, (size_t)len);
		if (r == 0 && watch->held_waits)
			r = file_watch_tell_held(watch);
		watch->held_waits = watch->held_cookie != 0;
		wait = file_watch_moves_wait(watch, false) || watch->held_waits;
		if (reply_flush(watch->reply) < 0)
			return WATCH_NO_LISTENER;
	}
	return r;
}

static void end_watch(struct watch *watch, int reason)
{
	switch (reason) {
	case WATCH_NO_LISTENER:
		break;
	case WATCH_TOO_MANY:
		reply_error(watch->reply, TOOL_INVALID_ARGUMENTS,
			"The directory has more than %d directories in it; watch some of them, or "
			"without recursive",
			LIMIT_FILE_WATCH_DIRECTORIES);
		break;
	case WATCH_USED_UP:
		reply_error(watch->reply, TOOL_BUSY,
			"The workspace's inotify watches are used up; its commands have them too");
		break;
	case -ENOENT:
		reply_error(
			watch->reply, TOOL_NOT_FOUND, "The watched directory was removed or moved");
		break;
	default:
		reply_error(watch->reply, tool_error_from_errno(-reason), "%s",
			tool_errno_sentence(-reason));
	}
}

/* Watches the directory @fd, and with recursive those in it; then tells that it does. */
static int watch_begin(struct watch *watch, int fd)
{
	struct files_node node;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	watch->device = st.st_dev;
	watch->inode = st.st_ino;
	watch->begins = true;
	r = file_watch_add(watch, fd, FILE_WATCH_TOP, watch->path);
	if (r == 0 && watch->recursive)
		r = file_watch_add_below(watch, fd, watch->path, false);
	watch->begins = false;
	if (r != 0)
		return r;
	node = file_node(watch->root, &st, watch->path, &watch->texts);
	return reply_node(watch->reply, &node) < 0 ? WATCH_NO_LISTENER : 0;
}

static void watch_done(struct watch *watch)
{
	for (size_t i = 0; i < watch->count; i++)
		free(watch->directories[i].path);
	for (size_t i = 0; i < KEPT_COOKIES; i++)
		free(watch->moves[i].path);
	free(watch->directories);
	free(watch->held_path);
	byte_queue_free(&watch->untold);
	close_fd(&watch->inotify);
}

void file_watch(const struct root *root, const struct files_ask *request, struct reply *reply)
{
	_cleanup_(watch_done) struct watch watch = {.root = root,
		.reply = reply,
		.inotify = -1,
		.recursive = request->recursive,
		.entries = request->attributes};
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *path = NULL;
	enum tool_error error = root_open(root, request->path, O_RDONLY | O_DIRECTORY, &fd, &path);
	int r;

	if (error != TOOL_OK) {
		reply_path_error(reply, root, request->path, error);
		return;
	}
	watch.path = text_from(path);
	watch.inotify = inotify_init1(IN_CLOEXEC);
	if (watch.inotify < 0 && errno == EMFILE) {
		reply_error(reply, TOOL_BUSY,
			"The workspace's %d inotify instances are used up; its commands and other "
			"watches have them",
			LIMIT_INOTIFY_INSTANCES);
		return;
	}
	r = watch.inotify < 0 ? -errno : watch_begin(&watch, fd);
	close_fd(&fd);
	if (r == 0)
		r = file_watch_tell_untold(&watch);
	if (r == 0)
		r = watch_serve(&watch);
	end_watch(&watch, r);
}
