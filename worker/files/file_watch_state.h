/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A watch of file.watch, for its three files: file_watch.c takes the kernel's events,
 * file_watch_dirs.c has the watched directories, file_watch_moves.c pairs the halves of moves.
 */

#include "common/byte_queue.h"
#include "common/limits.h"
#include "worker/files/file_node.h"
#include "worker/files/reply.h"
#include "worker/files/walk/root_open.h"

#include <sys/inotify.h>
#include <sys/types.h>

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

/* file_watch_dirs.c */

/**
 * Sends an event. An entry with too long a path is not reported: its directory counts as unwatched.
 * Returns 0, or WATCH_NO_LISTENER.
 */
int file_watch_tell(struct watch *watch, enum files_event_type type, bool directory,
	uint32_t cookie, struct text path);

/** Watches the directory @fd. Returns 0, WATCH_TOO_MANY, WATCH_USED_UP or -errno. */
int file_watch_add(struct watch *watch, int fd, uint32_t events, struct text path);

/**
 * Watches all directories in @fd, which is open for reading. With @announce sends an event for each
 * entry in them. Returns 0, a reason to end, or -errno.
 */
int file_watch_add_below(struct watch *watch, int fd, struct text path, bool announce);

/** Watches a directory that has come to @path. As file_watch_add_below(). */
int file_watch_add_new(struct watch *watch, const char *path, bool announce);

/** Sends the events about directories that the first walk could not watch. As file_watch_tell(). */
int file_watch_tell_untold(struct watch *watch);

/** Returns the directory whose descriptor of inotify(7) is @wd, or NULL. */
struct watched *file_watch_find(const struct watch *watch, int wd);

/** The directory with the index @at is not watched any more: forgets it, or also unwatches it. */
void file_watch_forget(struct watch *watch, size_t at);
void file_watch_remove(struct watch *watch, size_t at);

/** Unwatches the directory @path and all below it. */
void file_watch_remove_below(struct watch *watch, const char *path);

/** The directory @from is @to now, with all that is in it. Returns 0, a reason to end, or -errno.
 */
int file_watch_rename(struct watch *watch, const char *from, const char *to);

/* file_watch_moves.c */

/** A directory was moved away from @path; its other half may come. Returns 0 or -ENOMEM. */
int file_watch_note_move(struct watch *watch, uint32_t cookie, const char *path);

/** A directory has come to @path from elsewhere. Returns 0, a reason to end, or -errno. */
int file_watch_arrive(struct watch *watch, uint32_t cookie, const char *path);

/** Gives up moves whose other half had time to come, or all (@now). Returns whether others wait. */
bool file_watch_moves_wait(struct watch *watch, bool now);

/** A file was moved away from @path: keeps the event back. Returns 0 or -ENOMEM. */
int file_watch_hold(struct watch *watch, uint32_t cookie, const char *path);

/** Sends the event that was kept back, if there is one. As file_watch_tell(). */
int file_watch_tell_held(struct watch *watch);

/** Takes an event of one of cloister's own temporary files, which is not sent. */
void file_watch_note_temporary(struct watch *watch, const struct inotify_event *event);

/** Whether the move @cookie began at a temporary file. */
bool file_watch_was_temporary(const struct watch *watch, uint32_t cookie);
