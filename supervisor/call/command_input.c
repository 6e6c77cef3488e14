// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The command is hostile: it may never read its input, close it, or hold the
 * kernel's lock of its pipe, so that a write does not come back. pipe(7).
 */
#include "supervisor/call/command_input.h"

#include "common/cleanup.h"
#include "supervisor/base/shared_fd.h"
#include "supervisor/base/watch.h"
#include "supervisor/call/service.h"
#include "supervisor/schedule/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <unistd.h>

struct input_part {
	STAILQ_ENTRY(input_part) entry;
	char *label; /* NULL: it came with the call, and its owner is not told */
	size_t len, written;
	bool eof;
	char data[];
};

struct command_input {
	struct service *service;
	struct tenant_usage *usage;
	struct command_input_owner owner;
	STAILQ_HEAD(, input_part) parts;
	size_t pending;
	size_t n_parts;         /* that have a label */
	struct shared_fd *pipe; /* NULL before the beginning and after the end */
	struct watch watch;
	bool eof;    /* the end of the input was added */
	bool closed; /* the command has closed it, or has ended */
};

int command_input_new(struct service *service, struct tenant_usage *usage,
	const struct command_input_owner *owner, struct command_input **ret_input)
{
	struct command_input *input = calloc(1, sizeof(*input));

	if (!input)
		return -ENOMEM;
	input->service = service;
	input->usage = usage;
	input->owner = *owner;
	STAILQ_INIT(&input->parts);
	*ret_input = input;
	return 0;
}

/* Removes the first part and tells the owner. */
static void end_part(struct command_input *input)
{
	struct input_part *part = STAILQ_FIRST(&input->parts);

	STAILQ_REMOVE_HEAD(&input->parts, entry);
	if (part->label) {
		input->pending -= part->len;
		input->n_parts--;
		service_account(input->service, input->usage, -(int64_t)part->len);
		if (input->owner.taken)
			input->owner.taken(
				input->owner.context, part->label, part->written, input->closed);
	}
	free(part->label);
	free(part);
}

/* With @now the command waits for the end of its input. */
static void close_pipe(struct command_input *input, bool now)
{
	watch_done(&input->watch);
	shared_fd_close(TAKE_PTR(input->pipe), now);
}

void command_input_close(struct command_input *input)
{
	close_pipe(input, false);
	input->closed = true;
	while (!STAILQ_EMPTY(&input->parts))
		end_part(input);
}

/* Begins to write the first part that is not written, and ends those before it. */
static void write_parts(struct command_input *input)
{
	struct input_part *part;

	while ((part = STAILQ_FIRST(&input->parts)) && input->pipe &&
		!shared_fd_is_busy(input->pipe)) {
		const struct text left = {part->data + part->written, part->len - part->written};

		if (left.len > 0) {
			shared_fd_want(input->pipe, &input->watch, WATCH_NOTHING);
			if (shared_fd_write(input->pipe, left) < 0)
				shared_fd_want(input->pipe, &input->watch,
					WATCH_WRITABLE); /* out of memory */
			return;
		}
		if (part->eof)
			close_pipe(input, true);
		end_part(input);
	}
}

static void on_writable(void *context)
{
	struct command_input *input = context;

	/* The queue may be empty; then nothing is written. */
	shared_fd_want(input->pipe, &input->watch, WATCH_NOTHING);
	write_parts(input);
}

static void on_written(void *context)
{
	struct command_input *input = context;
	const ssize_t result = shared_fd_result(input->pipe);

	if (result == -EAGAIN || result == -EINTR) {
		shared_fd_want(input->pipe, &input->watch, WATCH_WRITABLE);
		return;
	}
	if (result < 0) { /* the command does not read it: not an error of the call */
		command_input_close(input);
		return;
	}
	STAILQ_FIRST(&input->parts)->written += (size_t)result;
	write_parts(input);
	if (input->owner.moved)
		input->owner.moved(input->owner.context);
}

static void on_held(void *context)
{
	const struct command_input *input = context;

	if (input->owner.held)
		input->owner.held(input->owner.context);
}

/* Returns a part with a copy of @text, or NULL if memory is out. */
static struct input_part *make_part(struct text text, bool eof, char *label)
{
	struct input_part *part = malloc(sizeof(*part) + text.len);

	if (!part)
		return NULL;
	*part = (struct input_part){.label = label, .len = text.len, .eof = eof};
	if (text.len > 0)
		memcpy(part->data, text.data, text.len);
	return part;
}

int command_input_add(struct command_input *input, struct text text, bool eof, char **label)
{
	struct input_part *part;

	if (input->eof)
		return -EPIPE;
	part = make_part(text, eof, label ? *label : NULL);
	if (!part)
		return -ENOMEM;
	if (label)
		*label = NULL;
	input->eof = eof;
	input->pending += part->len;
	input->n_parts += part->label != NULL;
	service_account(input->service, input->usage, (int64_t)part->len);
	STAILQ_INSERT_TAIL(&input->parts, part, entry);
	if (input->closed)
		end_part(input);
	else if (STAILQ_FIRST(&input->parts) == part)
		write_parts(input);
	return 0;
}

/*
 * Writes what has come with the call, and closes the pipe after it, while no other process has the
 * pipe: nobody can hold its lock. What finds no room is left. pipe(7)
 */
static void write_ahead(struct input_part *part, int *fd)
{
	ssize_t n = part->len > 0 ? write(*fd, part->data, part->len) : 0;

	if (n > 0)
		part->written = (size_t)n;
	if (part->eof && part->written == part->len)
		close_fd(fd);
}

int command_input_begin(struct command_input *input, struct shared_fd_sum *sum, struct text first,
	bool only, int *ret_read_end)
{
	static const struct watch_calls calls = {{NULL, on_writable}, LOOP_PRIORITY_BULK};
	static const struct shared_fd_calls shared_calls = {on_written, on_held};
	_cleanup_close_ int read_end = -1;
	struct input_part *part;
	int ends[2], r = 0;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	read_end = ends[0];
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	if (first.data) {
		part = make_part(first, only, NULL);
		if (!part) {
			close(ends[1]);
			return -ENOMEM;
		}
		STAILQ_INSERT_HEAD(&input->parts, part, entry);
		write_ahead(part, &ends[1]);
		if (part->written == part->len)
			end_part(input);
	}
	if (ends[1] >= 0)
		r = shared_fd_new(input->usage->share.threads, sum, ends[1], &shared_calls, input,
			&input->pipe);
	if (r == 0 && input->pipe)
		r = watch_init(&input->watch, input->service->base, ends[1], &calls, input);
	if (r < 0)
		return r;
	if (!STAILQ_EMPTY(&input->parts))
		shared_fd_want(input->pipe, &input->watch, WATCH_WRITABLE);
	*ret_read_end = TAKE_FD(read_end);
	return 0;
}

size_t command_input_pending(const struct command_input *input)
{
	return input->pending;
}

size_t command_input_parts(const struct command_input *input)
{
	return input->n_parts;
}

bool command_input_is_read(const struct command_input *input)
{
	/* POLLERR: nobody can read. poll(2) */
	return !input->closed && !(input->pipe && shared_fd_poll(input->pipe, 0) & POLLERR);
}

void command_input_free(struct command_input *input)
{
	if (!input)
		return;
	input->owner = (struct command_input_owner){0};
	command_input_close(input);
	free(input);
}
