/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * file.read in the files process: a file that is read as a stream. cloisterd says how many bytes it
 * can take next, so no frame waits here, and other calls have their turns between two parts.
 */

#include "worker/files/reply.h"
#include "worker/files/walk/root_open.h"

struct file_fetch {
	uint64_t call;
	int fd;          /* -1: none is open */
	uint64_t offset; /* of the next byte */
	uint64_t left;   /* bytes that are wanted still */
	uint64_t sent;
	char *path;
};

/** Opens the file and tells of it. On failure ends @reply, and @ret->fd is -1. */
void file_fetch_begin(const struct root *root, const struct files_ask *request, uint64_t call,
	struct file_fetch *ret, struct reply *reply);

/**
 * Sends at most @bytes. Returns whether that was the last: then @reply has its end, and the fetch
 * is to be ended.
 */
bool file_fetch_more(struct file_fetch *fetch, uint64_t bytes, struct reply *reply);

void file_fetch_end(struct file_fetch *fetch);
