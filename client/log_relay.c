// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the client, in a thread of its own. Every byte comes from another user's process: it is
 * escaped, and its total is bounded.
 */
#include "client/log_relay.h"

#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#define LINE_BYTES 2048 /* a longer line is printed in pieces */

struct log_relay {
	pthread_t thread;
	int fd;   /* the reading end of the pipe, non-blocking */
	int stop; /* eventfd(2): readable once only the bytes already in the pipe are wanted */
	char line[LINE_BYTES + 1];
	size_t len;
	size_t total; /* bytes received so far */
};

static void print_line(struct log_relay *relay)
{
	_cleanup_free_ char *shown = NULL;

	relay->line[relay->len] = '\0';
	shown = terminal_text(relay->line);
	if (shown)
		fprintf(stderr, "%s\n", shown);
	relay->len = 0;
}

static void take_log_bytes(struct log_relay *relay, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] != '\n')
			relay->line[relay->len++] = bytes[i] ? bytes[i] : ' ';
		if (bytes[i] == '\n' || relay->len == LINE_BYTES)
			print_line(relay);
	}
	relay->total += len;
}

/* Reads once. Returns false if there is nothing, or nothing more is wanted. */
static bool read_once(struct log_relay *relay)
{
	char bytes[LINE_BYTES];
	ssize_t n;

	do
		n = read(relay->fd, bytes, sizeof(bytes));
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return false;
	take_log_bytes(relay, bytes, (size_t)n);
	return relay->total < LIMIT_RELAYED_LOG_BYTES;
}

static void *run_log_relay(void *context)
{
	struct log_relay *relay = context;
	struct pollfd fds[] = {
		{.fd = relay->fd, .events = POLLIN}, {.fd = relay->stop, .events = POLLIN}};
	bool more = true;

	while (more && (poll(fds, ARRAY_SIZE(fds), -1) >= 0 || errno == EINTR)) {
		if (fds[1].revents)
			break;
		if (fds[0].revents)
			more = read_once(relay);
	}
	while (more)
		more = read_once(relay);
	if (relay->len > 0)
		print_line(relay);
	if (relay->total >= LIMIT_RELAYED_LOG_BYTES)
		fprintf(stderr, "cloister: further messages of cloisterd are not shown\n");
	close_fd(&relay->fd); /* further writes of that process fail with EPIPE */
	return NULL;
}

static void release_client_log(struct log_relay *relay)
{
	close_fd(&relay->fd);
	close_fd(&relay->stop);
	free(relay);
}

/* The main thread handles signals. */
static int start_thread(struct log_relay *relay)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&relay->thread, NULL, run_log_relay, relay);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

int log_relay_new(struct log_relay **ret_relay, int *ret_fd)
{
	struct log_relay *relay = calloc(1, sizeof(*relay));
	_cleanup_close_ int writer = -1;
	int pair[2], r;

	if (!relay)
		return -ENOMEM;
	relay->fd = relay->stop = -1;
	if (pipe2(pair, O_CLOEXEC) < 0)
		goto fail;
	relay->fd = pair[0];
	writer = pair[1];
	/* Only for our end: each end of a pipe is an open file description of its own. */
	relay->stop = eventfd(0, EFD_CLOEXEC);
	if (relay->stop < 0 || fcntl(relay->fd, F_SETFL, O_NONBLOCK) < 0)
		goto fail;
	r = start_thread(relay);
	if (r < 0) {
		release_client_log(relay);
		return r;
	}
	*ret_fd = TAKE_FD(writer);
	*ret_relay = relay;
	return 0;
fail:
	r = -errno;
	release_client_log(relay);
	return r;
}

void log_relay_free(struct log_relay *relay)
{
	if (!relay)
		return;
	(void)eventfd_write(relay->stop, 1);
	pthread_join(relay->thread, NULL);
	release_client_log(relay);
}
