// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The command is hostile: it may hold the kernel's lock of its pipes, so that
 * their reads do not come back. pipe(7).
 */
#include "supervisor/call/command_io.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/base/shared_fd.h"
#include "supervisor/base/timer.h"
#include "supervisor/base/watch.h"
#include "supervisor/call/pipe_stock.h"
#include "supervisor/schedule/loop_share.h"
#include "supervisor/schedule/unread.h"

#include <errno.h>
#include <poll.h>

#define WATCH_AFTER_MS 2
#define FLOOD_PAUSE_MS 1

struct command_output {
	struct command_io *io;
	enum command_stream stream;
	struct shared_fd *pipe; /* NULL after its end */
	struct watch readable;
	struct loop_share_task share; /* handles what was read */
	struct timer again;           /* runs while it waits for its next slice after a pause */
	bool unhandled;               /* a read has ended, and waits for a slice */
	size_t drained, reads;        /* since the command has ended */
	struct stream_capture capture;
	size_t counted; /* bytes of capture that are counted as unread */
};

struct command_io {
	struct command_io_owner owner;
	struct timer watch; /* when to start watching the outputs */
	bool watched;
	struct command_io_limits limits;
	struct command_output outputs[COMMAND_STREAMS];
	bool limit_reached;
	bool paused;
	bool draining; /* the command has ended, and the owner has not been told that all is read */
};

static void close_output(struct command_output *output)
{
	watch_done(&output->readable);
	timer_cancel(&output->again);
	loop_share_cancel(&output->share);
	output->unhandled = false;
	shared_fd_close(TAKE_PTR(output->pipe), false);
}

/* Whether something of it is read, or waits to be handled. */
static bool is_busy(const struct command_output *output)
{
	return output->unhandled || (output->pipe && shared_fd_is_busy(output->pipe));
}

static void set_watched(struct command_io *io, bool watched)
{
	for (size_t i = 0; i < COMMAND_STREAMS; i++) {
		struct command_output *output = &io->outputs[i];

		if (!output->pipe)
			continue;
		timer_cancel(&output->again);
		shared_fd_want(output->pipe, &output->readable,
			watched && !is_busy(output) ? WATCH_READABLE : WATCH_NOTHING);
	}
}

static void reach_limit(struct command_io *io)
{
	if (io->limit_reached)
		return;
	io->limit_reached = true;
	set_watched(io, false);
	io->owner.limit(io->owner.context);
}

static void count_kept(struct command_output *output)
{
	if (output->io->limits.unread)
		unread_recount(output->io->limits.unread, &output->counted,
			stream_capture_size(&output->capture));
}

/*
 * Keeps output. If there is no room for more, keeps only the head and a tail of the present size.
 */
static int keep_output_bytes(struct command_output *output, struct text data)
{
	const struct unread_account *unread = output->io->limits.unread;
	int r;

	if (output->io->limits.kept == 0) {
		stream_capture_skip(&output->capture, data.len);
		return 0;
	}
	if (unread && stream_capture_growth(&output->capture, data.len) > unread_room(unread))
		stream_capture_limit(&output->capture, 0);
	r = stream_capture_append(&output->capture, data);
	count_kept(output);
	return r;
}

/*
 * Returns the size of one read: streamed output may take six times its length as JSON, and both
 * streams may be read at once.
 */
static size_t chunk(const struct command_io *io)
{
	const size_t most =
		loop_share_others_ask(io->limits.share) ? COMMAND_IO_CHUNK : SHARED_FD_MOST;
	uint64_t room;

	if (!io->limits.streamed || !io->limits.unread)
		return most;
	room = unread_room(io->limits.unread) / 6 / COMMAND_STREAMS;
	if (room < KIB)
		return KIB;
	return room < most ? (size_t)room : most;
}

static void begin_read(struct command_output *output)
{
	shared_fd_want(output->pipe, &output->readable, WATCH_NOTHING);
	shared_fd_read(output->pipe, chunk(output->io));
}

static bool goes_on(const struct command_io *io)
{
	return io->watched && !io->limit_reached && !io->paused && !io->draining;
}

/*
 * Begins to read what has filled the pipe, after a pause if other tenants have requests: reading a
 * flood as fast as it comes takes a whole CPU, which their calls need.
 */
