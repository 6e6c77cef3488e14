// SPDX-License-Identifier: Apache-2.0
/*
 * cloister forward: reaches a port of a workspace at a port of this machine. It listens at
 * 127.0.0.1; for each connection a child connects to the service, says workspace.forward and copies
 * bytes. Runs as the calling user. What comes from the workspace is hostile, and only copied.
 */
#include "client/cmd/command.h"
#include "client/fields.h"
#include "client/session.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/relay.h"
#include "libcloister/cloister.h"

#include "json/json_read.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_BYTES (64 * KIB)

struct ports {
	uint16_t local, inside;
	bool local_given;
};

static bool read_port(const char *text, uint16_t *ret)
{
	char *end;
	unsigned long port;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	port = strtoul(text, &end, 10);
	if (errno || (*end && *end != ':') || port > UINT16_MAX)
		return false;
	*ret = (uint16_t)port;
	return true;
}

static bool read_ports(const char *text, struct ports *ret)
{
	const char *colon = strchr(text, ':');

	ret->local_given = colon != NULL;
	if (!read_port(colon ? colon + 1 : text, &ret->inside) || ret->inside == 0 ||
		strchr(colon ? colon + 1 : text, ':'))
		return false;
	ret->local = ret->inside;
	return !colon || read_port(text, &ret->local); /* 0: any that is free */
}

static int listen_at(uint16_t port)
{
	const struct sockaddr_in name = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
		bind(fd, (const struct sockaddr *)&name, sizeof(name)) < 0 ||
		listen(fd, SOMAXCONN) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* The port of the workspace, or any that is free if that is taken. Returns the socket or -errno. */
static int begin_to_listen(const struct ports *ports)
{
	struct sockaddr_in name = {0};
	socklen_t len = sizeof(name);
	int fd = listen_at(ports->local);

	if ((fd == -EADDRINUSE || fd == -EACCES) && !ports->local_given)
		fd = listen_at(0);
	if (fd < 0) {
		complain("cannot listen at 127.0.0.1:%u: %s", ports->local, strerror(-fd));
		return fd;
	}
	if (getsockname(fd, (struct sockaddr *)&name, &len) < 0 ||
		printf("127.0.0.1:%u is port %u of the workspace\n", ntohs(name.sin_port),
			ports->inside) < 0 ||
		fflush(stdout) != 0) {
		close(fd);
		return -EIO;
	}
	return fd;
}

static bool send_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		struct pollfd writable = {.fd = fd, .events = POLLOUT};
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
			n = poll(&writable, 1, -1) < 0 ? -1 : 0;
		if (n < 0 && errno != EINTR)
			return false;
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return true;
}

/*
 * Reads the answer, a line, and what of the stream has come with it. Returns how many bytes; the
 * line has @ret_line of them; or -errno.
 */
static ssize_t read_answer(int fd, char *buffer, size_t *ret_line)
{
	size_t len = 0;

	while (len < LINE_BYTES) {
		struct pollfd readable = {.fd = fd, .events = POLLIN};
		ssize_t n = recv(fd, buffer + len, LINE_BYTES - len, 0);
		const char *newline;

		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			(void)poll(&readable, 1, -1);
			continue;
		}
		if (n <= 0)
			return n < 0 ? -errno : -ECONNRESET;
		len += (size_t)n;
		newline = memchr(buffer, '\n', len);
		if (newline) {
			*ret_line = (size_t)(newline - buffer) + 1;
			return (ssize_t)len;
		}
	}
	return -EMSGSIZE;
}

/* Prints why the service refuses. Returns whether it does not. */
static bool check_answer(char *line, size_t len)
{
	const struct json_bounds bounds = json_request_bounds(len);
	struct json_object *answer = NULL, *error, *code;
	struct json_report report;
	bool accepted;

	(void)json_read((struct text){line, len - 1}, &bounds, &answer, &report);
	accepted = json_object_object_get_ex(answer, "result", NULL);
	if (!accepted) {
		error = field(answer, "error");
		code = field(field(error, "data"), "code");
		complain_code(code ? json_object_get_string(code) : "FAILED", "%s",
			field(error, "message") ? field_text(error, "message")
						: "the service answers wrongly");
	}
	json_object_put(answer);
	return accepted;
}

