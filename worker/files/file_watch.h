/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * file.watch in a job of the files process: reports changes in a directory by inotify(7).
 * inotify_add_watch(2) takes a path, so the job changes its working directory to a descriptor that
 * root_open() or tree_walk() has found, and watches ".".
 *
 * The kernel keeps at most fs.inotify.max_queued_events events while the job waits for cloisterd;
 * the job reports when events were lost. Paths do not change when a command renames directories
 * above the watched one.
 */

#include <sys/inotify.h>

struct files_ask;
struct reply;
struct root;

/* The only events that the system call filter permits. */
#define FILE_WATCH_DIRECTORY                                                           \
	(IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | \
		IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK)
#define FILE_WATCH_TOP (FILE_WATCH_DIRECTORY | IN_DELETE_SELF | IN_MOVE_SELF)

/** Watches until the directory is removed or moved, which is its end, or until the job is killed.
 */
void file_watch(const struct root *root, const struct files_ask *request, struct reply *reply);