static void read_on(struct command_output *output)
{
	if (loop_share_others_ask(output->io->limits.share))
		timer_set(&output->again, FLOOD_PAUSE_MS);
	else
		begin_read(output);
}

static int pass_on_output(struct command_output *output, struct text data)
{
	struct command_io *io = output->io;
	int r = io->limit_reached ? 0 : keep_output_bytes(output, data);

	while (r == 0 && !io->limit_reached && data.len > 0) {
		const size_t len = data.len < COMMAND_IO_CHUNK ? data.len : COMMAND_IO_CHUNK;

		io->owner.output(io->owner.context, output->stream, (struct text){data.data, len});
		data = (struct text){data.data + len, data.len - len};
	}
	return r;
}

/* Handles what was read. Returns its length; closes the output at its end. */
static size_t handle_output(struct command_output *output)
{
	const ssize_t n = shared_fd_result(output->pipe);
	char *data;
	int r;

	output->unhandled = false;
	if (n == -EAGAIN || n == -EINTR)
		return 0;
	if (n <= 0) {
		close_output(output);
		return 0;
	}
	data = shared_fd_take(output->pipe);
	r = pass_on_output(output, (struct text){data, (size_t)n});
	shared_fd_give_back(output->io->limits.share->threads, data);
	if (r < 0)
		close_output(output);
	return (size_t)n;
}

/*
 * Whether there may be more of an ended command's output. In KiB the pipe's capacity, which the
 * command may have enlarged (F_SETPIPE_SZ), also bounds the number of reads that empty it: a packet
 * of an O_DIRECT pipe takes a whole page (pipe(7)), and any other read gives at least a KiB. Only a
 * worker that was taken over can still write.
 */
static bool is_left(const struct command_output *output)
{
	size_t most;

	if (!output->pipe || output->io->limit_reached)
		return false;
	most = shared_fd_pipe_size(output->pipe);
	if (most < COMMAND_IO_CHUNK)
		most = COMMAND_IO_CHUNK;
	return output->drained < most && output->reads < most / KIB &&
	       (shared_fd_poll(output->pipe, POLLIN) & POLLIN);
}

/* Begins to read what an ended command has left. Returns true if nothing is left. */
static bool drain(struct command_output *output)
{
	if (is_busy(output))
		return false;
	if (!is_left(output))
		return true;
	output->reads++;
	begin_read(output);
	return false;
}

static bool drain_all(struct command_io *io)
{
	bool empty = true;

	for (size_t i = 0; i < COMMAND_STREAMS; i++)
		empty &= drain(&io->outputs[i]);
	return empty;
}

/* One slice. */
static void act_on_command_io(void *context)
{
	struct command_output *output = context;
	struct command_io *io = output->io;
	size_t n = handle_output(output);

	/* What was being read when the command ended is no part of what was left in the pipe. */
	if (output->reads > 0)
		output->drained += n;
	if (stream_capture_total(&output->capture) > io->limits.total)
		reach_limit(io);
	if (output->pipe && goes_on(io) && !is_busy(output)) {
		if (n >= COMMAND_IO_CHUNK)
			read_on(output);
		else
			shared_fd_want(output->pipe, &output->readable, WATCH_READABLE);
	}
	if (io->draining && drain_all(io)) {
		io->draining = false;
		io->owner.drained(io->owner.context);
	}
}

static void on_output_done(void *context)
{
	struct command_output *output = context;

	output->unhandled = true;
	if (loop_share_now_or_wait(&output->share, output->io->limits.share))
		loop_turn_end(); /* who waits for this output is answered at once */
}

static void on_held(void *context)
{
	const struct command_output *output = context;

	output->io->owner.held(output->io->owner.context);
}

static void on_command_readable(void *context)
{
	begin_read(context);
}

static int make_output(struct event_base *base, struct pipe_stock *pipes, struct command_io *io,
	enum command_stream stream, int *ret_write_end)
{
	static const struct watch_calls calls = {{on_command_readable, NULL}, LOOP_PRIORITY_BULK};
	static const struct shared_fd_calls shared_calls = {on_output_done, on_held};
	struct command_output *output = &io->outputs[stream];
	int fd, r = pipe_stock_take(pipes, &fd, ret_write_end);

