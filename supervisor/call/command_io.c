// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. pipe(7). */
#include "supervisor/call/command_io.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/base/timer.h"
#include "supervisor/base/watch.h"
#include "supervisor/call/pipe_stock.h"
#include "supervisor/call/service.h"
#include "supervisor/schedule/loop_share.h"
#include "supervisor/schedule/unread.h"

#include <errno.h>
#include <fcntl.h>

#define WATCH_AFTER_MS 2
#define FLOOD_PAUSE_MS 1

struct command_output {
	struct command_io *io;
	enum command_stream stream;
	int fd;
	struct watch readable;
	struct loop_share_task share; /* reads the pipe */
	struct timer again;           /* runs while it waits for its next slice after a pause */
	struct stream_capture capture;
	size_t counted; /* bytes of capture that are counted as unread */
};

struct command_io {
	struct pipe_stock *pipes;
	struct command_io_owner owner;
	struct timer watch; /* when to start watching the outputs */
	bool watched;
	struct command_io_limits limits;
	struct command_output outputs[COMMAND_STREAMS];
	bool limit_reached;
	bool paused;
};

static void close_output(struct command_output *output)
{
	watch_done(&output->readable);
	timer_cancel(&output->again);
	loop_share_cancel(&output->share);
	pipe_stock_close(output->io->pipes, TAKE_FD(output->fd));
}

static void set_watched(struct command_io *io, bool watched)
{
	for (size_t i = 0; i < COMMAND_STREAMS; i++) {
		struct command_output *output = &io->outputs[i];

		if (output->fd < 0)
			continue;
		timer_cancel(&output->again);
		loop_share_cancel(&output->share);
		watch_want(&output->readable, watched ? WATCH_READABLE : WATCH_NOTHING);
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
static int keep(struct command_output *output, struct text data)
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

/* Returns the size of one read: streamed output may take six times its length as JSON. */
static size_t chunk(const struct command_io *io)
{
	uint64_t room;

	if (!io->limits.streamed || !io->limits.unread)
		return COMMAND_IO_CHUNK;
	room = unread_room(io->limits.unread) / 6;
	if (room < KIB)
		return KIB;
	return room < COMMAND_IO_CHUNK ? (size_t)room : COMMAND_IO_CHUNK;
}

/* Reads once. Returns the number of bytes; 0: none now, or the end. */
static size_t read_output(struct command_output *output)
{
	static char buffer[COMMAND_IO_CHUNK];
	struct command_io *io = output->io;
	ssize_t n = output->fd < 0 ? -1 : read(output->fd, buffer, chunk(io));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0 || keep(output, (struct text){buffer, (size_t)n}) < 0) {
		close_output(output);
		return 0;
	}
	io->owner.output(io->owner.context, output->stream, (struct text){buffer, (size_t)n});
	return (size_t)n;
}

/* Reads one slice. Returns true if more output is already there: the command is flooding. */
static bool take_turn(struct command_output *output)
{
	size_t n = read_output(output);

	if (stream_capture_total(&output->capture) > output->io->limits.total)
		reach_limit(output->io);
	return n == COMMAND_IO_CHUNK && !output->io->limit_reached && !output->io->paused;
}

/*
 * Waits for the next slice, after a pause if other tenants have requests: reading a flood as fast
 * as it comes takes a whole CPU, which their calls need.
 */
static void wait_for_turn(struct command_output *output)
{
	watch_want(&output->readable, WATCH_NOTHING);
	if (loop_share_others_ask(output->io->limits.share))
		timer_set(&output->again, FLOOD_PAUSE_MS);
	else
		loop_share_wait(&output->share, output->io->limits.share);
}

static void act(void *context)
{
	struct command_output *output = context;

	if (take_turn(output))
		wait_for_turn(output);
	else if (!output->io->limit_reached && !output->io->paused)
		watch_want(&output->readable, WATCH_READABLE);
}

static void on_again(void *context)
{
	struct command_output *output = context;

	loop_share_wait(&output->share, output->io->limits.share);
}

static void on_readable(void *context)
{
	struct command_output *output = context;

	if (loop_share_now_or_wait(&output->share, output->io->limits.share))
		loop_turn_end(); /* who waits for this output is answered at once */
	else
		watch_want(&output->readable, WATCH_NOTHING);
}

static int make_output(struct event_base *base, struct command_io *io, enum command_stream stream,
	int *ret_write_end)
{
	static const struct watch_calls calls = {{on_readable, NULL}, LOOP_PRIORITY_BULK};
	struct command_output *output = &io->outputs[stream];
	int r = pipe_stock_take(io->pipes, &output->fd, ret_write_end);

	if (r < 0)
		return r;
	output->share = (struct loop_share_task){.act = act, .context = output};
	timer_init(&output->again, on_again, output);
	return watch_init(&output->readable, base, output->fd, &calls, output);
}

static void on_watch(void *context)
{
	struct command_io *io = context;

	io->watched = true;
	if (!io->paused)
		set_watched(io, true);
}

int command_io_new(struct service *service, const struct command_io_owner *owner,
	const struct command_io_limits *limits, struct command_io **ret, int ret_fds[COMMAND_FDS])
{
	struct command_io *io = calloc(1, sizeof(*io));
	_cleanup_close_ int out = -1, err = -1;
	int r;

	if (!io)
		return -ENOMEM;
	io->pipes = service->pipes;
	io->owner = *owner;
	io->limits = *limits;
	for (size_t i = 0; i < COMMAND_STREAMS; i++) {
		io->outputs[i] = (struct command_output){.io = io, .stream = i, .fd = -1};
		stream_capture_init(&io->outputs[i].capture, limits->kept);
		io->outputs[i].capture.count_lines = limits->count_lines;
	}
	r = make_output(service->base, io, COMMAND_STREAM_STDOUT, &out);
	if (r == 0)
		r = make_output(service->base, io, COMMAND_STREAM_STDERR, &err);
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

bool command_io_poll(struct command_io *io)
{
	size_t n = 0;

	for (size_t i = 0; i < COMMAND_STREAMS && !io->limit_reached && !io->paused; i++)
		n += read_output(&io->outputs[i]);
	return n > 0;
}

/*
 * Returns the capacity of the pipe, which the command may have enlarged (F_SETPIPE_SZ). In KiB it
 * also bounds the number of reads that empty the pipe: a packet of an O_DIRECT pipe takes a whole
 * page (pipe(7)), and any other read gives at least a KiB.
 */
static size_t pipe_size(int fd)
{
	int size = fcntl(fd, F_GETPIPE_SZ);

	return size > 0 ? (size_t)size : 0;
}

void command_io_drain(struct command_io *io)
{
	for (size_t i = 0; i < COMMAND_STREAMS; i++) {
		struct command_output *output = &io->outputs[i];
		size_t size = pipe_size(output->fd), most, drained = 0, n;

		/* Only a worker that was taken over can still write. */
		most = size > COMMAND_IO_CHUNK ? size : COMMAND_IO_CHUNK;
		for (size_t reads = 0; reads < most / KIB && drained < most; reads++) {
			n = io->limit_reached ? 0 : read_output(output);
			if (n == 0)
				break;
			drained += n;
		}
	}
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
