// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress. From a host's name to a connection: the rules, then the name's
 * addresses, and of these only those that are permitted. What is checked is the socket address that
 * connect(2) gets.
 */
#include "common/cleanup.h"
#include "common/monotonic.h"
#include "egress/conn_state.h"
#include "egress/protocol/http_head.h"
#include "egress/protocol/socks.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

static const struct text none;

/* Returns NULL, or the key whose limit is reached. */
static const char *reached_limit(struct conn *conn, const struct egress_tenant *policy)
{
	struct usage *tenant = &conn->cell->tenant->usage, *cell = &conn->cell->usage;
	uint64_t now = monotonic_ms(), connections = policy->connections;
	uint64_t lookups = connections > 0 ? connections : conn->cell->egress->max_open;

	/* What is beyond the workspace's share takes nothing from the tenant's other workspaces. */
	if (!usage_attempt(cell, cell_share(conn->cell, policy->connect_rate), now) ||
		!usage_attempt(tenant, policy->connect_rate, now))
		return "egress_connect_rate";
	if (connections > 0 && (tenant->tunnels >= connections ||
				       cell->tunnels >= cell_share(conn->cell, connections)))
		return "egress_connections";
	/* Those that ended before their look-up: its memory is in use until the look-up ends. */
	if (tenant->left >= lookups || cell->left >= cell_share(conn->cell, lookups))
		return "egress_connections";
	if (usage_left_in(tenant, policy->bytes_in, now) == 0 ||
		usage_left_in(cell, cell_share(conn->cell, policy->bytes_in), now) == 0)
		return "egress_bytes_in";
	if (usage_left_out(tenant, policy->bytes_out, now) == 0 ||
		usage_left_out(cell, cell_share(conn->cell, policy->bytes_out), now) == 0)
		return "egress_bytes_out";
	return NULL;
}

static void connect_to(struct conn *conn, const struct host *host, uint16_t port);

static void on_addresses(void *context, const struct sockaddr_storage *addresses, size_t n);

/* Judges the host by the rules. Returns false if it was refused. */
static bool judge_upstream(struct conn *conn, const struct egress_tenant *policy)
{
	struct cell *cell = conn->cell;
	struct verdict verdict = {.any_protocol = true};
	struct sockaddr_storage address;
	const char *limit;
	socklen_t len;

	/* secret_judge() has allowed a secret's host. */
	if (!conn->secret)
		verdict = rules_judge(&policy->allow, &policy->deny,
			cell->is_narrowed ? &cell->narrowed : NULL, &conn->host, conn->port);
	if (verdict.reason != 0) {
		conn_refuse(
			conn, verdict.reason, verdict.rule ? verdict.rule->written : NULL, none);
		return false;
	}
	limit = reached_limit(conn, policy);
	if (limit) {
		conn->limit = limit;
		conn_refuse(conn, EGRESS_LIMIT, limit, none);
		return false;
	}
	/* A transparent connection to port 443 was named by its ClientHello. */
	conn->any_protocol =
		verdict.any_protocol || policy->sni_off || conn->via == EGRESS_VIA_TRANSPARENT;
	if (conn->port == 443 && conn->via == EGRESS_VIA_HTTP && !conn->any_protocol) {
		conn_refuse(conn, EGRESS_SNI_MISMATCH, NULL, none);
		return false;
	}
	address = host_address(&conn->host, conn->port, &len);
	if (len > 0 && !address_permitted((struct sockaddr *)&address, &policy->private)) {
		conn_refuse(conn, EGRESS_PRIVATE_ADDRESS, conn->host.text, none);
		return false;
	}
	return true;
}

void conn_open(struct conn *conn)
{
	const struct egress_tenant *policy = conn->cell->tenant->policy;

	if (!policy) {
		conn_refuse(conn, EGRESS_NOT_ALLOWED, NULL, none);
		return;
	}
	if (!judge_upstream(conn, policy))
		return;
	conn->is_admitted = true;
	conn->cell->tenant->usage.tunnels++;
	conn->cell->usage.tunnels++;
	conn->by_upstream = policy->has_upstream;
	conn->attempt = calloc(1, sizeof(*conn->attempt));
	if (!conn->attempt)
		conn_abort(conn);
	else if (conn->by_upstream)
		connect_to(conn, &policy->upstream, policy->upstream_port);
	else
		connect_to(conn, &conn->host, conn->port);
}

static void connect_to(struct conn *conn, const struct host *host, uint16_t port)
{
	struct conn_attempt *attempt = conn->attempt;
	socklen_t len;

	attempt->addresses[0] = host_address(host, port, &len);
	if (len > 0) {
		attempt->n = 1;
		conn_try_next(conn);
		return;
	}
	conn_enter(conn, CONN_RESOLVING, LIMIT_EGRESS_CONNECT_MS);
	conn->query = resolver_ask(conn->cell->egress->resolver, host, port, on_addresses, conn);
	if (!conn->query)
		conn_refuse(conn, EGRESS_DNS_FAILED, NULL, none);
}

