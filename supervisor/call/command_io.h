/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a command writes, as cloisterd sees it: it reads stdout and stderr itself, with a budget per
 * turn of the loop. What the command writes is hostile bytes; what is kept of it is bounded
 * (stream_capture.h).
 */

#include "common/text.h"
#include "common/wire_commands.h"
#include "supervisor/call/stream_capture.h"

#include <stdbool.h>

struct command_io;
struct loop_share_flow;
struct service;
struct unread_account;

/* What is read of a stream at once: a pipe's usual size, and its budget in one turn of the loop. */
#define COMMAND_IO_CHUNK 65536

enum command_stream { COMMAND_STREAM_STDOUT, COMMAND_STREAM_STDERR, COMMAND_STREAMS };

struct command_io_limits {
	size_t kept;                   /* of each stream, see stream_capture.h; 0: nothing */
	uint64_t total;                /* likewise: past it nothing more is read */
	struct unread_account *unread; /* that what is kept counts for; NULL: for nobody */
	struct loop_share_flow *share; /* whose turns of the loop reading takes */
	bool streamed;                 /* what comes is passed on to its client */
};

struct command_io_owner {
	/* Bytes came. They are borrowed and already kept. Called from the loop, from
	 * command_io_poll and from command_io_drain. */
	void (*output)(void *context, enum command_stream stream, struct text data);
	/* One stream is over the limit: nothing more is read. Said once. */
	void (*limit)(void *context);
	void *context;
};

/**
 * Makes the pipes. Stores in @ret_fds what the command gets as COMMAND_FD_STDOUT and
 * COMMAND_FD_STDERR, which the caller passes on. 0 or -errno.
 */
int command_io_new(struct service *service, const struct command_io_owner *owner,
	const struct command_io_limits *limits, struct command_io **ret, int ret_fds[COMMAND_FDS]);

/** Stops and goes on reading: a client that does not take its output stalls only its own command.
 */
void command_io_pause(struct command_io *io);
void command_io_resume(struct command_io *io);

/** Reads once, whether or not the loop has come to it. Whether there was anything. */
bool command_io_poll(struct command_io *io);

/**
 * The command is gone: reads what it left in the pipes, at most what they hold. Who else
 * holds a write end is not waited for.
 */
void command_io_drain(struct command_io *io);

/** Keeps no more than @bytes of each stream of what came, and nothing of what comes. */
void command_io_shrink(struct command_io *io, size_t bytes);

/** Nobody has any use of what comes or came: it is read, and not kept. */
void command_io_disown(struct command_io *io);

const struct stream_capture *command_io_capture(
	const struct command_io *io, enum command_stream stream);

/** NULL is fine. */
void command_io_free(struct command_io *io);
