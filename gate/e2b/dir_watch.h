/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Watches a directory of a sandbox for a client of E2B. Each watch has a separate link, which keeps
 * the workspace open; cloisterd ends the watch with the link.
 */

#include <stdbool.h>

struct dir_watch;
struct json_object;
struct op;

struct dir_watch_owner {
	/* It is watched from now on. */
	void (*begun)(void *context);
	/* Takes a FilesystemEvent. */
	void (*event)(void *context, struct json_object *event);
	/*
	 * It is not watched, or not any more. @code is Connect's; NULL: the sandbox is gone. The
	 * texts are borrowed.
	 */
	void (*ended)(void *context, const char *code, const char *message);
	void *context;
};

/**
 * Begins to watch the absolute @path in the sandbox of @op. The op's body has the other options.
 * Returns 0 or -errno.
 */
int dir_watch_new(const struct op *op, const char *path, const struct dir_watch_owner *owner,
	struct dir_watch **ret);

/** Reads no events until the pause ends. */
void dir_watch_pause(struct dir_watch *watch, bool pause);

/** No callback is called any more. May be called in one; NULL is allowed. */
void dir_watch_free(struct dir_watch *watch);
