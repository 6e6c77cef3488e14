// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a job of the files process; file_watch.h explains it. The tenant may rename and remove
 * watched files meanwhile: a name is looked up only relative to its directory's descriptor.
 */
#include "worker/files/file_watch.h"

#include "common/byte_queue.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/files/file_node.h"
#include "worker/files/reply.h"
#include "worker/files/walk/near_paths.h"
#include "worker/files/walk/root_open.h"
#include "worker/files/walk/tree_walk.h"

#include <dirent.h>
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
#define UNTOLD_BYTES (1 * MIB)  /* of paths that cannot be watched */
#define KEPT_COOKIES 8
#define KEPT_CHANGES 16

/* A directory that is watched, by its descriptor of inotify(7). */
struct watched {
	int wd;
	unsigned round; /* of the last walk that found it */
	char *path;     /* relative to the workspace's root */
};

/* A directory that was moved away from @path, perhaps to another one that is watched. */
struct move {
	uint32_t cookie; /* 0: unused */
	bool old;        /* there was time for the other half */
	char *path;
};

struct watch {
	const struct root *root;
	struct reply *reply;
	int inotify;
	bool recursive, entries;
	struct text path; /* of the watched directory */
	dev_t device;
	ino_t inode;
	struct watched *directories; /* by ascending wd */
	size_t count, room;
	unsigned round;
	/* the first walk: a failure ends it, or is reported after it */
	bool begins;
	struct byte_queue untold; /* paths, each with a NUL */
	bool announce;            /* the walk tells of what it finds in a new directory */
	struct move moves[KEPT_COOKIES];
	/*
	 * a file that was moved away, untold until its other half may have come: an edit exchanges
	 * a file with a temporary one
	 */
	uint32_t held_cookie; /* 0: none */
	bool held_waits;      /* it was held before the last events were read */
	char *held_path;
	/* of temporary files that get their name */
	uint32_t temporaries[KEPT_COOKIES];
	size_t next_temporary;
	/* changes in a row: of equal ones only the first is sent */
	const struct inotify_event *changes[KEPT_CHANGES];
	size_t n_changes;
	struct node_texts texts;
};

/* Reasons to end a walk, besides errors. */
enum {
	WATCH_TOO_MANY = 1, /* directories */
	WATCH_USED_UP,      /* the workspace's inotify watches */
	WATCH_NO_LISTENER,
};

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

/*
 * An entry with too long a path is not reported: its directory counts as unwatched. Returns 0, or
 * WATCH_NO_LISTENER.
 */
