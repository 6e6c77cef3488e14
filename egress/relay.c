// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress. Copies bytes between a client and its host, either way. Nothing is held:
 * bytes stay in the receiving socket until the sending one has taken them, so that a slow reader
 * slows its writer, and an idle or stuck connection costs no memory for data. MSG_TRUNC of tcp(7).
 */
#include "common/monotonic.h"
#include "egress/conn_state.h"

#include <errno.h>
#include <event2/event.h>
#include <sys/socket.h>

#define CHUNK (64 * KIB)
/* Of one way of a tenant's relays in a turn of the loop; of one relay at least, and at most. */
#define TURN_BYTES       (1 * MIB)
#define TURN_BYTES_LEAST (16 * KIB)
#define TURN_BYTES_MOST  (256 * KIB)

static char chunk[CHUNK];

static void on_turn_over(evutil_socket_t fd, short what, void *context)
{
	struct egress *egress = context;

	(void)fd;
	(void)what;
	egress->turn++;
}

/* What is made ready within a turn comes behind all that was ready before. */
static void mark_turn(struct egress *egress)
{
	if (!event_initialized(&egress->turn_over))
		evtimer_assign(&egress->turn_over, egress->base, on_turn_over, egress);
	event_active(&egress->turn_over, EV_TIMEOUT, 0);
}

/* A tenant with many busy connections must not make each turn of the loop long for the others. */
size_t conn_share_of_turn(struct conn *conn)
{
	struct egress *egress = conn->cell->egress;
	struct tenant *tenant = conn->cell->tenant;
	unsigned busy;
	size_t share;

	mark_turn(egress);
	if (tenant->turn != egress->turn) {
		tenant->turn = egress->turn;
		tenant->n_busy_before = tenant->n_busy;
		tenant->n_busy = 0;
	}
	tenant->n_busy++;
	busy = tenant->n_busy > tenant->n_busy_before ? tenant->n_busy : tenant->n_busy_before;
	share = TURN_BYTES / busy;
	return share < TURN_BYTES_LEAST  ? TURN_BYTES_LEAST
	       : share > TURN_BYTES_MOST ? TURN_BYTES_MOST
					 : share;
}

uint64_t conn_allowance(
	struct conn *conn, enum conn_direction way, uint64_t now, const char **ret_key)
{
	const struct cell *cell = conn->cell;
	const struct egress_tenant *policy = cell->tenant->policy;
	uint64_t of_tenant, of_cell, limit;

	*ret_key = way == CONN_IN ? "egress_bytes_in" : "egress_bytes_out";
	if (!policy)
		return 0;
	limit = way == CONN_IN ? policy->bytes_in : policy->bytes_out;
	if (limit == 0)
		return UINT64_MAX;
	of_tenant = (way == CONN_IN ? usage_left_in : usage_left_out)(
		&conn->cell->tenant->usage, limit, now);
	of_cell = (way == CONN_IN ? usage_left_in : usage_left_out)(
		&conn->cell->usage, cell_share(cell, limit), now);
	return of_tenant < of_cell ? of_tenant : of_cell;
}

void conn_count(struct conn *conn, enum conn_direction way, uint64_t n)
{
	struct usage *tenant = &conn->cell->tenant->usage, *cell = &conn->cell->usage;

	conn->ways[way].bytes += n;
	if (way == CONN_IN) {
		tenant->bytes_in += n;
		cell->bytes_in += n;
	} else {
		tenant->bytes_out += n;
		cell->bytes_out += n;
	}
}

static ssize_t send_some(struct conn *conn, enum conn_direction way, const void *data, size_t n)
{
	ssize_t sent = conn_send(conn, conn->fds[!way], data, n);

	return sent < 0 ? -errno : sent;
}

/* Sends what was read before the relay began. Returns 1 if all is sent, -EAGAIN, or -errno. */
static int send_pending(struct conn *conn, enum conn_direction way, uint64_t left)
{
	struct byte_queue *pending = &conn->ways[way].pending;

	while (pending->len > 0) {
		struct text bytes = byte_queue_peek(pending);
		ssize_t n;

		if (left == 0)
			return -EDQUOT;
		n = send_some(conn, way, bytes.data, bytes.len < left ? bytes.len : left);
		if (n < 0)
			return (int)n;
		conn_count(conn, way, (uint64_t)n);
		left -= (uint64_t)n;
		byte_queue_consume(pending, (size_t)n);
	}
	byte_queue_free(pending);
	return 1;
}

