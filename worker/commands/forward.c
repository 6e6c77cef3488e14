// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the worker, and in its child until that exits. The child has the client's socket and one
 * of its own, and no other descriptor: neither the worker's channel nor anything of a command.
 */
#include "worker/commands/forward.h"

#include "common/cleanup.h"
#include "common/io.h"
#include "common/relay.h"
#include "common/wire/wire_commands.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Only a client's connection may come, and no socket by which something else could be reached. */
static bool is_stream(int fd)
{
	int domain = 0, type = 0, listens = 1;
	socklen_t len = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM &&
	       getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && !listens;
}

static int drop_forward_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

/* Connects to the port of the workspace's own loopback, and to nothing else. Returns the socket. */
static int connect_inside(const struct command_forward *forward)
{
	const struct sockaddr_in v4 = {.sin_family = AF_INET,
		.sin_port = htons(forward->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
		.sin6_port = htons(forward->port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	_cleanup_close_ int fd = socket(
		forward->ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd connected = {.fd = fd, .events = POLLOUT};
	int error = 0, r;
	socklen_t len = sizeof(error);

	if (fd < 0)
		return -errno;
	r = forward->ipv6 ? connect(fd, (const struct sockaddr *)&v6, sizeof(v6))
			  : connect(fd, (const struct sockaddr *)&v4, sizeof(v4));
	if (r < 0 && errno != EINPROGRESS)
		return -errno;
	/* A server whose queue is full takes it later. */
	if (r < 0 && poll(&connected, 1, LIMIT_FORWARD_CONNECT_MS) <= 0)
		return -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error)
		return error ? -error : -errno;
	return TAKE_FD(fd);
}

/* The life of the child. Its descriptors are 0, 1 and 2, the client's and its own. */
static _Noreturn void live(int client, const struct command_forward *forward)
{
	const int place = STDERR_FILENO + 1;
	int server;

	if ((client != place && dup3(client, place, O_CLOEXEC) < 0) ||
		syscall(SYS_close_range, place + 1, ~0U, 0) < 0 || drop_forward_capabilities() < 0)
		_exit(1);
	(void)prctl(PR_SET_NAME, "cloister-relay", 0, 0, 0);
	(void)fcntl(place, F_SETFL, O_NONBLOCK);
	server = connect_inside(forward);
	if (server >= 0)
		(void)relay(place, server, (int)forward->idle_ms);
	/* A client that still sends learns that nobody reads. */
	(void)shutdown(place, SHUT_RDWR);
	_exit(0);
}

static int report_forward_end(const struct forwards *forwards, uint64_t number)
{
	const struct wire_header header = {
		.version = WIRE_VERSION, .type = COMMAND_FORWARD_ENDED, .call = number};

	/* One write, which the writes of inits to this socket cannot divide. */
	return io_write(forwards->report_fd, &header, sizeof(header), IO_POSITION);
}

int forward_begin(struct forwards *forwards, struct channel_frame *frame)
{
	struct command_forward forward;
	size_t i = 0;
	pid_t pid;

	if (frame->n_fds != 1 || !is_stream(frame->fds[0]) ||
		command_forward_get(frame->payload, &forward) < 0)
		return -EBADMSG;
	while (i < LIMIT_FORWARDS_PER_WORKSPACE && forwards->list[i].pid != 0)
		i++;
	if (i == LIMIT_FORWARDS_PER_WORKSPACE)
		return -EBADMSG;
	pid = fork();
	if (pid == 0)
		live(frame->fds[0], &forward);
	if (pid < 0) {
		(void)shutdown(frame->fds[0], SHUT_RDWR);
		return report_forward_end(forwards, frame->call);
	}
	forwards->list[i].pid = pid;
	forwards->list[i].number = frame->call;
	return 0;
}

int forward_reaped(struct forwards *forwards, pid_t pid)
{
	for (size_t i = 0; i < LIMIT_FORWARDS_PER_WORKSPACE; i++) {
		int r;

		if (forwards->list[i].pid != pid)
			continue;
		forwards->list[i].pid = 0;
		r = report_forward_end(forwards, forwards->list[i].number);
		return r < 0 ? r : 1;
	}
	return 0;
}