	if (r < 0)
		return r;
	output->share = (struct loop_share_task){.act = act_on_command_io, .context = output};
	timer_init(&output->again, on_command_readable, output);
	r = shared_fd_new(io->limits.share->threads, io->limits.sum, fd, &shared_calls, output,
		&output->pipe);
	return r < 0 ? r : watch_init(&output->readable, base, fd, &calls, output);
}

static void on_watch(void *context)
{
	struct command_io *io = context;

	io->watched = true;
	if (!io->paused)
		set_watched(io, true);
}

int command_io_new(struct event_base *base, struct pipe_stock *pipes,
	const struct command_io_owner *owner, const struct command_io_limits *limits,
	struct command_io **ret, int ret_fds[COMMAND_FDS])
{
	struct command_io *io = calloc(1, sizeof(*io));
	_cleanup_close_ int out = -1, err = -1;
	int r;

	if (!io)
		return -ENOMEM;
	io->owner = *owner;
	io->limits = *limits;
	for (size_t i = 0; i < COMMAND_STREAMS; i++) {
		io->outputs[i] = (struct command_output){.io = io, .stream = i};
		stream_capture_init(&io->outputs[i].capture, limits->kept);
		io->outputs[i].capture.count_lines = limits->count_lines;
	}
	r = make_output(base, pipes, io, COMMAND_STREAM_STDOUT, &out);
	if (r == 0)
		r = make_output(base, pipes, io, COMMAND_STREAM_STDERR, &err);
	if (r < 0) {
		command_io_free(io);
		return r;
	}
	/* Most commands have ended by then, and their output is read at once. */
	timer_init(&io->watch, on_watch, io);
	timer_set(&io->watch, WATCH_AFTER_MS);
	ret_fds[COMMAND_FD_STDOUT] = TAKE_FD(out);
	ret_fds[COMMAND_FD_STDERR] = TAKE_FD(err);
	*ret = io;
	return 0;
}

void command_io_pause(struct command_io *io)
{
	if (io->paused)
		return;
	io->paused = true;
	set_watched(io, false);
}

void command_io_resume(struct command_io *io)
{
	if (!io->paused || io->limit_reached)
		return;
	io->paused = false;
	if (io->watched)
		set_watched(io, true);
}

bool command_io_is_waiting(const struct command_io *io)
{
	for (size_t i = 0; i < COMMAND_STREAMS && !io->limit_reached && !io->paused; i++) {
		const struct command_output *output = &io->outputs[i];

		if (is_busy(output) ||
			(output->pipe && shared_fd_poll(output->pipe, POLLIN) & POLLIN))
			return true;
	}
	return false;
}

bool command_io_drain(struct command_io *io)
{
	timer_cancel(&io->watch);
	io->watched = false;
	set_watched(io, false);
	io->draining = !drain_all(io);
	return !io->draining;
}

const struct stream_capture *command_io_capture(
	const struct command_io *io, enum command_stream stream)
{
	return &io->outputs[stream].capture;
}

void command_io_shrink(struct command_io *io, size_t bytes)
{
	for (size_t i = 0; i < COMMAND_STREAMS; i++) {
		stream_capture_shrink(&io->outputs[i].capture, bytes);
		count_kept(&io->outputs[i]);
	}
}

void command_io_move(struct command_io *io, struct unread_account *account)
{
	for (size_t i = 0; i < COMMAND_STREAMS; i++)
		if (io->limits.unread)
			unread_recount(io->limits.unread, &io->outputs[i].counted, 0);
	io->limits.unread = account;
	for (size_t i = 0; i < COMMAND_STREAMS; i++)
		count_kept(&io->outputs[i]);
}

void command_io_disown(struct command_io *io)
{
	command_io_shrink(io, 0);
	io->limits.kept = 0;
	io->limits.unread = NULL;
}

void command_io_keep_nothing(struct command_io *io)
{
	command_io_disown(io);
	io->limits.total = UINT64_MAX;
	io->limits.streamed = true;
}

void command_io_free(struct command_io *io)
{
	if (!io)
		return;
	for (size_t i = 0; i < COMMAND_STREAMS; i++) {
		close_output(&io->outputs[i]);
		stream_capture_free(&io->outputs[i].capture);
		io->outputs[i].capture.size = 0;
		count_kept(&io->outputs[i]);
	}
	timer_cancel(&io->watch);
	free(io);
}
