// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate. Either side may be hostile: one that does not read is not read for, so
 * that at most LIMIT_GATE_RELAY_BYTES wait in each direction.
 */
#include "gate/relay.h"

#include "common/limits.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>
#include <sys/socket.h>

/* One direction: what was read of @from and is not written to @to. */
struct flow {
	struct gate_relay *relay;
	int from, to;
	struct evbuffer *waiting;
	struct event readable, writable;
	bool is_over; /* @from has said all */
	bool is_done; /* and @to has it */
};

struct gate_relay {
	struct flow flows[2];
	void (*ended)(void *context);
	void *context;
};

static bool is_transient(int error)
{
	return error == EAGAIN || error == EINTR;
}

/* Watches for what can go on. */
static void await(struct flow *flow)
{
	size_t len = evbuffer_get_length(flow->waiting);

	if (!flow->is_over && len < LIMIT_GATE_RELAY_BYTES)
		event_add(&flow->readable, NULL);
	else
		event_del(&flow->readable);
	if (len > 0)
		event_add(&flow->writable, NULL);
	else
		event_del(&flow->writable);
}

/* Moves what can be moved. Returns 0, or -errno if one side is gone. */
static int move(struct flow *flow, bool reads)
{
	int n = reads ? evbuffer_read(flow->waiting, flow->from, LIMIT_GATE_RELAY_BYTES) : 1;

	if (n < 0 && !is_transient(errno))
		return -errno;
	flow->is_over |= n == 0;
	if (evbuffer_get_length(flow->waiting) > 0 && evbuffer_write(flow->waiting, flow->to) < 0 &&
		!is_transient(errno))
		return -errno;
	if (flow->is_over && !flow->is_done && evbuffer_get_length(flow->waiting) == 0) {
		flow->is_done = true;
		shutdown(flow->to, SHUT_WR);
	}
	return 0;
}

static void go_on(struct flow *flow, bool reads)
{
	struct gate_relay *relay = flow->relay;
	int r = move(flow, reads);

	if (r == 0 && !(relay->flows[0].is_done && relay->flows[1].is_done)) {
		await(flow);
		return;
	}
	relay->ended(relay->context);
}

static void on_relay_readable(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	go_on(context, true);
}

static void on_writable(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	go_on(context, false);
}

static int flow_begin(
	struct flow *flow, struct gate_relay *relay, struct event_base *base, int from, int to)
{
	*flow = (struct flow){.relay = relay, .from = from, .to = to, .waiting = evbuffer_new()};
	event_assign(&flow->readable, base, from, EV_READ | EV_PERSIST, on_relay_readable, flow);
	event_assign(&flow->writable, base, to, EV_WRITE | EV_PERSIST, on_writable, flow);
	if (!flow->waiting)
		return -ENOMEM;
	await(flow);
	return 0;
}

struct gate_relay *gate_relay_new(
	struct event_base *base, int a, int b, void (*ended)(void *context), void *context)
{
	struct gate_relay *relay = calloc(1, sizeof(*relay));

	if (!relay)
		return NULL;
	relay->ended = ended;
	relay->context = context;
	if (flow_begin(&relay->flows[0], relay, base, a, b) < 0 ||
		flow_begin(&relay->flows[1], relay, base, b, a) < 0) {
		gate_relay_free(relay);
		return NULL;
	}
	return relay;
}

static int flow_put(struct flow *flow, struct text data)
{
	if (evbuffer_add(flow->waiting, data.data, data.len) < 0)
		return -ENOMEM;
	await(flow);
	return 0;
}

int gate_relay_send(struct gate_relay *relay, struct text data)
{
	return flow_put(&relay->flows[0], data);
}

int gate_relay_answer(struct gate_relay *relay, struct text data)
{
	return flow_put(&relay->flows[1], data);
}

void gate_relay_free(struct gate_relay *relay)
{
	if (!relay)
		return;
	for (size_t i = 0; i < 2; i++) {
		struct flow *flow = &relay->flows[i];

		if (!flow->relay)
			continue;
		event_del(&flow->readable);
		event_del(&flow->writable);
		if (flow->waiting)
			evbuffer_free(flow->waiting);
	}
	free(relay);
}
