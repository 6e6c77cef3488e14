// SPDX-License-Identifier: Apache-2.0
/* cloisterd. pipe(7). */
#include "supervisor/command_io.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>

#define DRAIN_BYTES (1 * MIB) /* what F_SETPIPE_SZ lets an unprivileged process have, pipe(7) */

struct command_output {
	struct command_io *io;
	enum command_stream stream;
	int fd;
	struct event *readable;
	struct stream_capture capture;
};

struct command_io {
	struct command_io_owner owner;
	struct command_io_limits limits;
	struct command_output outputs[COMMAND_STREAMS];
	int input_fd;
	struct event *input_writable;
	char *input;
	size_t input_len, input_written;
	bool limit_reached;
	bool paused;
};

static void close_output(struct command_output *output)
{
	if (output->readable)
		event_free(TAKE_PTR(output->readable));
	close_fd(&output->fd);
}

static void reach_limit(struct command_io *io)
{
	if (io->limit_reached)
		return;
	io->limit_reached = true;
	for (size_t i = 0; i < COMMAND_STREAMS; i++)
		if (io->outputs[i].readable)
			event_del(io->outputs[i].readable);
	io->owner.limit(io->owner.context);
}

/* Reads once. Bytes read; 0: nothing now, or never again. */
static size_t read_output(struct command_output *output)
{
	static char buffer[COMMAND_IO_CHUNK];
	struct command_io *io = output->io;
	ssize_t n = output->fd < 0 ? -1 : read(output->fd, buffer, sizeof(buffer));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0 ||
		stream_capture_append(&output->capture, (struct text){buffer, (size_t)n}) < 0) {
		close_output(output);
		return 0;
	}
	io->owner.output(io->owner.context, output->stream, (struct text){buffer, (size_t)n});
	return (size_t)n;
}

static void on_readable(evutil_socket_t fd, short what, void *context)
{
	struct command_output *output = context;

	(void)fd;
	(void)what;
	read_output(output);
	if (stream_capture_total(&output->capture) > output->io->limits.total)
		reach_limit(output->io);
}

static void close_input(struct command_io *io)
{
	if (io->input_writable)
		event_free(TAKE_PTR(io->input_writable));
	close_fd(&io->input_fd);
	free(TAKE_PTR(io->input));
}

static void on_input_writable(evutil_socket_t fd, short what, void *context)
{
	struct command_io *io = context;
	size_t left = io->input_len - io->input_written;
	ssize_t n = write(fd, io->input + io->input_written,
		left < COMMAND_IO_CHUNK ? left : COMMAND_IO_CHUNK);

	(void)what;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		io->input_written += (size_t)n;
	/* All is written, or nobody reads it. */
	if (n < 0 || io->input_written == io->input_len)
		close_input(io);
}

static int make_output(struct event_base *base, struct command_io *io, enum command_stream stream,
	int *ret_write_end)
{
	struct command_output *output = &io->outputs[stream];
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	output->fd = ends[0];
	*ret_write_end = ends[1];
	output->readable = event_new(base, output->fd, EV_READ | EV_PERSIST, on_readable, output);
	return !output->readable || event_add(output->readable, NULL) < 0 ? -ENOMEM : 0;
}

static int make_input(
	struct event_base *base, struct command_io *io, struct text input, int *ret_read_end)
{
	int ends[2];

	io->input = malloc(input.len + 1);
	if (!io->input)
		return -ENOMEM;
	memcpy(io->input, input.data, input.len);
	io->input_len = input.len;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	io->input_fd = ends[1];
	*ret_read_end = ends[0];
	if (input.len == 0) {
		close_input(io);
		return 0;
	}
	io->input_writable =
		event_new(base, io->input_fd, EV_WRITE | EV_PERSIST, on_input_writable, io);
	return !io->input_writable || event_add(io->input_writable, NULL) < 0 ? -ENOMEM : 0;
}

int command_io_new(struct event_base *base, const struct command_io_owner *owner,
	const struct command_io_limits *limits, struct text input, struct command_io **ret,
	int ret_fds[COMMAND_FDS], unsigned *ret_n_fds)
{
	struct command_io *io = calloc(1, sizeof(*io));
	int fds[COMMAND_FDS] = {-1, -1, -1}, r;

	if (!io)
		return -ENOMEM;
	io->owner = *owner;
	io->limits = *limits;
	io->input_fd = -1;
	for (size_t i = 0; i < COMMAND_STREAMS; i++) {
		io->outputs[i] = (struct command_output){.io = io, .stream = i, .fd = -1};
		stream_capture_init(&io->outputs[i].capture, limits->kept);
	}
	r = make_output(base, io, COMMAND_STREAM_STDOUT, &fds[COMMAND_FD_STDOUT]);
	if (r == 0)
		r = make_output(base, io, COMMAND_STREAM_STDERR, &fds[COMMAND_FD_STDERR]);
	if (r == 0 && input.data)
		r = make_input(base, io, input, &fds[COMMAND_FD_STDIN]);
	if (r < 0) {
		for (size_t i = 0; i < COMMAND_FDS; i++)
			close_fd(&fds[i]);
		command_io_free(io);
		return r;
	}
	memcpy(ret_fds, fds, sizeof(fds));
	*ret_n_fds = input.data ? COMMAND_FDS : COMMAND_FDS - 1;
	*ret = io;
	return 0;
}

void command_io_pause(struct command_io *io)
{
	if (io->paused)
		return;
	io->paused = true;
	for (size_t i = 0; i < COMMAND_STREAMS; i++)
		if (io->outputs[i].readable)
			event_del(io->outputs[i].readable);
}

void command_io_resume(struct command_io *io)
{
	if (!io->paused || io->limit_reached)
		return;
	io->paused = false;
	for (size_t i = 0; i < COMMAND_STREAMS; i++)
		if (io->outputs[i].readable)
			event_add(io->outputs[i].readable, NULL);
}

void command_io_drain(struct command_io *io)
{
	for (size_t i = 0; i < COMMAND_STREAMS; i++) {
		struct command_output *output = &io->outputs[i];
		size_t drained = 0, n;

		while (!io->limit_reached && drained < DRAIN_BYTES && (n = read_output(output)) > 0)
			drained += n;
		close_output(output);
	}
	close_input(io);
}

const struct stream_capture *command_io_capture(
	const struct command_io *io, enum command_stream stream)
{
	return &io->outputs[stream].capture;
}

void command_io_free(struct command_io *io)
{
	if (!io)
		return;
	for (size_t i = 0; i < COMMAND_STREAMS; i++) {
		close_output(&io->outputs[i]);
		stream_capture_free(&io->outputs[i].capture);
	}
	close_input(io);
	free(io);
}
