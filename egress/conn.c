// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress. A connection's life is the table below: what each event does in each
 * state. Clients are programs of a workspace, and hostile; so are the hosts.
 */
#include "common/cleanup.h"
#include "common/monotonic.h"
#include "egress/conn_state.h"

#include <errno.h>
#include <event2/event.h>
#include <sys/socket.h>

static void refuse_slow(struct conn *conn);
static void fail_to_resolve(struct conn *conn);
static void fail_to_connect(struct conn *conn);
static void refuse_silent_client(struct conn *conn);

/* An event that a row does not name changes nothing there, or cannot come. */
static void (*const table[CONN_STATES][CONN_EVENTS])(struct conn *conn) = {
	[CONN_HEAD] = {[CONN_ON_CLIENT] = conn_read_head, [CONN_ON_TIME] = refuse_slow},
	[CONN_NAME] = {[CONN_ON_CLIENT] = conn_read_name, [CONN_ON_TIME] = refuse_slow},
	[CONN_SOCKS] = {[CONN_ON_CLIENT] = conn_read_socks, [CONN_ON_TIME] = refuse_slow},
	[CONN_QUESTION] = {[CONN_ON_CLIENT] = conn_read_question,
		[CONN_ON_TOLD] = conn_answer_question,
		[CONN_ON_TIME] = conn_end},
	[CONN_RESOLVING] =
		{[CONN_ON_RESOLVED] = conn_be_resolved, [CONN_ON_TIME] = fail_to_resolve},
	[CONN_CONNECTING] =
		{[CONN_ON_REMOTE] = conn_be_connected, [CONN_ON_TIME] = fail_to_connect},
	[CONN_UPSTREAM] = {[CONN_ON_REMOTE] = conn_read_upstream, [CONN_ON_TIME] = fail_to_connect},
	[CONN_HELLO] = {[CONN_ON_CLIENT] = conn_read_hello, [CONN_ON_TIME] = refuse_silent_client},
	[CONN_RELAYING] = {[CONN_ON_CLIENT] = conn_relay,
		[CONN_ON_REMOTE] = conn_relay,
		[CONN_ON_TIME] = conn_check_idle},
	[CONN_TLS] = {[CONN_ON_REMOTE] = conn_shake_hands, [CONN_ON_TIME] = conn_shake_no_more},
	[CONN_ASKING] = {[CONN_ON_CLIENT] = conn_carry_secret,
		[CONN_ON_REMOTE] = conn_carry_secret,
		[CONN_ON_TIME] = conn_check_idle},
	[CONN_REFUSING] = {[CONN_ON_TOLD] = conn_answer_refusal},
	[CONN_LINGERING] = {[CONN_ON_CLIENT] = conn_discard, [CONN_ON_TIME] = conn_end},
};

/*
 * Where the kernel says whose a connection is, one that is no running command's is not served: its
 * client has gone already, or is what a command has left.
 */
static void refuse_stranger(struct conn *conn)
{
	if (conn->via == EGRESS_VIA_DNS) {
		conn_end(conn);
		return;
	}
	conn->limit = "no running command has made this connection";
	conn_refuse(conn, EGRESS_LIMIT, conn->limit, (struct text){0});
}

/* Returns false if the connection is refused. */
static bool attribute(struct conn *conn)
{
	conn->call = attribution_of(conn->cell, conn->fds[CONN_OUT], conn->cgroup);
	conn->is_attributed = true;
	if (conn->call != 0 || conn->cell->diag < 0)
		return true;
	refuse_stranger(conn);
	return false;
}

/* Its cell has no connections now. What wakes the client would be dear, so it is told nothing. */
static void cut(struct conn *conn)
{
	if (!conn->is_attributed)
		conn->call = attribution_of(conn->cell, conn->fds[CONN_OUT], conn->cgroup);
	conn->reason = EGRESS_LIMIT;
	conn->limit = "the CPU time that waking the workspace's programs may take";
	if (!conn->is_connected)
		(void)conn_tell_refusal(conn, conn->limit, (struct text){0});
	conn_abort(conn);
}

static void happen(struct conn *conn, enum conn_event event)
{
	void (*act)(struct conn * conn) = table[conn->state][event];

	if (cell_is_dear(conn->cell)) {
		cut(conn);
		return;
	}
	if (!conn->is_attributed && !attribute(conn))
		return;
	if (act)
		act(conn);
	else if (event == CONN_ON_CLIENT)
		conn_watch_client(conn, 0); /* until a state that reads it watches it again */
}

