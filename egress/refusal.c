// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress. A refusal is told to cloisterd first, so that the answer to the call
 * that met it has it, and then to the client, with what was refused, why, and what is allowed.
 */
#include "common/cleanup.h"
#include "common/egress/secret_line.h"
#include "egress/conn_state.h"
#include "egress/protocol/socks.h"

#include <event2/event.h>
#include <stdio.h>
#include <sys/socket.h>

/* What a reason is to an HTTP client, a SOCKS client and a reader. Index: enum egress_reason. */
static const struct {
	unsigned status;
	uint8_t reply; /* enum socks_reply */
	const char *sentence;
} answers[EGRESS_REASON_END] = {
	[EGRESS_NOT_ALLOWED] = {403, SOCKS_NOT_ALLOWED, "No rule allows this host."},
	[EGRESS_RULE_DENIED] = {403, SOCKS_NOT_ALLOWED, "A rule of egress_deny names this host."},
	[EGRESS_PORT] = {403, SOCKS_NOT_ALLOWED, "This host is allowed, but not this port of it."},
	[EGRESS_PRIVATE_ADDRESS] = {403, SOCKS_NOT_ALLOWED,
		"The host's address is not of the public Internet, and egress_private does not "
		"name "
		"it."},
	[EGRESS_SNI_MISMATCH] = {403, SOCKS_NOT_ALLOWED,
		"On port 443 only TLS for this very host is allowed; a rule that begins with tcp: "
		"allows more."},
	[EGRESS_DNS_FAILED] = {502, SOCKS_HOST_UNREACHABLE, "The host's name has no address."},
	[EGRESS_LIMIT] = {503, SOCKS_FAILED, "A limit is reached."},
	[EGRESS_UPSTREAM_FAILED] = {502, SOCKS_REFUSED,
		"The host is allowed, but did not accept the connection."},
	[EGRESS_BAD_REQUEST] = {400, SOCKS_FAILED, "This is no request that can be passed on."},
	[EGRESS_UNKNOWN_SECRET] = {403, SOCKS_NOT_ALLOWED,
		"No egress_secret of this workspace has this name."},
};

/* A host that could not be parsed, for logs and models: "?" for what is not to be printed, or may
 * end a quotation or a tag. */
static size_t make_printable(struct text named, char ret[LIMIT_EGRESS_HOST_BYTES])
{
	size_t n = named.len < LIMIT_EGRESS_HOST_BYTES ? named.len : LIMIT_EGRESS_HOST_BYTES;

	for (size_t i = 0; i < n; i++) {
		char c = named.data[i];

		ret[i] = c > ' ' && c <= '~' && !strchr("<>\"'`", c) ? c : '?';
	}
	return n;
}

bool conn_tell_refusal(struct conn *conn, const char *rule, struct text named)
{
	struct egress_command *command = cell_command(conn->cell, conn->call);
	char shown[LIMIT_EGRESS_HOST_BYTES];
	struct egress_denied denied = {.call = conn->call,
		.host = host_text(&conn->host),
		.port = conn->port,
		.reason = conn->reason,
		.via = conn->via,
		.rule = rule ? text_from(rule) : (struct text){"", 0}};
	uint8_t bytes[1024];
	struct wire_writer writer = wire_writer(bytes, sizeof(bytes));

	if (conn->host.len == 0)
		denied.host = (struct text){shown, make_printable(named, shown)};
	if (command)
		command->sums.denied++;
	egress_denied_put(&writer, &denied);
	return egress_send(conn->cell->egress, EGRESS_DENIED, conn->cell->number, &writer);
}

void conn_refuse(struct conn *conn, enum egress_reason reason, const char *rule, struct text named)
{
	bool told;

	conn->reason = (uint8_t)reason;
	/* A host that has got nothing is not one that was reached. */
	conn->is_connected &= conn->ways[CONN_OUT].bytes > 0;
	told = conn_tell_refusal(conn, rule, named);
	conn_leave_query(conn);
	conn_watch_remote(conn, 0);
	close_fd(&conn->fds[CONN_IN]);
	conn_watch_client(conn, 0);
	conn_enter(conn, CONN_REFUSING, 0);
	if (told)
		conn_answer_refusal(conn);
	else
		egress_wait(conn->cell->egress, conn);
}

/* Appends the rules to @text, which has @size bytes, as far as they fit. */
static void list_rules(const struct rules *rules, char *text, size_t size)
{
	size_t len = strlen(text), i;

	for (i = 0; i < rules->count && len + strlen(rules->items[i].written) + 40 < size; i++)
		len += (size_t)snprintf(text + len, size - len, " %s", rules->items[i].written);
	if (i < rules->count)
		snprintf(text + len, size - len, " and %zu more", rules->count - i);
	else if (i == 0)
		snprintf(text + len, size - len, " nothing");
}

