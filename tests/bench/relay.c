// SPDX-License-Identifier: Apache-2.0
/*
 * usage: bench_relay PORT
 *
 * The least that a proxy for CONNECT does: one thread, one read of the head, no policy, no names,
 * no log. What another proxy takes longer than this one is what its own work costs. epoll(7)
 */
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>

#define PIECE (64 << 10)

/* What has been read and could not be written yet. */
struct way {
	char *pending;
	size_t begin, end;
	bool ended;
};

struct conn {
	int fds[2];         /* the client's, and the host's; -1 before there is one */
	struct way ways[2]; /* from the client, and from the host */
	bool is_connected;
};

static int loop;

static void watch(int fd, struct conn *conn)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = conn};

	if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) < 0)
		bench_die("epoll_ctl");
}

/* Writes what waits, then reads and writes until one side has no more. Returns false at an error.
 */
static bool pump(struct way *way, int from, int to)
{
	static char piece[PIECE];

	for (;;) {
		ssize_t n, sent = 0;

		if (way->pending) {
			n = send(
				to, way->pending + way->begin, way->end - way->begin, MSG_NOSIGNAL);
			if (n < 0)
				return errno == EAGAIN;
			way->begin += (size_t)n;
			if (way->begin < way->end)
				return true;
			free(way->pending);
			way->pending = NULL;
		}
		if (way->ended)
			return true;
		n = recv(from, piece, sizeof(piece), 0);
		if (n < 0)
			return errno == EAGAIN;
		if (n == 0) {
			way->ended = true;
			shutdown(to, SHUT_WR);
			return true;
		}
		sent = send(to, piece, (size_t)n, MSG_NOSIGNAL);
		if (sent < 0 && errno != EAGAIN)
			return false;
		if (sent == n)
			continue;
		way->begin = 0;
		way->end = (size_t)(n - (sent > 0 ? sent : 0));
		way->pending = malloc(way->end);
		if (!way->pending)
			return false;
		memcpy(way->pending, piece + n - (ssize_t)way->end, way->end);
	}
}

static int connect_to(const char *head)
{
	char address[16];
	unsigned port;
	struct sockaddr_in to = {.sin_family = AF_INET};
	const int one = 1;
	int fd;

	if (sscanf(head, "CONNECT %15[0-9.]:%u ", address, &port) != 2 ||
		inet_pton(AF_INET, address, &to.sin_addr) != 1)
		return -1;
	to.sin_port = htons((in_port_t)port);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Returns false if the connection is over. */
static bool serve(struct conn *conn)
{
	static const char reply[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	char head[4096];
	int error = 0;
	socklen_t size = sizeof(error);

	if (conn->fds[1] < 0) {
		ssize_t n = recv(conn->fds[0], head, sizeof(head) - 1, 0);

		if (n < 0)
			return errno == EAGAIN;
		head[n] = '\0';
		conn->fds[1] = strstr(head, "\r\n\r\n") ? connect_to(head) : -1;
		if (conn->fds[1] < 0)
			return false;
		watch(conn->fds[1], conn);
		return true;
	}
	if (!conn->is_connected) {
		struct tcp_info info;
		socklen_t info_size = sizeof(info);

		if (getsockopt(conn->fds[1], SOL_SOCKET, SO_ERROR, &error, &size) < 0 ||
			error != 0 ||
			getsockopt(conn->fds[1], IPPROTO_TCP, TCP_INFO, &info, &info_size) < 0)
			return false;
		if (info.tcpi_state == TCP_SYN_SENT)
			return true;
		conn->is_connected = true;
		if (send(conn->fds[0], reply, sizeof(reply) - 1, MSG_NOSIGNAL) < 0)
			return false;
	}
	return pump(&conn->ways[0], conn->fds[0], conn->fds[1]) &&
	       pump(&conn->ways[1], conn->fds[1], conn->fds[0]) &&
	       !(conn->ways[0].ended && conn->ways[1].ended);
}

static void end(struct conn *conn)
{
	for (unsigned i = 0; i < 2; i++) {
		free(conn->ways[i].pending);
		if (conn->fds[i] >= 0)
			close(conn->fds[i]);
	}
	free(conn);
}

static void accept_all(int listener)
{
	const int one = 1;
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct conn *conn = calloc(1, sizeof(*conn));

		if (!conn)
			bench_die("calloc");
		conn->fds[0] = fd;
		conn->fds[1] = -1;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		watch(fd, conn);
	}
}

/* One event at a time: a connection may have two, and the first may end it. */
int main(int argc, char **argv)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct epoll_event event;

	if (argc != 2) {
		fprintf(stderr, "usage: bench_relay PORT\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	at.sin_port = htons((in_port_t)strtoul(argv[1], NULL, 10));
	loop = epoll_create1(EPOLL_CLOEXEC);
	if (loop < 0 || listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 ||
		listen(listener, 4096) < 0)
		bench_die("listen");
	watch(listener, NULL);
	while (epoll_wait(loop, &event, 1, -1) >= 0) {
		if (!event.data.ptr)
			accept_all(listener);
		else if (!serve(event.data.ptr))
			end(event.data.ptr);
	}
	bench_die("epoll_wait");
}
