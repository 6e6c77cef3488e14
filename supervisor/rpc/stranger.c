// SPDX-License-Identifier: Apache-2.0
/* cloisterd. Any local user may be a stranger, and a hostile one. */
#include "supervisor/rpc/stranger.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/fd_closer.h"
#include "supervisor/base/timer.h"
#include "supervisor/base/watch.h"
#include "supervisor/rpc/jsonrpc.h"

#include <errno.h>
#include <event2/buffer.h>
#include <fcntl.h>
#include <string.h>
#include <sys/queue.h>

struct stranger {
	LIST_ENTRY(stranger) entry;
	struct service *service;
	struct watch watch;
	struct timer timeout; /* of all of it: bytes that trickle win no time */
	int fd;
	bool takes_fds;
	size_t len;
	char line[LIMIT_STRANGER_LINE_BYTES];
};

static LIST_HEAD(, stranger) strangers = LIST_HEAD_INITIALIZER(strangers);

static void stranger_free(struct stranger *stranger)
{
	LIST_REMOVE(stranger, entry);
	stranger->service->strangers--;
	watch_done(&stranger->watch);
	timer_cancel(&stranger->timeout);
	if (stranger->takes_fds)
		fd_closer_close(stranger->fd);
	else
		close_fd(&stranger->fd);
	free(stranger);
}

static void tell(struct stranger *stranger, const char *id_text)
{
	struct evbuffer *output = evbuffer_new();

	if (!output)
		return;
	(void)jsonrpc_error(output, id_text, JSONRPC_SERVER_ERROR, STRANGER_SENTENCE, "FORBIDDEN");
	/* The socket is new and its buffer empty. */
	(void)evbuffer_write(output, stranger->fd);
	evbuffer_free(output);
}

/* The one answer, under the request's id where the line is one. */
static void answer(struct stranger *stranger, struct text line)
{
	struct jsonrpc_request request;
	struct jsonrpc_fault fault;
	int r = jsonrpc_parse(line, SIZE_MAX, &request, &fault);

	if (r == 0) {
		if (!request.notification)
			tell(stranger, request.id_text);
		jsonrpc_request_free(&request);
		return;
	}
	tell(stranger, NULL);
	if (r != -ENOMEM)
		jsonrpc_fault_free(&fault);
}

static ssize_t receive(struct stranger *stranger)
{
	struct iovec space = {
		stranger->line + stranger->len, sizeof(stranger->line) - stranger->len};

	return stranger->takes_fds ? fd_closer_receive(stranger->fd, &space)
				   : readv(stranger->fd, &space, 1);
}

static void on_readable(void *context)
{
	struct stranger *stranger = context;
	ssize_t n = receive(stranger);
	const char *newline;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		stranger->len += (size_t)n;
		newline = memchr(stranger->line, '\n', stranger->len);
		if (!newline && stranger->len < sizeof(stranger->line))
			return;
		if (newline)
			answer(stranger,
				(struct text){stranger->line, (size_t)(newline - stranger->line)});
		else
			tell(stranger, NULL);
	}
	stranger_free(stranger);
}

static void on_timeout(void *context)
{
	stranger_free(context);
}

int stranger_new(struct service *service, int fd, bool takes_fds)
{
	static const struct watch_calls calls = {{on_readable, NULL}, LOOP_PRIORITY_BULK};
	struct stranger *stranger = malloc(sizeof(*stranger));

	if (!stranger)
		return -ENOMEM;
	stranger->service = service;
	stranger->fd = fd;
	stranger->takes_fds = takes_fds;
	stranger->len = 0;
	if (watch_init(&stranger->watch, service->base, fd, &calls, stranger) < 0) {
		free(stranger);
		return -ENOMEM;
	}
	timer_init(&stranger->timeout, on_timeout, stranger);
	timer_set(&stranger->timeout, LIMIT_STRANGER_MS);
	watch_want(&stranger->watch, WATCH_READABLE);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	LIST_INSERT_HEAD(&strangers, stranger, entry);
	service->strangers++;
	return 0;
}

void strangers_close(void)
{
	while (!LIST_EMPTY(&strangers))
		stranger_free(LIST_FIRST(&strangers));
}
