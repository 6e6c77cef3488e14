/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A command's output. A thread of its tenant reads stdout and stderr (shared_fd.h); the event loop
 * handles the bytes, with a budget for each slice. The output is hostile bytes; a bounded part of
 * it is kept (stream_capture.h).
 */

#include "common/text.h"
#include "common/wire/wire_commands.h"
#include "supervisor/base/shared_fd.h"
#include "supervisor/call/result/stream_capture.h"

#include <stdbool.h>

struct command_io;
struct event_base;
struct loop_share_flow;
struct pipe_stock;
struct unread_account;

/* How much of a stream is read at once and in one slice: the default capacity of a pipe. */
#define COMMAND_IO_CHUNK 65536

enum command_stream { COMMAND_STREAM_STDOUT, COMMAND_STREAM_STDERR, COMMAND_STREAMS };

struct command_io_limits {
	size_t kept;    /* of each stream, see stream_capture.h; 0: nothing */
	uint64_t total; /* of each stream; reading stops after it */
	/* the account for the kept bytes; NULL: they are not counted */
	struct unread_account *unread;
	struct loop_share_flow *share; /* the flow whose share of the loop handling it takes, and
					  whose threads read it */
	struct shared_fd_sum *sum;     /* of the workspace */
	/* output is passed on to the client while the command runs */
	bool streamed;
	bool count_lines; /* of each stream, see stream_capture.h */
};

struct command_io_owner {
	/* Output came: @data is borrowed and already kept. Also some that was read before a pause.
	 */
	void (*output)(void *context, enum command_stream stream, struct text data);
	/* One stream is over the limit, and reading has stopped. Called once. */
	void (*limit)(void *context);
	/* The work that command_io_drain() began has ended. The io may be freed in it. */
	void (*drained)(void *context);
	/* The processes that share a pipe are to be ended. The io may be freed in it. */
	void (*held)(void *context);
	void *context;
};

/**
 * Makes the pipes. Stores the command's ends, COMMAND_FD_STDOUT and COMMAND_FD_STDERR, in @ret_fds
 * for the caller to pass on. Returns 0 or -errno.
 */
int command_io_new(struct event_base *base, struct pipe_stock *pipes,
	const struct command_io_owner *owner, const struct command_io_limits *limits,
	struct command_io **ret, int ret_fds[COMMAND_FDS]);

/** Stops or resumes reading: a client that does not take output holds up only its own command. */
void command_io_pause(struct command_io *io);
void command_io_resume(struct command_io *io);

/** Whether there is output that has not been handled yet. */
bool command_io_is_waiting(const struct command_io *io);

/**
 * The command has ended: reads what is left in the pipes, at most their capacity, without waiting
 * for other processes that hold a write end. Returns true if nothing is left. Otherwise drained()
 * follows.
 */
bool command_io_drain(struct command_io *io);

/** Reduces the kept output to @bytes of each stream, and keeps nothing of later output. */
void command_io_shrink(struct command_io *io, size_t bytes);

/** Kept output counts for @account from now on. */
void command_io_move(struct command_io *io, struct unread_account *account);

/** The output is not needed: it is read and not kept. */
void command_io_disown(struct command_io *io);

/**
 * From now on output is only passed on: kept output is freed, and no total bounds it.
 */
void command_io_keep_nothing(struct command_io *io);

const struct stream_capture *command_io_capture(
	const struct command_io *io, enum command_stream stream);

/** NULL is allowed. */
void command_io_free(struct command_io *io);
