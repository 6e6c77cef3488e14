// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a child of the worker, and of `cloister forward`. What one end does not take waits in a
 * buffer, and the other end is not read until there is room: a server that never reads costs its
 * client's patience, and no memory. poll(2), tcp(7), unix(7)
 */
#include "common/relay.h"

#include "common/limits.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define RELAY_BYTES (64 * KIB)

/* One direction. */
struct flow {
	int from, to;
	size_t begin, end; /* of what is in the buffer and not written yet */
	bool ended;        /* from will send no more */
	bool closed;       /* and to has been told */
	char buffer[RELAY_BYTES];
};

static bool is_empty(const struct flow *flow)
{
	return flow->begin == flow->end;
}

static bool is_later(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Reads into an empty buffer. Returns how many bytes, or -errno. */
static ssize_t fill_flow(struct flow *flow)
{
	ssize_t n = recv(flow->from, flow->buffer, sizeof(flow->buffer), 0);

	if (is_later(n))
		return 0;
	if (n < 0)
		return -errno;
	flow->begin = 0;
	flow->end = (size_t)n;
	flow->ended = n == 0;
	return n;
}

/* Writes what is there, and after all of it tells the end. Returns how many bytes, or -errno. */
static ssize_t drain_flow(struct flow *flow)
{
	ssize_t n = 0;

	if (!is_empty(flow))
		n = send(flow->to, flow->buffer + flow->begin, flow->end - flow->begin,
			MSG_NOSIGNAL);
	if (is_later(n))
		return 0;
	if (n < 0)
		return -errno;
	flow->begin += (size_t)n;
	if (is_empty(flow) && flow->ended && !flow->closed) {
		flow->closed = true;
		(void)shutdown(flow->to, SHUT_WR);
	}
	return n;
}

/* What poll(2) is to look for at the end that @in reads from and @out writes to. */
static short wanted_poll_events(const struct flow *in, const struct flow *out)
{
	return (short)((is_empty(in) && !in->ended ? POLLIN : 0) | (is_empty(out) ? 0 : POLLOUT));
}

/* Whether an end is gone, so that it neither reads nor writes any more. */
static bool is_gone(const struct pollfd *end, const struct flow *in)
{
	return (end->revents & (POLLERR | POLLNVAL)) || ((end->revents & POLLHUP) && in->closed);
}

static ssize_t move_flow(struct flow *flow, short readable, short writable)
{
	ssize_t n = 0, m = 0;

	if ((readable & (POLLIN | POLLHUP)) && is_empty(flow) && !flow->ended)
		n = fill_flow(flow);
	/* What has just come is most often taken at once. */
	if (n >= 0 && (n > 0 || flow->ended || (writable & POLLOUT)))
		m = drain_flow(flow);
	return n < 0 ? n : m < 0 ? m : n + m;
}

/* Whether an end that is gone has left something, which the other end may never take. */
static bool has_gone(const struct pollfd *ends)
{
	return ends[0].fd < 0 || ends[1].fd < 0;
}

int relay(int client, int server, int idle_ms)
{
	static struct flow up, down;
	struct pollfd ends[] = {{.fd = client}, {.fd = server}};

	up = (struct flow){.from = client, .to = server};
	down = (struct flow){.from = server, .to = client};
	while (!up.closed || !down.closed) {
		ssize_t n, m;
		int r;

		/* poll(2) tells a hang-up again and again: not while what came before it waits. */
		ends[0].fd = (ends[0].revents & POLLHUP) && !is_empty(&up) ? -1 : client;
		ends[1].fd = (ends[1].revents & POLLHUP) && !is_empty(&down) ? -1 : server;
		ends[0].events = wanted_poll_events(&up, &down);
		ends[1].events = wanted_poll_events(&down, &up);
		r = poll(ends, 2, has_gone(ends) ? LIMIT_RELAY_REMAINS_MS : idle_ms);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? -errno : -ETIMEDOUT;
		n = move_flow(&up, ends[0].revents, ends[1].revents);
		m = n < 0 ? 0 : move_flow(&down, ends[1].revents, ends[0].revents);
		if (n < 0 || m < 0)
			return (int)(n < 0 ? n : m);
		if ((!up.closed || !down.closed) &&
			(is_gone(&ends[0], &up) || is_gone(&ends[1], &down)))
			return -EPIPE;
	}
	return 0;
}
