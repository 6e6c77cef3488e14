// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate. libmicrohttpd 0.9.75 copies 4 bytes at a time between TLS and an upgraded
 * connection, each in one TLS record. So this file copies, 16 KiB at a time, and tells
 * libmicrohttpd that nothing has come. Either side may be hostile: if one does not read, the other
 * is not read.
 */
#include "gate/tls_pump.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

#define RECORD_BYTES (16 * KIB) /* RFC 8446, 5.1 */

struct tls_pump {
	gnutls_session_t session;
	gnutls_transport_ptr_t pull_from; /* what libmicrohttpd has set */
	int net, inner;
	struct evbuffer *in, *out; /* from the client, and to it */
	struct event net_readable, net_writable, inner_readable, inner_writable;
	bool is_receiving;
	bool is_held;  /* a record waits in GnuTLS, and the bytes of it in @out */
	bool in_over;  /* nothing more comes from the client, or is wanted */
	bool out_over; /* nothing more comes for it */
	bool is_bye;   /* and it was told */
	struct timeval patience;
	void (*done)(void *context); /* NULL: not finishing */
	void *context;
};

static bool is_transient(int error)
{
	return error == EAGAIN || error == EINTR;
}

/* GnuTLS reads the socket. libmicrohttpd asks GnuTLS too, after each event, and gets nothing. */
static ssize_t pull(gnutls_transport_ptr_t context, void *data, size_t len)
{
	struct tls_pump *pump = context;
	ssize_t n = -1;

	errno = EAGAIN;
	if (pump->is_receiving)
		n = recv(pump->net, data, len, 0);
	if (n < 0)
		gnutls_transport_set_errno(pump->session, errno);
	return n;
}

/* Reads one record. Returns 0, also if none has come, or -errno. */
static int receive_tls(struct tls_pump *pump)
{
	struct evbuffer_iovec room;
	ssize_t n;

	/* All of a record, so that libmicrohttpd finds no rest of it. */
	if (evbuffer_reserve_space(pump->in, RECORD_BYTES, &room, 1) != 1)
		return -ENOMEM;
	pump->is_receiving = true;
	n = gnutls_record_recv(pump->session, room.iov_base, room.iov_len);
	pump->is_receiving = false;
	room.iov_len = n > 0 ? (size_t)n : 0;
	evbuffer_commit_space(pump->in, &room, 1);
	if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED || n > 0)
		return 0;
	/* An end without close_notify may be an attacker's. */
	if (n < 0)
		return -ECONNRESET;
	pump->in_over = true;
	return 0;
}

/* Moves what can be moved from the client. Returns 0, or -errno if it is gone. */
static int move_in(struct tls_pump *pump, bool reads)
{
	bool was_over = pump->in_over;
	int r = reads && !pump->in_over ? receive_tls(pump) : 0;

	if (r < 0)
		return r;
	if (evbuffer_get_length(pump->in) > 0 && evbuffer_write(pump->in, pump->inner) < 0 &&
		!is_transient(errno)) {
		/* The face reads no more. */
		evbuffer_drain(pump->in, SIZE_MAX);
		pump->in_over = was_over = true;
	}
	if (pump->in_over && !was_over && evbuffer_get_length(pump->in) == 0)
		shutdown(pump->inner, SHUT_WR);
	return 0;
}

/* Sends a record. Returns 0, also if it waits, or -errno. */
static int send_record(struct tls_pump *pump)
{
	size_t len = evbuffer_get_length(pump->out);
	ssize_t n;

	len = len < RECORD_BYTES ? len : RECORD_BYTES;
	n = pump->is_held ? gnutls_record_send(pump->session, NULL, 0)
			  : gnutls_record_send(
				    pump->session, evbuffer_pullup(pump->out, (ssize_t)len), len);
	pump->is_held = n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED;
	if (n < 0)
		return pump->is_held ? 0 : -ECONNRESET;
	evbuffer_drain(pump->out, (size_t)n);
	return 0;
}

/* Moves what can be moved to the client. Returns 0, or -errno if it is gone. */
static int move_out(struct tls_pump *pump, bool reads)
{
	int n = reads ? evbuffer_read(pump->out, pump->inner, RECORD_BYTES) : 1, r = 0;

	if (n == 0 || (n < 0 && !is_transient(errno)))
		pump->out_over = true;
	if (evbuffer_get_length(pump->out) > 0)
		return send_record(pump);
	if (pump->out_over && !pump->is_bye) {
		r = gnutls_bye(pump->session, GNUTLS_SHUT_WR);
		pump->is_bye = r == GNUTLS_E_SUCCESS;
	}
	return r == GNUTLS_E_SUCCESS || r == GNUTLS_E_AGAIN || r == GNUTLS_E_INTERRUPTED
		       ? 0
		       : -ECONNRESET;
}

