// SPDX-License-Identifier: Apache-2.0
/*
 * cloister mcp: an MCP server on stdio. It opens the workspace and then copies bytes, with one
 * thread for each direction so that neither waits for the other. cloisterd speaks MCP; only its
 * messages go to stdout.
 */
#include "client/cmd/command.h"
#include "client/session.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "common/limits.h"
#include "common/utf8.h"
#include "libcloister/cloister.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define MCP_LEFT_MS 1000 /* for answers after the end of `cloister mcp`'s input */

#define PASS_BYTES (64 * KIB)

struct input {
	int socket;
	int end; /* closed at the end of the input */
};

/* Like read(2), but repeats after a signal. */
static ssize_t read_some(int fd, char *buffer, size_t size)
{
	ssize_t n;

	do
		n = read(fd, buffer, size);
	while (n < 0 && errno == EINTR);
	return n;
}

static void *pass_input(void *context)
{
	struct input *input = context;
	static char buffer[PASS_BYTES];
	ssize_t n;

	for (;;) {
		n = read_some(STDIN_FILENO, buffer, sizeof(buffer));
		if (n < 0 && errno == EAGAIN) {
			struct pollfd readable = {.fd = STDIN_FILENO, .events = POLLIN};

			(void)poll(&readable, 1, -1);
			continue;
		}
		if (n <= 0 || io_write(input->socket, buffer, (size_t)n, IO_POSITION) < 0)
			break;
	}
	/* In this order: cloisterd may close the connection at once. */
	close(input->end);
	shutdown(input->socket, SHUT_WR);
	return NULL;
}

/*
 * Writes to a program unchanged, and to a terminal with JSON escaped as in other commands. Returns
 * how many bytes at the end must be kept for the next call, or -EPIPE.
 */
static ssize_t write_output(const char *data, size_t len)
{
	size_t kept;

	if (!isatty(STDOUT_FILENO))
		return io_write(STDOUT_FILENO, data, len, IO_POSITION) == 0 ? 0 : -EPIPE;
	kept = utf8_incomplete_tail((struct text){data, len});
	terminal_print_json(stdout, (struct text){data, len - kept});
	return fflush(stdout) == 0 ? (ssize_t)kept : -EPIPE;
}

/*
 * Copies until cloisterd closes the connection, which it does when all requests are answered. After
 * the end of our input it waits only a little longer; leaving then ends the calls that still run.
 */
static int pass_output(int socket, int end)
{
	static char buffer[PASS_BYTES];
	struct pollfd fds[] = {
		{.fd = socket, .events = POLLIN},
		{.fd = end, .events = POLLIN},
	};
	int64_t left_ms = -1;
	ssize_t kept = 0;

	for (;;) {
		int n = poll(fds, ARRAY_SIZE(fds), (int)left_ms);
		ssize_t len;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return STATUS_OK;
		if (fds[1].fd >= 0 && fds[1].revents) {
			fds[1].fd = -1;
			left_ms = MCP_LEFT_MS;
		}
		if (!fds[0].revents)
			continue;
		len = read_some(socket, buffer + kept, sizeof(buffer) - (size_t)kept);
		if (len > 0) {
			len += kept;
			kept = write_output(buffer, (size_t)len);
		}
		if (len > 0 && kept >= 0) {
			memmove(buffer, buffer + len - kept, (size_t)kept);
			continue;
		}
		if (len <= 0 && left_ms < 0 && poll(&fds[1], 1, 0) == 0) {
			complain("cloisterd closed the connection");
			return STATUS_NO_SERVICE;
		}
		return STATUS_OK;
	}
}

static int run_mcp(const struct invocation *invocation)
{
	/*
	 * The thread that reads stdin is never joined, because its read(2) cannot be interrupted.
	 */
	static struct input input;
	struct session session = {.speaks_mcp = true,
		.takes_env = true,
		.text = invocation->text,
		.private_tools = MODELS_TOOLS};
	_cleanup_close_ int end = -1;
	pthread_t thread;
	int status = STATUS_NO_SERVICE;
	int pair[2];

	signal(SIGPIPE, SIG_IGN);
	if (session_open(invocation, true, &session) < 0)
		goto out;
	if (pipe2(pair, O_CLOEXEC) < 0) {
		complain("cannot make a pipe: %s", strerror(errno));
		goto out;
	}
	end = pair[0];
	input = (struct input){cloister_fd(session.cloister), pair[1]};
	if (pthread_create(&thread, NULL, pass_input, &input) != 0) {
		complain("cannot start a thread");
		close(pair[1]);
		goto out;
	}
	pthread_detach(thread);
	status = pass_output(cloister_fd(session.cloister), end);
	/* The thread may be writing: keep the descriptor open, and shut the connection down. */
	shutdown(cloister_fd(session.cloister), SHUT_RDWR);
out:
	session_close(&session);
	return status;
}

static const struct option_row options[] = {
	TOOLS_OPTION,
	{"env", "NAME=VALUE", 'e', "a variable of commands; implies --private"},
	{"text", NULL, 'X', "send results as text alone, without structured content"},
	{0},
};

const struct command command_mcp = {
	.help = {"mcp", NULL, "Serve the Model Context Protocol on standard input and output.",
		"cloister --workspace project mcp", options},
	.run = run_mcp,
};
