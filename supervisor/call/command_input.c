// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The command is hostile: it may never read its input, or close it. pipe(7). */
#include "supervisor/call/command_input.h"

#include "common/cleanup.h"
#include "supervisor/base/watch.h"
#include "supervisor/call/command_io.h"
#include "supervisor/call/service.h"

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
	size_t n_parts; /* that have a label */
	int fd;         /* -1 before the beginning and after the end */
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
	input->fd = -1;
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

static void close_pipe(struct command_input *input)
{
	watch_done(&input->watch);
	close_fd(&input->fd);
}

void command_input_close(struct command_input *input)
{
	close_pipe(input);
	input->closed = true;
	while (!STAILQ_EMPTY(&input->parts))
		end_part(input);
}

/* Writes as much as one turn allows. The rest is written when the pipe has room. */
static void write_parts(struct command_input *input)
{
	size_t share = COMMAND_IO_CHUNK;
	struct input_part *part;

	while ((part = STAILQ_FIRST(&input->parts)) && share > 0) {
		size_t left = part->len - part->written;
		ssize_t n = left == 0 ? 0
				      : write(input->fd, part->data + part->written,
						left < share ? left : share);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0) { /* the command does not read it: not an error of the call */
			command_input_close(input);
			return;
		}
		part->written += (size_t)n;
		share -= (size_t)n;
		if (part->written < part->len)
			continue;
		if (part->eof)
			close_pipe(input);
		end_part(input);
	}
}

static void on_writable(void *context)
{
	struct command_input *input = context;

	write_parts(input);
	if (STAILQ_EMPTY(&input->parts))
		watch_want(&input->watch, WATCH_NOTHING);
	if (input->owner.moved)
		input->owner.moved(input->owner.context);
}

/* Returns a part without its bytes, or NULL if memory is out. */
static struct input_part *make_part(size_t len, bool eof, char *label)
{
	struct input_part *part = malloc(sizeof(*part) + len);

	if (part)
		*part = (struct input_part){.label = label, .len = len, .eof = eof};
	return part;
}

/* Writes one slice of @text, as much as finds room. */
static size_t write_now(struct command_input *input, struct text text)
{
	size_t len = text.len < COMMAND_IO_CHUNK ? text.len : COMMAND_IO_CHUNK;
	ssize_t n = len > 0 ? write(input->fd, text.data, len) : 0;

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		command_input_close(input);
	return n > 0 ? (size_t)n : 0;
}

/*
 * Adds a part, of which some is written, to those that the pipe takes. What a person types the
 * command is to have before its client is answered.
 */
static void add_part(struct command_input *input, struct input_part *part)
{
	const size_t written = part->written;

	input->eof = part->eof;
	input->pending += part->len;
	input->n_parts += part->label != NULL;
	service_account(input->service, input->usage, (int64_t)part->len);
	STAILQ_INSERT_TAIL(&input->parts, part, entry);
	if (input->closed)
		end_part(input);
	else if (input->fd >= 0 && STAILQ_FIRST(&input->parts) == part && written == part->len)
		write_parts(input);
	else
		watch_want(&input->watch, WATCH_WRITABLE);
	if (written > 0 && input->owner.moved)
		input->owner.moved(input->owner.context);
}

int command_input_add(struct command_input *input, struct text text, bool eof, char **label)
{
	const bool waits = !STAILQ_EMPTY(&input->parts) || input->fd < 0;
	struct input_part *part;

	if (input->eof)
		return -EPIPE;
	part = make_part(text.len, eof, label ? *label : NULL);
	if (!part)
		return -ENOMEM;
	if (label)
		*label = NULL;
	/* What the pipe takes at once is not copied. */
	part->written = waits ? 0 : write_now(input, text);
	if (part->written < text.len)
		memcpy(part->data + part->written, text.data + part->written,
			text.len - part->written);
	add_part(input, part);
	return 0;
}

int command_input_begin(
	struct command_input *input, struct text first, bool only, int *ret_read_end)
{
	static const struct watch_calls calls = {{NULL, on_writable}, LOOP_PRIORITY_BULK};
	struct input_part *part;
	int ends[2], r;

	if (first.data) {
		part = make_part(first.len, only, NULL);
		if (!part)
			return -ENOMEM;
		memcpy(part->data, first.data, first.len);
		STAILQ_INSERT_HEAD(&input->parts, part, entry);
	}
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	input->fd = ends[1];
	r = watch_init(&input->watch, input->service->base, input->fd, &calls, input);
	if (r < 0) {
		close(ends[0]);
		return r;
	}
	if (!STAILQ_EMPTY(&input->parts))
		watch_want(&input->watch, WATCH_WRITABLE);
	*ret_read_end = ends[0];
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

bool command_input_is_closed(const struct command_input *input)
{
	return input->closed;
}

bool command_input_is_read(const struct command_input *input)
{
	struct pollfd pipe = {.fd = input->fd};

	/* POLLERR: nobody can read. poll(2) */
	return !input->closed && (poll(&pipe, 1, 0) <= 0 || !(pipe.revents & POLLERR));
}

void command_input_free(struct command_input *input)
{
	if (!input)
		return;
	input->owner = (struct command_input_owner){0};
	command_input_close(input);
	free(input);
}