static unsigned ready_if(short what, short condition, enum conn_direction way)
{
	return what & condition ? 1U << way : 0;
}

static void on_client(evutil_socket_t fd, short what, void *context)
{
	struct conn *conn = context;

	(void)fd;
	conn->ready =
		(uint8_t)(ready_if(what, EV_READ, CONN_OUT) | ready_if(what, EV_WRITE, CONN_IN));
	happen(conn, CONN_ON_CLIENT);
}

static void on_remote(evutil_socket_t fd, short what, void *context)
{
	struct conn *conn = context;

	(void)fd;
	conn->ready =
		(uint8_t)(ready_if(what, EV_READ, CONN_IN) | ready_if(what, EV_WRITE, CONN_OUT));
	happen(conn, CONN_ON_REMOTE);
}

static void on_time(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	happen(context, CONN_ON_TIME);
}

void conn_told(struct conn *conn)
{
	happen(conn, CONN_ON_TOLD);
}

struct conn *conn_next(const struct conn *conn)
{
	return LIST_NEXT(conn, entry);
}

uint64_t conn_call(const struct conn *conn)
{
	return conn->call;
}

static void refuse_slow(struct conn *conn)
{
	conn->limit = "the 10 seconds that a request may take";
	conn_refuse(conn, EGRESS_LIMIT, conn->limit, (struct text){0});
}

static void fail_to_resolve(struct conn *conn)
{
	conn_refuse(conn, EGRESS_DNS_FAILED, NULL, (struct text){0});
}

static void fail_to_connect(struct conn *conn)
{
	conn_try_next(conn);
}

static void refuse_silent_client(struct conn *conn)
{
	conn_refuse(conn, EGRESS_SNI_MISMATCH, NULL, (struct text){0});
}

void conn_enter(struct conn *conn, enum conn_state state, unsigned ms)
{
	struct timeval wait = {.tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000};

	conn->state = (uint8_t)state;
	if (ms > 0)
		event_add(&conn->timer, &wait);
	else
		event_del(&conn->timer);
}

static void watch_conn(struct event *event, struct event_base *base, int fd, short what,
	event_callback_fn call, struct conn *conn)
{
	if (event_initialized(event)) {
		if ((event_get_events(event) & (EV_READ | EV_WRITE)) == what &&
			event_pending(event, EV_READ | EV_WRITE, NULL))
			return;
		event_del(event);
	}
	if (what == 0)
		return;
	event_assign(event, base, fd, (short)(what | EV_PERSIST), call, conn);
	/* In user mode a command may have taken all watches that epoll(7) has for this user. */
	if (event_add(event, NULL) < 0)
		conn_enter(conn, CONN_LINGERING, 1);
}

void conn_watch_client(struct conn *conn, short what)
{
	watch_conn(&conn->client, conn->cell->egress->base, conn->fds[CONN_OUT], what, on_client,
		conn);
}

void conn_watch_remote(struct conn *conn, short what)
{
	watch_conn(
		&conn->remote, conn->cell->egress->base, conn->fds[CONN_IN], what, on_remote, conn);
}

/* How a connection to each kind of door begins. */
static void begin_at(struct conn *conn, uint8_t kind)
{
	enum conn_state state = CONN_HEAD;

	conn->via = EGRESS_VIA_TRANSPARENT;
	switch (kind) {
	case EGRESS_HTTP:
		conn->port = 80;
		break;
	case EGRESS_HTTPS:
		conn->port = 443;
		/* A client of TLS reads nothing but TLS: a refusal is an alert. */
		conn->is_told = true;
		state = CONN_NAME;
		break;
	case EGRESS_DNS_TCP:
		conn->via = EGRESS_VIA_DNS;
		state = CONN_QUESTION;
		break;
	default:
		conn->via = EGRESS_VIA_HTTP;
	}
	conn_enter(conn, state, LIMIT_EGRESS_HEAD_MS);
}

