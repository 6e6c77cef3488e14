/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-files: the one way an operation answers its call. A reply is written to a descriptor
 * that is either the process's own pipe to cloisterd or, in a job's child, a pipe to its parent,
 * which passes whole frames on.
 */

#include "common/wire_files.h"

struct reply; /* owned by whoever serves the calls */

/**
 * A reply for @call that writes whole frames to @fd and blocks while it is full. NULL: out of
 * memory. Free with reply_free.
 */
struct reply *reply_new(int fd, uint64_t call);
void reply_free(struct reply *reply);

/**
 * @reply, whose call has ended, is to answer @call. From the first time on ends are kept back until
 * there is enough for a write, or until reply_flush: many small answers are one write(2).
 */
void reply_next(struct reply *reply, uint64_t call);

/** Sends what was kept back. 0 or -errno, as below. */
int reply_flush(struct reply *reply);

/*
 * Each returns 0 or -errno: -EPIPE when nobody listens any more, after which the operation should
 * stop. Frames are collected and sent when there is enough for one write; reply_end sends what is
 * left, but for reply_next.
 */
int reply_data(struct reply *reply, const void *data, size_t len);
int reply_entry(struct reply *reply, const struct files_entry *entry);
int reply_match(struct reply *reply, const struct files_match *match);
int reply_end(struct reply *reply, const struct files_end *end);

/**
 * The end of a call that failed: @error with printf-style @format as its sentence (NULL or an empty
 * sentence: the code's own).
 */
int reply_error(struct reply *reply, enum tool_error error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