/* The life of a child: one connection. */
static int serve_forward(const struct invocation *invocation, const struct ports *ports, int local)
{
	static char buffer[LINE_BYTES];
	_cleanup_session_ struct session session = {0};
	char request[128];
	size_t line = 0;
	ssize_t len;
	int fd;

	if (session_open(invocation, true, &session) < 0 || session.instance)
		return STATUS_NO_SERVICE;
	fd = cloister_fd(session.cloister);
	snprintf(request, sizeof(request),
		"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"workspace.forward\",\"params\":{"
		"\"port\":"
		"%u}}\n",
		ports->inside);
	len = send_all(fd, request, strlen(request)) ? read_answer(fd, buffer, &line) : -EPIPE;
	if (len < 0) {
		complain("the service does not answer: %s", strerror((int)-len));
		return STATUS_NO_SERVICE;
	}
	if (!check_answer(buffer, line))
		return STATUS_TOOL_FAILED;
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	(void)fcntl(local, F_SETFL, O_NONBLOCK);
	if (send_all(local, buffer + line, (size_t)len - line))
		(void)relay(local, fd, -1);
	return STATUS_OK;
}

/* Returns whether there is a child more. */
static bool take_forward_client(
	const struct invocation *invocation, const struct ports *ports, int listener)
{
	_cleanup_close_ int local = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	pid_t parent = getpid(), pid;

	if (local < 0)
		return false;
	pid = fork();
	if (pid < 0)
		complain("cannot start a process for a connection: %s", strerror(errno));
	if (pid != 0)
		return pid > 0;
	close(listener);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	_exit(getppid() == parent ? serve_forward(invocation, ports, local) : STATUS_OWN_FAILURE);
}

/* Reaps the children that have ended. Returns how many of @children are left. */
static size_t reap(size_t children)
{
	while (children > 0 && waitpid(-1, NULL, WNOHANG) > 0)
		children--;
	return children;
}

static void on_child(int number)
{
	(void)number; /* it interrupts poll(2) */
}

static int wait_and_take(
	const struct invocation *invocation, const struct ports *ports, int listener, int service)
{
	struct sigaction action = {.sa_handler = on_child};
	sigset_t child, before;
	size_t children = 0;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &before);
	sigaction(SIGCHLD, &action, NULL);
	for (;;) {
		/* With as many as may be, others wait in the listener's queue. */
		struct pollfd fds[] = {{.fd = service, .events = POLLIN},
			{.fd = children < LIMIT_FORWARDS_PER_WORKSPACE ? listener : -1,
				.events = POLLIN}};
		int r = ppoll(fds, ARRAY_SIZE(fds), NULL, &before);

		children = reap(children);
		if (r <= 0)
			continue;
		if (fds[0].revents) {
			complain_code("NO_SERVICE", "the service has ended");
			return STATUS_NO_SERVICE;
		}
		if (fds[1].revents)
			children += take_forward_client(invocation, ports, listener);
	}
}

static int run_forward(const struct invocation *invocation)
{
	_cleanup_session_ struct session session = {0};
	_cleanup_close_ int listener = -1;
	struct ports ports;

	if (!read_ports(invocation->argv[0], &ports)) {
		complain_code("USAGE",
			"%s: not a port of the workspace, such as 3000, or LOCAL:PORT",
			invocation->argv[0]);
		help_refer(&cloister_program, &command_forward.help);
		return STATUS_USAGE;
	}
	signal(SIGPIPE, SIG_IGN);
	/* It stays open, and with it the workspace. */
	if (session_open_service(invocation, true, "has nothing that listens", &session) < 0)
		return STATUS_NO_SERVICE;
	listener = begin_to_listen(&ports);
	if (listener < 0)
		return STATUS_OWN_FAILURE;
	return wait_and_take(invocation, &ports, listener, cloister_fd(session.cloister));
}

const struct command command_forward = {
	.help = {"forward", "[LOCAL:]PORT", "Reach a port of the workspace at 127.0.0.1.",
		"cloister --workspace project forward 3000", NULL},
	.least = 1,
	.most = 1,
	.run = run_forward,
};