static int watch_tell(struct watch *watch, enum files_event_type type, bool directory,
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

static size_t place_of(const struct watch *watch, int wd)
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

static struct watched *find_watched(const struct watch *watch, int wd)
{
	size_t at = place_of(watch, wd);

	return at < watch->count && watch->directories[at].wd == wd ? &watch->directories[at]
								    : NULL;
}

static void watch_forget(struct watch *watch, size_t at)
{
	free(watch->directories[at].path);
	watch->count--;
	memmove(&watch->directories[at], &watch->directories[at + 1],
		(watch->count - at) * sizeof(*watch->directories));
}

static void unwatch(struct watch *watch, size_t at)
{
	(void)inotify_rm_watch(watch->inotify, watch->directories[at].wd);
	watch_forget(watch, at);
}

/* Notes that @wd is of the directory @path. */
static int watch_note(struct watch *watch, int wd, struct text path)
{
	struct watched *known = find_watched(watch, wd);
	char *copy = NULL;
	size_t at = place_of(watch, wd);

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

/* Watches the directory @fd. Returns 0, WATCH_TOO_MANY, WATCH_USED_UP or -errno. */
static int watch_fd(struct watch *watch, int fd, uint32_t events, struct text path)
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
	if (watch->count >= LIMIT_FILE_WATCH_DIRECTORIES && !find_watched(watch, wd)) {
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

static int tell_untold(struct watch *watch)
{
	const struct text paths = byte_queue_peek(&watch->untold);
	int r = 0;

	for (size_t at = 0; r == 0 && at < paths.len; at += strlen(paths.data + at) + 1)
		r = watch_tell(watch, FILES_EVENT_UNWATCHED, true, 0, text_from(paths.data + at));
	byte_queue_free(&watch->untold);
	return r;
}

/* Watches a directory below; reports it if that fails. */
static int watch_below(struct watch *watch, int fd, struct text path, bool *ret_watched)
{
	int r = watch_fd(watch, fd, FILE_WATCH_DIRECTORY, path);

	*ret_watched = r == 0;
	if (r == 0 || r == -ENOMEM || (r > 0 && watch->begins))
		return r;
	if (watch->begins)
		return note_untold(watch, path);
	return watch_tell(watch, FILES_EVENT_UNWATCHED, true, 0, path);
}

/* Is called for each entry of a directory that is watched already, so none is missed. */
static int watch_visit(const struct walk_entry *visited, void *context)
{
	struct watch *watch = context;
	const bool directory = visited->type == DT_DIR;
	_cleanup_close_ int fd = -1;
	bool watched;
	int r = watch->announce
			? watch_tell(watch, FILES_EVENT_CREATED, directory, 0, visited->path)
			: 0;

	if (r != 0 || !directory)
		return r;
	fd = openat(visited->dirfd, visited->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? 0 : watch_below(watch, fd, visited->path, &watched);
}

/* Watches all directories in @fd, which is open for reading. */
static int walk_below(struct watch *watch, int fd, struct text path, bool announce)
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

/* Watches a directory that has come to @path. */
static int watch_new(struct watch *watch, const char *path, bool announce)
{
	_cleanup_close_ int fd = -1;
	enum tool_error error = watch_reopen(watch, text_from(path), O_RDONLY | O_DIRECTORY, &fd);
	bool watched;
	int r;

	if (error == TOOL_PERMISSION_DENIED || error == TOOL_NAME_TOO_LONG)
		return watch_tell(watch, FILES_EVENT_UNWATCHED, true, 0, text_from(path));
	if (error != TOOL_OK)
		return 0; /* it is gone, and further events tell of that */
	r = watch_below(watch, fd, text_from(path), &watched);
	return r == 0 && watched ? walk_below(watch, fd, text_from(path), announce) : r;
}

/* Returns what follows @above in @path if that is @above or in it, or NULL. */
static const char *rest_below(const char *path, const char *above)
{
	size_t len = strlen(above);

	return strncmp(path, above, len) == 0 && (path[len] == '/' || path[len] == '\0')
		       ? path + len
		       : NULL;
}

static void unwatch_below(struct watch *watch, const char *path)
{
	for (size_t i = watch->count; i-- > 0;)
		if (rest_below(watch->directories[i].path, path))
			unwatch(watch, i);
}

/* The directory @from is @to now, with all that is in it. */
static int follow_move(struct watch *watch, const char *from, const char *to)
{
	int r = 0;

	for (size_t i = watch->count; r == 0 && i-- > 0;) {
		struct watched *directory = &watch->directories[i];
		const char *rest = rest_below(directory->path, from);
		char *path;

		if (!rest)
			continue;
		if (strlen(to) + strlen(rest) > LIMIT_PATH_BYTES) {
			unwatch(watch, i);
			r = watch_tell(watch, FILES_EVENT_UNWATCHED, true, 0, text_from(to));
		} else if (asprintf(&path, "%s%s", to, rest) < 0) {
			r = -ENOMEM;
		} else {
			free(directory->path);
			directory->path = path;
		}
	}
	return r;
}

static void end_move(struct move *move)
{
	free(move->path);
	*move = (struct move){0};
}

/* A directory without the other half of its move is not below the watched one any more. */
static void give_up_move(struct watch *watch, struct move *move)
{
	unwatch_below(watch, move->path);
	end_move(move);
}

/* Gives up moves whose other half had time to come. Returns whether others wait. */
static bool moves_wait(struct watch *watch, bool now)
{
	bool wait = false;

	for (size_t i = 0; i < KEPT_COOKIES; i++) {
		struct move *move = &watch->moves[i];

		if (move->cookie != 0 && (now || move->old))
			give_up_move(watch, move);
		move->old = true;
		wait |= move->cookie != 0;
	}
	return wait;
}

static int note_move(struct watch *watch, uint32_t cookie, const char *path)
{
	struct move *unused = NULL;

	for (size_t i = 0; !unused && i < KEPT_COOKIES; i++)
		if (watch->moves[i].cookie == 0)
			unused = &watch->moves[i];
	if (!unused) {
		unused = &watch->moves[0];
		give_up_move(watch, unused);
	}
	unused->path = strdup(path);
	if (!unused->path)
		return -ENOMEM;
	unused->cookie = cookie;
	unused->old = false;
	return 0;
}

/* A directory has come to @path from elsewhere. */
static int arrive(struct watch *watch, uint32_t cookie, const char *path)
{
	int r;

	for (size_t i = 0; i < KEPT_COOKIES; i++) {
		struct move *move = &watch->moves[i];

		if (cookie == 0 || move->cookie != cookie)
			continue;
		r = follow_move(watch, move->path, path);
		end_move(move);
		return r;
	}
	return watch_new(watch, path, false);
}

static bool was_temporary(struct watch *watch, uint32_t cookie)
{
	for (size_t i = 0; i < KEPT_COOKIES; i++)
		if (cookie != 0 && watch->temporaries[i] == cookie)
			return true;
	return false;
}

/* Tells of the file that was moved away. */
static int tell_held(struct watch *watch)
{
	const uint32_t cookie = watch->held_cookie;
	int r;

	if (cookie == 0)
		return 0;
	watch->held_cookie = 0;
	r = watch_tell(watch, FILES_EVENT_MOVED_FROM, false, cookie, text_from(watch->held_path));
	free(TAKE_PTR(watch->held_path));
	return r;
}

static int hold_move(struct watch *watch, uint32_t cookie, const char *path)
{
	watch->held_path = strdup(path);
	watch->held_cookie = cookie;
	watch->held_waits = false;
	return watch->held_path ? 0 : -ENOMEM;
}

/* The other half of a move to a temporary file: the file is there under its name. */
static void drop_held(struct watch *watch)
{
	watch->held_cookie = 0;
	free(TAKE_PTR(watch->held_path));
}

/* cloister's own temporary files are told of as they are listed: not at all. */
static void note_temporary(struct watch *watch, const struct inotify_event *event)
{
	if ((event->mask & IN_MOVED_TO) && event->cookie == watch->held_cookie)
		drop_held(watch);
	if (event->mask & IN_MOVED_FROM)
		watch->temporaries[watch->next_temporary++ % KEPT_COOKIES] = event->cookie;
}

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
		r = watch_tell(watch, FILES_EVENT_CREATED, directory, 0, told);
		return r == 0 && follows ? watch_new(watch, path, true) : r;
	}
	if (event->mask & IN_MOVED_TO) {
		if (was_temporary(watch, event->cookie))
			return watch_tell(watch, FILES_EVENT_CHANGED, directory, 0, told);
		r = watch_tell(watch, FILES_EVENT_MOVED_TO, directory, event->cookie, told);
		return r == 0 && follows ? arrive(watch, event->cookie, path) : r;
	}
	if ((event->mask & IN_MOVED_FROM) && !directory)
		return hold_move(watch, event->cookie, path);
	if (event->mask & IN_MOVED_FROM) {
		r = watch_tell(watch, FILES_EVENT_MOVED_FROM, directory, event->cookie, told);
		return r == 0 && follows ? note_move(watch, event->cookie, path) : r;
	}
	if (event->mask & IN_DELETE)
		return watch_tell(watch, FILES_EVENT_REMOVED, directory, 0, told);
	return watch_tell(watch,
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
	int r = watch_tell(watch, FILES_EVENT_OVERFLOW, true, 0, watch->path);

	(void)moves_wait(watch, true);
	if (r == 0 && !is_in_place(watch))
		return -ENOENT;
	if (r != 0 || !watch->recursive ||
		root_open(watch->root, watch->path, O_RDONLY | O_DIRECTORY, &fd, NULL) != TOOL_OK)
		return r;
	watch->round++;
	r = watch_fd(watch, fd, FILE_WATCH_TOP, watch->path);
	if (r == 0)
		r = walk_below(watch, fd, watch->path, false);
	for (size_t i = watch->count; r == 0 && i-- > 0;)
		if (watch->directories[i].round != watch->round)
			unwatch(watch, i);
	return r;
}

/* Returns 0, a reason to end, or -ENOENT if the watched directory is gone. */
static int take_event(struct watch *watch, const struct inotify_event *event)
{
	const struct watched *in = find_watched(watch, event->wd);
	_cleanup_free_ char *path = NULL;
	bool top;
	int r;

	if (event->len == 0 || !tree_walk_is_temporary(event->name)) {
		r = tell_held(watch);
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
			watch_forget(watch, (size_t)(in - watch->directories));
		return 0;
	}
	if (is_repeated(watch, event))
		return 0;
	if (event->len == 0) /* of another directory its own tells */
		return top ? watch_tell(watch, FILES_EVENT_ATTRIBUTES, true, 0, watch->path) : 0;
	if (tree_walk_is_temporary(event->name)) {
		note_temporary(watch, event);
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
			r = tell_held(watch);
		watch->held_waits = watch->held_cookie != 0;
		wait = moves_wait(watch, false) || watch->held_waits;
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
	r = watch_fd(watch, fd, FILE_WATCH_TOP, watch->path);
	if (r == 0 && watch->recursive)
		r = walk_below(watch, fd, watch->path, false);
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
	char sentence[NEAR_PATHS_SIZE];
	enum tool_error error = root_open(root, request->path, O_RDONLY | O_DIRECTORY, &fd, &path);
	int r;

	if (error != TOOL_OK) {
		reply_error(reply, error, "%s",
			near_paths_sentence(root, request->path, error, sentence));
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
		r = tell_untold(&watch);
	if (r == 0)
		r = watch_serve(&watch);
	end_watch(&watch, r);
}