void conn_begin(const struct door *door, int client)
{
	struct conn *conn = calloc(1, sizeof(*conn));
	struct cell *cell = door->cell;

	if (!conn) {
		close(client);
		return;
	}
	conn->cell = cell;
	conn->fds[CONN_OUT] = client;
	conn->fds[CONN_IN] = -1;
	conn->cgroup = attribution_cgroup(cell, client);
	evtimer_assign(&conn->timer, cell->egress->base, on_time, conn);
	LIST_INSERT_HEAD(&cell->conns, conn, entry);
	cell->egress->open++;
	cell->tenant->usage.open++;
	cell->usage.open++;
	begin_at(conn, door->kind);
	conn_watch_client(conn, EV_READ);
}

static void tell_closed(struct conn *conn)
{
	struct egress_command *command = cell_command(conn->cell, conn->call);
	struct egress_closed closed = {.call = conn->call,
		.host = host_text(&conn->host),
		.port = conn->port,
		.via = conn->via,
		.reason = conn->reason,
		.bytes_in = conn->ways[CONN_IN].bytes,
		.bytes_out = conn->ways[CONN_OUT].bytes};
	uint8_t bytes[512];
	struct wire_writer writer = wire_writer(bytes, sizeof(bytes));

	if (command) {
		command->sums.connections++;
		command->sums.bytes_in += closed.bytes_in;
		command->sums.bytes_out += closed.bytes_out;
	}
	egress_closed_put(&writer, &closed);
	egress_send(conn->cell->egress, EGRESS_CLOSED, conn->cell->number, &writer);
}

static void stop_watching(struct conn *conn)
{
	if (event_initialized(&conn->client))
		event_del(&conn->client);
	if (event_initialized(&conn->remote))
		event_del(&conn->remote);
	event_del(&conn->timer);
	if (conn->is_waiting)
		egress_wait_no_more(conn->cell->egress, conn);
}

void conn_end(struct conn *conn)
{
	struct cell *cell = conn->cell;

	stop_watching(conn);
	conn_leave_query(conn);
	if (conn->is_connected)
		tell_closed(conn);
	wake_cost_begin();
	close_fd(&conn->fds[CONN_OUT]);
	close_fd(&conn->fds[CONN_IN]);
	cell_calls_ended(cell);
	for (unsigned way = 0; way < CONN_DIRECTIONS; way++)
		byte_queue_free(&conn->ways[way].pending);
	free(conn->attempt);
	conn_secret_free(conn->secret);
	cell->egress->open--;
	cell->tenant->usage.open--;
	cell->usage.open--;
	if (conn->is_admitted) {
		cell->tenant->usage.tunnels--;
		cell->usage.tunnels--;
	}
	LIST_REMOVE(conn, entry);
	free(conn);
	cells_resume(cell->egress);
}

/* Neither end may take what it has got for the whole. */
void conn_abort(struct conn *conn)
{
	const struct linger reset = {.l_onoff = 1, .l_linger = 0};

	for (unsigned i = 0; i < CONN_DIRECTIONS; i++)
		if (conn->fds[i] >= 0)
			setsockopt(conn->fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	conn_end(conn);
}

/* Ends the measurement, and leaves errno(3) as the call did. */
static ssize_t charge(struct conn *conn, ssize_t result)
{
	int error = errno;

	cell_calls_ended(conn->cell);
	errno = error;
	return result;
}

ssize_t conn_recv(struct conn *conn, int fd, void *data, size_t size, int flags)
{
	wake_cost_begin();
	return charge(conn, recv(fd, data, size, flags | MSG_DONTWAIT));
}

ssize_t conn_send(struct conn *conn, int fd, const void *data, size_t len)
{
	wake_cost_begin();
	return charge(conn, send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT));
}

void conn_shut_down(struct conn *conn, int fd)
{
	wake_cost_begin();
	(void)charge(conn, shutdown(fd, SHUT_WR));
}

ssize_t conn_read_client(struct conn *conn, size_t max)
{
	struct byte_queue *queue = &conn->ways[CONN_OUT].pending;
	char *space;
	ssize_t n;

	if (queue->len >= max) {
		errno = EMSGSIZE;
		return -1;
	}
	max -= queue->len;
	if (max > 4096)
		max = 4096;
	if (byte_queue_reserve(queue, max, &space) < 0) {
		errno = ENOMEM;
		return -1;
	}
	n = conn_recv(conn, conn->fds[CONN_OUT], space, max, 0);
	byte_queue_commit(queue, n > 0 ? (size_t)n : 0);
	return n;
}

bool conn_answer(struct conn *conn, const void *data, size_t len)
{
	return conn_send(conn, conn->fds[CONN_OUT], data, len) == (ssize_t)len;
}