static void watch_tls_event(struct event *event, bool wanted, const struct timeval *patience)
{
	if (wanted)
		event_add(event, patience);
	else
		event_del(event);
}

/* Watches for what can go on. */
static void await(struct tls_pump *pump)
{
	size_t in = evbuffer_get_length(pump->in), out = evbuffer_get_length(pump->out);

	watch_tls_event(&pump->net_readable, !pump->in_over && in == 0, NULL);
	watch_tls_event(&pump->inner_writable, in > 0, NULL);
	watch_tls_event(&pump->inner_readable, !pump->out_over && out == 0, NULL);
	watch_tls_event(&pump->net_writable, out > 0 || (pump->out_over && !pump->is_bye),
		pump->done ? &pump->patience : NULL);
}

static void go_on(struct tls_pump *pump, int r)
{
	void (*done)(void *context) = pump->done;

	if (r < 0) {
		/* The client is gone. The face notices. */
		evbuffer_drain(pump->in, SIZE_MAX);
		evbuffer_drain(pump->out, SIZE_MAX);
		pump->in_over = pump->out_over = pump->is_bye = true;
		shutdown(pump->inner, SHUT_RDWR);
	}
	await(pump);
	if (!done || !pump->is_bye)
		return;
	pump->done = NULL;
	done(pump->context);
}

static void on_net_readable(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	go_on(context, move_in(context, true));
}

static void on_net_writable(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	go_on(context, (what & EV_TIMEOUT) ? -ETIMEDOUT : move_out(context, false));
}

static void on_inner_readable(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	go_on(context, move_out(context, true));
}

static void on_inner_writable(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	go_on(context, move_in(context, false));
}

int tls_pump_new(struct event_base *base, gnutls_session_t session, int net,
	struct tls_pump **ret_pump, int *ret_fd)
{
	struct tls_pump *pump = calloc(1, sizeof(*pump));
	gnutls_transport_ptr_t push_to;
	int ends[2], r;

	if (!pump)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
		r = -errno;
		free(pump);
		return r;
	}
	*pump = (struct tls_pump){.session = session,
		.net = net,
		.inner = ends[0],
		.in = evbuffer_new(),
		.out = evbuffer_new()};
	event_assign(&pump->net_readable, base, net, EV_READ | EV_PERSIST, on_net_readable, pump);
	event_assign(&pump->net_writable, base, net, EV_WRITE | EV_PERSIST, on_net_writable, pump);
	event_assign(&pump->inner_readable, base, pump->inner, EV_READ | EV_PERSIST,
		on_inner_readable, pump);
	event_assign(&pump->inner_writable, base, pump->inner, EV_WRITE | EV_PERSIST,
		on_inner_writable, pump);
	gnutls_transport_get_ptr2(session, &pump->pull_from, &push_to);
	gnutls_transport_set_ptr2(session, pump, push_to);
	gnutls_transport_set_pull_function(session, pull);
	/* Bytes behind the head may have been decrypted already. */
	r = pump->in && pump->out ? 0 : -ENOMEM;
	if (r == 0 && gnutls_record_check_pending(session) > 0)
		r = move_in(pump, true);
	if (r < 0) {
		tls_pump_free(pump);
		close(ends[1]);
		return r;
	}
	await(pump);
	*ret_pump = pump;
	*ret_fd = ends[1];
	return 0;
}

void tls_pump_finish(
	struct tls_pump *pump, uint64_t idle_ms, void (*done)(void *context), void *context)
{
	pump->done = done;
	pump->context = context;
	pump->patience =
		(struct timeval){(time_t)(idle_ms / 1000), (suseconds_t)(idle_ms % 1000 * 1000)};
	evbuffer_drain(pump->in, SIZE_MAX);
	pump->in_over = true;
	go_on(pump, 0);
}

/* Only GnuTLS's own close_notify follows, which reads nothing. */
static ssize_t pull_nothing(gnutls_transport_ptr_t context, void *data, size_t len)
{
	(void)context;
	(void)data;
	(void)len;
	errno = EAGAIN;
	return -1;
}

void tls_pump_free(struct tls_pump *pump)
{
	gnutls_transport_ptr_t pull_from, push_to;

	if (!pump)
		return;
	gnutls_transport_get_ptr2(pump->session, &pull_from, &push_to);
	gnutls_transport_set_ptr2(pump->session, pump->pull_from, push_to);
	gnutls_transport_set_pull_function(pump->session, pull_nothing);
	event_del(&pump->net_readable);
	event_del(&pump->net_writable);
	event_del(&pump->inner_readable);
	event_del(&pump->inner_writable);
	if (pump->in)
		evbuffer_free(pump->in);
	if (pump->out)
		evbuffer_free(pump->out);
	close(pump->inner);
	free(pump);
}
