/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How a file operation answers its call. A reply is written to a descriptor: the files process's
 * own socket to cloisterd or, in a job, a pipe to the files process, which forwards whole frames.
 */

#include "common/wire/wire_files.h"

struct root;

struct reply; /* owned by the process that serves the call */

/**
 * Returns a reply for @call that writes whole frames to @fd and blocks while it is full, to be
 * freed with reply_free(), or NULL if memory is out.
 */
struct reply *reply_new(int fd, uint64_t call);
void reply_free(struct reply *reply);

/**
 * Makes @reply, whose call has ended, answer @call. From then on the end of a call is kept back
 * until there is enough for a write or reply_flush() is called, so that many small answers take one
 * write(2).
 */
void reply_next(struct reply *reply, uint64_t call);

/** Adds our id's quota on the file system of @fd, if there is one, to the end of the call. */
void reply_tell_disk(struct reply *reply, int fd);

/** Sends what was kept back. Returns 0 or -errno, as below. */
int reply_flush(struct reply *reply);

/*
 * Each returns 0 or -errno: -EPIPE when the reader is gone, and then the operation should stop.
 * Frames are collected until there is enough for one write; reply_end() sends the rest, except
 * after reply_next().
 */
int reply_data(struct reply *reply, const void *data, size_t len);
int reply_image(struct reply *reply, const void *data, size_t len);
int reply_entry(struct reply *reply, const struct files_entry *entry);
int reply_change(struct reply *reply, const struct files_change *change);
int reply_totals(struct reply *reply, const struct files_totals *totals);
int reply_match(struct reply *reply, const struct files_match *match);
int reply_patched(struct reply *reply, const struct files_patched *patched);
int reply_step(struct reply *reply, const struct files_step *step);
int reply_trouble(struct reply *reply, const struct files_trouble *trouble);
int reply_held(struct reply *reply, const struct files_held *held);
int reply_node(struct reply *reply, const struct files_node *node);
int reply_event(struct reply *reply, const struct files_event *event);
int reply_taken(struct reply *reply, const struct files_amount *taken);
int reply_end(struct reply *reply, const struct files_end *end);

/**
 * Ends a call that failed with @error. The printf-style @format gives its sentence; NULL or an
 * empty sentence means the error code's own.
 */
int reply_error(struct reply *reply, enum tool_error error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** Ends a call that could not open @path, with the paths that were perhaps meant. */
int reply_path_error(
	struct reply *reply, const struct root *root, struct text path, enum tool_error error);