/* Appends the names that stand for secrets. */
static void list_secrets(const struct secrets *secrets, char *text, size_t size)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < secrets->count && len + LIMIT_EGRESS_HOST_BYTES < size; i++)
		len += (size_t)snprintf(text + len, size - len, " http://%s" SECRET_DOMAIN "/",
			secrets->items[i].name);
}

static const char loopback[] =
	"This is your workspace itself, which the proxy does not reach. Connect to it without the "
	"proxy, as NO_PROXY asks for: curl --noproxy '*', for one.";

static void explain(const struct conn *conn, char *text, size_t size)
{
	const bool is_loopback = conn->host.len > 0 && host_is_loopback(&conn->host);
	const struct egress_tenant *policy = conn->cell->tenant->policy;
	const char *bracket = conn->host.kind == HOST_IPV6 ? "[" : "";
	const char *end = conn->host.kind == HOST_IPV6 ? "]" : "";
	size_t len = (size_t)snprintf(text, size, "cloister refused %s%s%s:%u (%s). %s", bracket,
		conn->host.len ? conn->host.text : "the request", end, conn->port,
		egress_reason_name(conn->reason),
		is_loopback ? loopback : answers[conn->reason].sentence);

	if (conn->limit)
		len += (size_t)snprintf(text + len, size - len, " It is: %s.", conn->limit);
	if (answers[conn->reason].status == 403 && policy && !is_loopback) {
		snprintf(text + len, size - len, "\nAllowed here:");
		list_secrets(&policy->secrets, text, size - 64);
		list_rules(conn->cell->is_narrowed ? &conn->cell->narrowed : &policy->allow, text,
			size - 64);
		len = strlen(text);
		snprintf(text + len, size - len, "\nWho runs this service decides about more.");
	}
	len = strlen(text);
	snprintf(text + len, size - len, "\n");
}

static bool answer_http(struct conn *conn)
{
	char body[LIMIT_EGRESS_SHOWN_BYTES + 1024], head[1024];
	size_t len;
	int n;

	explain(conn, body, sizeof(body));
	len = strlen(body);
	n = snprintf(head, sizeof(head),
		"HTTP/1.1 %u cloister: %s: %s\r\nContent-Type: text/plain\r\n"
		"Content-Length: %zu\r\nX-Cloister-Reason: %s\r\nConnection: close\r\n\r\n",
		answers[conn->reason].status, conn->host.len ? conn->host.text : "request",
		egress_reason_name(conn->reason), len, egress_reason_name(conn->reason));
	return conn_answer(conn, head, (size_t)n) && conn_answer(conn, body, len);
}

/* Before its greeting is answered, a client waits for a method and not for a reply. RFC 1928, 3. */
static bool answer_socks(struct conn *conn)
{
	static const uint8_t no_method[] = {SOCKS_VERSION, SOCKS_NO_METHOD};
	uint8_t reply[SOCKS_REPLY_BYTES];

	if (!conn->is_greeted)
		return conn_answer(conn, no_method, sizeof(no_method));
	socks_reply_put(conn->socks_reply ? conn->socks_reply : answers[conn->reason].reply, reply);
	return conn_answer(conn, reply, sizeof(reply));
}

/* The client was told that it is connected: a TLS alert is what is left. RFC 8446, 6. */
static bool answer_tls(struct conn *conn)
{
	static const uint8_t access_denied[] = {21, 3, 3, 0, 2, 2, 49};

	return conn_answer(conn, access_denied, sizeof(access_denied));
}

void conn_answer_refusal(struct conn *conn)
{
	bool ok = conn->is_told                   ? answer_tls(conn)
		  : conn->via == EGRESS_VIA_SOCKS ? answer_socks(conn)
						  : answer_http(conn);

	byte_queue_free(&conn->ways[CONN_OUT].pending);
	if (!ok) {
		conn_end(conn);
		return;
	}
	/* If it was closed with unread bytes, the kernel would take the refusal from the client. */
	conn_shut_down(conn, conn->fds[CONN_OUT]);
	conn_enter(conn, CONN_LINGERING, LIMIT_EGRESS_LINGER_MS);
	conn_watch_client(conn, EV_READ);
}

void conn_discard(struct conn *conn)
{
	char bytes[4096];
	ssize_t n = conn_recv(conn, conn->fds[CONN_OUT], bytes, sizeof(bytes), MSG_TRUNC);

	if (n == 0 || (n < 0 && errno != EAGAIN))
		conn_end(conn);
}
