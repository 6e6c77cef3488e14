/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The bytes of file.read and file.write, in cloisterd. Neither is ever held as a whole:
 *
 * file.read asks the files process for at most LIMIT_FILE_STREAM_WINDOW bytes, and for more only
 * when they have come, when the client reads its answers, and when there is room for what it has
 * not read (unread.h).
 *
 * file.write passes on each part that its client sends (tool.input), and keeps count of it until
 * the files process says that it is written; only then is the client told. The caller bounds how
 * much that is (method_input.c).
 *
 * A stream ends when no byte has moved for the tenant's file_timeout, whoever is to blame: a client
 * that stops holds a file open, and a files process that stops is killed.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call;
struct channel_frame;

/* The rows of call_hooks. */
int call_stream_new(struct call *call);
int call_stream_frame(struct call *call, const struct channel_frame *frame);
void call_stream_end(struct call *call);
void call_stream_free(struct call *call);

/** Its process has been asked: what was added is sent, or the first bytes are asked for. */
void call_stream_begin(struct call *call);

/** Its client reads again. */
void call_stream_go_on(struct call *call);

/** As command_input_add(), for file.write; -EINVAL for file.read. */
int call_stream_add(struct call *call, struct text text, bool eof, char **label);

/** Returns the bytes that were added and are not written. */
size_t call_stream_pending(const struct call *call);

/** Returns the size that the file of file.read had when it was opened; 0: it is not known yet. */
uint64_t call_stream_size(const struct call *call);