static void on_addresses(void *context, const struct sockaddr_storage *addresses, size_t n)
{
	struct conn *conn = context;

	conn->query = NULL;
	memcpy(conn->attempt->addresses, addresses, n * sizeof(*addresses));
	conn->attempt->n = n;
	conn_be_resolved(conn);
}

void conn_leave_query(struct conn *conn)
{
	struct cell *cell = conn->cell;

	resolver_leave(TAKE_PTR(conn->query), &cell->tenant->usage.left, &cell->usage.left);
}

void conn_be_resolved(struct conn *conn)
{
	if (conn->attempt->n == 0)
		conn_refuse(conn, EGRESS_DNS_FAILED, NULL, none);
	else
		conn_try_next(conn);
}

/* The upstream is root's choice; what it may connect to, it decides. */
static bool is_permitted(const struct conn *conn, const struct sockaddr *address)
{
	const struct egress_tenant *policy = conn->cell->tenant->policy;

	return policy && (conn->by_upstream || address_permitted(address, &policy->private));
}

/* Whether the address that was connected to is one that may be. */
static bool peer_is_permitted(const struct conn *conn)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);

	return !conn->is_connected ||
	       getpeername(conn->fds[CONN_IN], (struct sockaddr *)&address, &len) < 0 ||
	       is_permitted(conn, (struct sockaddr *)&address);
}

/* Judges again a connection that was admitted. Returns 0 or what it would be refused for now. */
static uint8_t judge_again(const struct conn *conn, const char **ret_rule)
{
	const struct cell *cell = conn->cell;
	const struct egress_tenant *policy = cell->tenant->policy;
	struct verdict verdict;

	*ret_rule = NULL;
	if (!policy)
		return EGRESS_NOT_ALLOWED;
	verdict = conn->secret ? conn_judge_secret(conn)
			       : rules_judge(&policy->allow, &policy->deny,
					 cell->is_narrowed ? &cell->narrowed : NULL, &conn->host,
					 conn->port);
	*ret_rule = verdict.rule ? verdict.rule->written : NULL;
	if (verdict.reason != 0)
		return (uint8_t)verdict.reason;
	/* Nothing has seen what it speaks. */
	if (!conn->secret && conn->port == 443 && conn->any_protocol &&
		conn->via != EGRESS_VIA_TRANSPARENT && !verdict.any_protocol && !policy->sni_off)
		return EGRESS_SNI_MISMATCH;
	return peer_is_permitted(conn) ? 0 : EGRESS_PRIVATE_ADDRESS;
}

void conn_renew(struct conn *conn)
{
	const char *rule;
	uint8_t reason;

	if (!conn->is_admitted || conn->state == CONN_REFUSING || conn->state == CONN_LINGERING)
		return;
	reason = judge_again(conn, &rule);
	if (reason == 0)
		return;
	if (conn->state != CONN_RELAYING && conn->ways[CONN_IN].bytes == 0) {
		conn_refuse(conn, reason, rule, none);
		return;
	}
	/* In a tunnel, or behind a part of an answer, a refusal would be read as more of it. */
	conn->reason = reason;
	conn_tell_refusal(conn, rule, none);
	conn_abort(conn);
}

/*
 * A host far away needs the large buffers that the kernel makes where much comes fast. Some
 * connections of a tenant may have them, and of these a workspace its share.
 */
static bool may_be_wide(const struct cell *cell)
{
	return cell->tenant->usage.tunnels <= LIMIT_EGRESS_WIDE &&
	       cell->usage.tunnels <= cell_share(cell, LIMIT_EGRESS_WIDE);
}