/*
 * Copies at most @most bytes. Returns 1; 0 at the end; -EAGAIN with is_blocked set or not; or
 * -errno.
 */
static int copy_chunk(struct conn *conn, enum conn_direction way, uint64_t left, size_t most)
{
	int from = conn->fds[way];
	ssize_t n, sent;

	if (most > CHUNK)
		most = CHUNK;
	n = conn_recv(conn, from, chunk, left < most ? left + 1 : most, MSG_PEEK);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	if (left == 0)
		return -EDQUOT;
	if ((uint64_t)n > left)
		n = (ssize_t)left;
	sent = send_some(conn, way, chunk, (size_t)n);
	if (sent < 0) {
		conn->ways[way].is_blocked = sent == -EAGAIN;
		return (int)sent;
	}
	conn_count(conn, way, (uint64_t)sent);
	n = conn_recv(conn, from, chunk, (size_t)sent, MSG_TRUNC);
	return n == sent ? 1 : n < 0 ? -errno : -EIO;
}

/* Carries what there is, up to @share. Returns 0, or -errno if the connection cannot go on. */
static int carry(struct conn *conn, enum conn_direction way, size_t share)
{
	struct conn_way *state = &conn->ways[way];
	uint64_t end = state->bytes + share;
	int r = 1;

	if (state->is_over)
		return 0;
	state->is_blocked = false;
	while (r > 0 && state->bytes < end) {
		uint64_t now = monotonic_ms(), left = conn_allowance(conn, way, now, &conn->limit);

		r = state->pending.len > 0
			    ? send_pending(conn, way, left)
			    : copy_chunk(conn, way, left, (size_t)(end - state->bytes));
		if (r == -EAGAIN && state->pending.len > 0)
			state->is_blocked = true;
		if (r > 0)
			conn->active_ms = now;
	}
	if (r == 0) {
		state->is_over = true;
		conn_shut_down(conn, conn->fds[!way]);
	}
	return r == -EAGAIN || r == -EINTR || r >= 0 ? 0 : r;
}

/* A socket is read while its receiver takes bytes, and written when that one waits for it. */
static short wanted_direction_events(const struct conn *conn, enum conn_direction reads)
{
	const struct conn_way *out = &conn->ways[reads], *in = &conn->ways[!reads];
	bool read = !out->is_over && !out->is_blocked;
	bool write = !in->is_over && in->is_blocked;

	return (short)((read ? EV_READ : 0) | (write ? EV_WRITE : 0));
}

void conn_relay(struct conn *conn)
{
	size_t share = conn_share_of_turn(conn);
	int out = conn->ready & 1U << CONN_OUT ? carry(conn, CONN_OUT, share) : 0;
	int in = out == 0 && conn->ready & 1U << CONN_IN ? carry(conn, CONN_IN, share) : 0;

	if (out == -EDQUOT || in == -EDQUOT) {
		conn->reason = EGRESS_LIMIT;
		conn_abort(conn);
	} else if (out < 0 || in < 0) {
		conn_abort(conn);
	} else if (conn->ways[CONN_OUT].is_over && conn->ways[CONN_IN].is_over) {
		conn_end(conn);
	} else {
		conn_watch_client(conn, wanted_direction_events(conn, CONN_OUT));
		conn_watch_remote(conn, wanted_direction_events(conn, CONN_IN));
	}
}

void conn_check_idle(struct conn *conn)
{
	uint64_t idle = monotonic_ms() - conn->active_ms;

	if (idle < LIMIT_EGRESS_IDLE_MS) {
		conn_enter(conn, conn->state, (unsigned)(LIMIT_EGRESS_IDLE_MS - idle));
		return;
	}
	conn->reason = EGRESS_LIMIT;
	conn_abort(conn);
}