/* Begins to connect. Returns false if that has failed already. */
static bool begin_to_connect(struct conn *conn, const struct sockaddr *address)
{
	socklen_t len = address->sa_family == AF_INET ? sizeof(struct sockaddr_in)
						      : sizeof(struct sockaddr_in6);
	int one = 1;

	conn->fds[CONN_IN] =
		socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (conn->fds[CONN_IN] < 0)
		return false;
	setsockopt(conn->fds[CONN_IN], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (!may_be_wide(conn->cell))
		socket_bound_buffers(conn->fds[CONN_IN]);
	if (connect(conn->fds[CONN_IN], address, len) < 0 && errno != EINPROGRESS)
		return false;
	conn_enter(conn, CONN_CONNECTING, LIMIT_EGRESS_CONNECT_MS);
	conn_watch_remote(conn, EV_WRITE);
	return true;
}

void conn_try_next(struct conn *conn)
{
	struct conn_attempt *attempt = conn->attempt;

	conn_watch_remote(conn, 0);
	close_fd(&conn->fds[CONN_IN]);
	/* What an upstream has said at one address is no part of what it says at the next. */
	byte_queue_free(&conn->ways[CONN_IN].pending);
	while (attempt->next < attempt->n) {
		const struct sockaddr *address =
			(struct sockaddr *)&attempt->addresses[attempt->next++];

		if (!is_permitted(conn, address)) {
			attempt->found_refused = true;
			continue;
		}
		attempt->has_tried = true;
		if (begin_to_connect(conn, address))
			return;
		close_fd(&conn->fds[CONN_IN]);
	}
	if (attempt->found_refused && !attempt->has_tried)
		conn_refuse(conn, EGRESS_PRIVATE_ADDRESS, NULL, none);
	else
		conn_refuse(conn, EGRESS_UPSTREAM_FAILED, NULL, none);
}

bool conn_answer_tunnel(struct conn *conn)
{
	static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	uint8_t reply[SOCKS_REPLY_BYTES];

	socks_reply_put(SOCKS_OK, reply);
	if (conn->via == EGRESS_VIA_CONNECT)
		return conn_answer(conn, established, strlen(established));
	return conn->via != EGRESS_VIA_SOCKS || conn_answer(conn, reply, sizeof(reply));
}

/* Sends the answer that a client waits for before it goes on. */
static bool answer_client(struct conn *conn)
{
	conn->is_told = true;
	return conn_answer_tunnel(conn);
}

/* The host is reached. */
static void begin_upstream(struct conn *conn)
{
	free(TAKE_PTR(conn->attempt));
	conn->is_connected = true;
	if (conn->secret) {
		conn_begin_tls(conn);
	} else if (!answer_client(conn)) {
		conn_abort(conn);
	} else if (conn->port == 443 && !conn->any_protocol) {
		conn_watch_remote(conn, 0);
		conn_enter(conn, CONN_HELLO, LIMIT_EGRESS_HEAD_MS);
		conn_watch_client(conn, EV_READ);
		if (conn->ways[CONN_OUT].pending.len > 0)
			conn_read_hello(conn);
	} else {
		conn_begin_relay(conn);
	}
}

static bool ask_upstream(struct conn *conn)
{
	bool ipv6 = conn->host.kind == HOST_IPV6;
	const char *open = ipv6 ? "[" : "", *close = ipv6 ? "]" : "";
	char head[2 * LIMIT_EGRESS_HOST_BYTES + 80];
	int n = snprintf(head, sizeof(head),
		"CONNECT %s%s%s:%u HTTP/1.1\r\nHost: %s%s%s:%u\r\n\r\n", open, conn->host.text,
		close, conn->port, open, conn->host.text, close, conn->port);

	return send(conn->fds[CONN_IN], head, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) == n;
}

void conn_be_connected(struct conn *conn)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(conn->fds[CONN_IN], SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error != 0 ||
		(conn->by_upstream && !ask_upstream(conn))) {
		conn_try_next(conn);
	} else if (!conn->by_upstream) {
		begin_upstream(conn);
	} else {
		conn->seen = 0;
		conn_enter(conn, CONN_UPSTREAM, LIMIT_EGRESS_CONNECT_MS);
		conn_watch_remote(conn, EV_READ);
	}
}

/* Whether the upstream's answer, of @len bytes, begins with "HTTP/1.x 2". */
static bool is_success(struct text head)
{
	return head.len > 10 && memcmp(head.data, "HTTP/1.", 7) == 0 && head.data[8] == ' ' &&
	       head.data[9] == '2';
}

void conn_read_upstream(struct conn *conn)
{
	struct byte_queue *pending = &conn->ways[CONN_IN].pending;
	struct text bytes;
	char *space;
	size_t end;
	ssize_t n;

	if (pending->len >= LIMIT_EGRESS_HEAD_BYTES ||
		byte_queue_reserve(pending, 4096, &space) < 0) {
		conn_refuse(conn, EGRESS_UPSTREAM_FAILED, "egress_upstream", none);
		return;
	}
	n = recv(conn->fds[CONN_IN], space, 4096, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return;
	byte_queue_commit(pending, n > 0 ? (size_t)n : 0);
	bytes = byte_queue_peek(pending);
	end = http_head_end(bytes, conn->seen);
	conn->seen = bytes.len;
	if (n <= 0 || (end > 0 && !is_success(bytes))) {
		byte_queue_free(pending);
		conn_refuse(conn, EGRESS_UPSTREAM_FAILED, "egress_upstream", none);
	} else if (end > 0) {
		byte_queue_consume(pending, end);
		begin_upstream(conn);
	}
}

void conn_begin_relay(struct conn *conn)
{
	conn->active_ms = monotonic_ms();
	conn_enter(conn, CONN_RELAYING, LIMIT_EGRESS_IDLE_MS);
	/* The host may have spoken first. */
	conn->ready = 1U << CONN_IN;
	if (conn->ways[CONN_OUT].pending.len > 0)
		conn->ready |= 1U << CONN_OUT;
	conn_relay(conn);
}
