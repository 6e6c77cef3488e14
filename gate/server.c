// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate. libmicrohttpd parses what strangers send, and TLS is GnuTLS's. A request
 * waits by suspending its connection: for its face's answer, for its face to take more of the body,
 * and for the face to write more. libmicrohttpd does not look at a suspended connection, so an
 * event of our own tells when its client closes.
 */
#include "gate/server.h"

#include "common/cleanup.h"
#include "gate/face.h"
#include "gate/gate.h"
#include "gate/gate_config.h"
#include "gate/keys.h"
#include "gate/listener.h"
#include "gate/request_state.h"
#include "gate/tls_pump.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>

/*
 * libmicrohttpd 0.9 does not tell that a closed connection, which was upgraded and has TLS, is not
 * over. So while there is one it has several turns each time, and some without an event.
 */
#define CLOSING_TURNS 16
#define CLOSING_MS    10

struct gate_daemon {
	struct MHD_Daemon *mhd;
	struct event *readable, *timer;
	unsigned n_conns;
	unsigned n_closing; /* upgraded connections with TLS that are closed and not over */
	bool is_old;        /* another has a later certificate: it ends with its last connection */
};

struct gate_server {
	struct gate *gate;
	struct gate_daemon *plain;
	struct gate_daemon *tls; /* with the present certificate; NULL: TLS is not spoken */
	LIST_HEAD(, gate_request) requests;
	struct gate_conn *accepted; /* while MHD_add_connection() takes it */
};

static bool is_reset(int fd)
{
	struct pollfd socket = {.fd = fd};

	return poll(&socket, 1, 0) > 0 && (socket.revents & POLLERR);
}

/*
 * The client has said all, and left or will say no more. libmicrohttpd, whose watch is
 * edge-triggered, overlooks an end that came with the last bytes; it looks again at a connection
 * that is resumed. libevent tells a reset as EV_READ, without EV_CLOSED; so does what the client
 * says beyond its request, which stays in the socket: this watch is edge-triggered too.
 */
static void on_gone(evutil_socket_t fd, short what, void *context)
{
	struct gate_request *request = context;

	if (!(what & EV_CLOSED)) {
		if (request->suspended && is_reset(fd))
			request_lose(request);
		return;
	}
	if (request->suspended && request->body_over) {
		request_lose(request);
	} else if (!request->suspended) {
		MHD_suspend_connection(request->mhd);
		MHD_resume_connection(request->mhd);
		event_active(request->conn->daemon->readable, EV_READ, 0);
	}
}

/* Waits until request_wake(): the last that a callback of libmicrohttpd does. */
static void request_wait(struct gate_request *request)
{
	request->suspended = true;
	MHD_suspend_connection(request->mhd);
	event_add(&request->gone, NULL);
}

void request_wake(struct gate_request *request)
{
	if (!request->suspended)
		return;
	request->suspended = false;
	if (request->body_over)
		event_del(&request->gone);
	MHD_resume_connection(request->mhd);
	event_active(request->conn->daemon->readable, EV_READ, 0);
}

void request_lose(struct gate_request *request)
{
	if (request->lost)
		return;
	request->lost = true;
	request->gate->counts[GATE_REQUESTS_LOST]++;
	if (request->socket.handle && !request->socket.is_closed) {
		request->upgrade_lost(&request->socket, request->upgrade_context);
		/* The rest of the answer would wait for the client. */
		shutdown(request->conn->fd, SHUT_RDWR);
		return;
	}
	/* Also one that is in the midst of sending, to a client that does not read. */
	shutdown(request->conn->fd, SHUT_RDWR);
	request_wake(request);
}

static void close_upgraded(struct gate_socket *socket)
{
	MHD_upgrade_action(socket->handle, MHD_UPGRADE_ACTION_CLOSE);
	event_active(socket->request->conn->daemon->readable, EV_READ, 0);
}

/* The client has what was written, or takes no more. */
static void on_pumped(void *context)
{
	struct gate_socket *socket = context;

	tls_pump_free(TAKE_PTR(socket->pump));
	socket->request->conn->daemon->n_closing++;
	close_upgraded(socket);
}

void gate_socket_close(struct gate_socket *socket)
{
	if (socket->is_closed)
		return;
	socket->is_closed = true;
	if (!socket->pump) {
		close_upgraded(socket);
		return;
	}
	close_fd(&socket->fd);
	tls_pump_finish(socket->pump, socket->request->gate->config->idle_ms, on_pumped, socket);
}

void gate_server_check_keys(struct gate *gate)
{
	struct gate_request *request, *next;

	for (request = LIST_FIRST(&gate->server->requests); request; request = next) {
		next = LIST_NEXT(request, entry);
		if (request->key ? gate_keys_allow(gate->keys, request->key)
				 : !request->token_key.id[0] ||
					   gate_keys_allow(gate->keys, &request->token_key))
			continue;
		gate->counts[GATE_REQUESTS_REVOKED]++;
		request_lose(request);
	}
}

/* Sends what its face has written. */
static ssize_t on_read(void *context, uint64_t pos, char *buffer, size_t max)
{
	struct gate_request *request = context;
	int n;

	(void)pos;
	if (request->lost || request->answer == GATE_ANSWER_ABORTED)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	n = evbuffer_remove(request->out, buffer, max);
	if (n > 0) {
		request->gate->counts[GATE_BYTES_OUT] += (uint64_t)n;
		if (request->was_full && request->on_room &&
			evbuffer_get_length(request->out) <= LIMIT_GATE_QUEUE_BYTES / 2) {
			request->was_full = false;
			request->on_room(request);
		}
		return n;
	}
	if (request->answer == GATE_ANSWER_ENDED)
		return MHD_CONTENT_READER_END_OF_STREAM;
	request_wait(request);
	return 0;
}

/* In place of libmicrohttpd's own socket. */
static int start_pump(struct gate_socket *socket)
{
	const struct gate_request *request = socket->request;
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);

	return tls_pump_new(request->gate->base, info->tls_session, request->conn->fd,
		&socket->pump, &socket->fd);
}

static void on_upgraded(void *context, struct MHD_Connection *connection, void *request_context,
	const char *first, size_t first_len, MHD_socket fd,
	struct MHD_UpgradeResponseHandle *handle)
{
	struct gate_request *request = context;
	int one = 1;

	(void)connection;
	(void)request_context;
	evutil_make_socket_nonblocking(fd);
	/* libmicrohttpd has taken that back. */
	(void)setsockopt(request->conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	request->socket = (struct gate_socket){.request = request, .handle = handle, .fd = fd};
	if (fd != request->conn->fd && start_pump(&request->socket) < 0) {
		request->lost = request->socket.is_closed = true;
		on_pumped(&request->socket);
		return;
	}
	request->take(&request->socket, (struct text){first, first_len}, request->upgrade_context);
	/* The key was revoked meanwhile. */
	if (request->lost && !request->socket.is_closed)
		request->upgrade_lost(&request->socket, request->upgrade_context);
}

/* Whether the client asked for the protocol, and its connection may become that. */
static bool wants_upgrade(const struct gate_request *request)
{
	const char *upgrade = gate_request_header(request, "Upgrade");
	const char *connection = gate_request_header(request, "Connection");

	return upgrade && strcasecmp(upgrade, request->protocol) == 0 && connection &&
	       strcasestr(connection, "upgrade") && strcmp(request->head.version, "HTTP/1.1") == 0;
}

static struct MHD_Response *make_response(struct gate_request *request)
{
	size_t len = evbuffer_get_length(request->out);
	/* The answer to HEAD has the length of a body that does not come. */
	bool is_whole = request->answer == GATE_ANSWER_ENDED && len <= LIMIT_GATE_QUEUE_BYTES &&
			(request->len == GATE_UNKNOWN || request->len == len);

	if (is_whole) {
		request->gate->counts[GATE_BYTES_OUT] += len;
		return MHD_create_response_from_buffer(len,
			len > 0 ? evbuffer_pullup(request->out, -1) : NULL, MHD_RESPMEM_MUST_COPY);
	}
	return MHD_create_response_from_callback(
		request->len == GATE_UNKNOWN ? MHD_SIZE_UNKNOWN : request->len,
		request->len == GATE_UNKNOWN ? LIMIT_GATE_BLOCK_BYTES : LIMIT_GATE_BIG_BLOCK_BYTES,
		on_read, request, NULL);
}

static bool is_relayed(const struct gate_request *request)
{
	return request->route && request->route->relayed;
}

/* A page of another origin may read the answer if the configuration names the origin. */
static void add_origin(struct gate_request *request, struct MHD_Response *response)
{
	const char *origin = gate_request_header(request, "Origin");

	if (!origin || is_relayed(request))
		return;
	MHD_add_response_header(response, "Access-Control-Allow-Origin", origin);
	MHD_add_response_header(response, "Access-Control-Expose-Headers", "*");
	MHD_add_response_header(response, "Vary", "Origin");
}

/* Gives the answer to libmicrohttpd. */
static enum MHD_Result queue(struct gate_request *request, bool close)
{
	struct MHD_Response *response;
	enum MHD_Result result;

	if (request->protocol && !wants_upgrade(request)) {
		gate_answer_header(request, "Upgrade", request->protocol);
		request->protocol = NULL;
		request->answer = GATE_ANSWER_NONE;
		gate_answer_error(request, 426, "this path needs an Upgrade");
	}
	if (request->answer == GATE_ANSWER_ABORTED)
		return MHD_NO;
	response = request->protocol ? MHD_create_response_for_upgrade(on_upgraded, request)
				     : make_response(request);
	if (!response)
		return MHD_NO;
	if (request->protocol)
		MHD_add_response_header(response, "Upgrade", request->protocol);
	for (size_t i = 0; i < request->n_headers; i++)
		MHD_add_response_header(
			response, request->headers[i].name, request->headers[i].value);
	if (!is_relayed(request))
		MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	add_origin(request, response);
	/*
	 * Behind a proxy, whose clients share a connection, nothing is read behind a request: what
	 * the proxy took for a part of one client's request is never another's.
	 */
	if (!request->protocol &&
		(close || request->closes || request->gate->config->tls == GATE_TLS_PROXY))
		MHD_add_response_header(response, "Connection", "close");
	request->response = response;
	result = MHD_queue_response(request->mhd, request->status, response);
	MHD_destroy_response(response);
	return result;
}

/* Answers before the body has come, which is not read: the connection ends. */
static enum MHD_Result refuse_gate_request(
	struct gate_request *request, unsigned status, const char *message)
{
	request->gate->counts[GATE_HEADS_REFUSED]++;
	gate_answer_error(request, status, message);
	return queue(request, true);
}

struct gathering {
	struct gate_request *request;
	size_t n;
};

static enum MHD_Result gather_field(
	void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct gathering *gathering = context;

	(void)kind;
	gathering->request->fields[gathering->n++] = (struct gate_field){name, value ? value : ""};
	return MHD_YES;
}

/* The first line of a head has come: only here libmicrohttpd shows the target as it came. */
static void *on_target(void *context, const char *target, struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct gate_request *request = calloc(1, sizeof(*request));

	if (!request)
		return NULL;
	request->gate = context;
	request->conn = info->socket_context;
	request->mhd = mhd;
	request->target = strdup(target);
	return request;
}

static int request_begin(struct gate_request *request, const char *path)
{
	int n = MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, NULL, NULL);
	struct gathering gathering = {request, 0};

	request->path = strdup(path);
	request->fields = calloc((size_t)n + 1, sizeof(*request->fields));
	if (!request->target || !request->path || !request->fields)
		return -ENOMEM;
	MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, gather_field, &gathering);
	request->begun = true;
	request->peer = request->conn->peer;
	event_assign(&request->gone, request->gate->base, request->conn->fd,
		EV_READ | EV_CLOSED | EV_ET | EV_PERSIST, on_gone, request);
	LIST_INSERT_HEAD(&request->gate->server->requests, request, entry);
	request->gate->requests++;
	request->gate->counts[GATE_REQUESTS]++;
	gate_conn_has_head(request->conn);
	return 0;
}

/* Finds the route. Returns 0, or the status with which there is none. */
static unsigned find_route(struct gate_request *request)
{
	unsigned status = 404;

	for (size_t i = 0; i < gate_faces_count; i++) {
		const struct gate_face *face = gate_faces[i];

		if (face->takes && !face->takes(request))
			continue;
		for (size_t j = 0; j < face->n_routes; j++) {
			const struct gate_route *route = &face->routes[j];
			int r;

			if (route->loopback && !request->conn->is_local)
				continue;
			r = gate_path_match(route->path, request->path, &request->segments);
			if (r < 0)
				return 503;
			if (r > 0 && (strcmp(route->method, "*") == 0 ||
					     strcmp(route->method, request->head.method) == 0)) {
				request->route = route;
				return 0;
			}
			if (r > 0)
				status = 405;
			gate_segments_done(&request->segments);
		}
	}
	return status;
}

/* A browser asks whether a page of another origin may make a request. */
static void answer_preflight(struct gate_request *request)
{
	const char *headers = gate_request_header(request, "Access-Control-Request-Headers");

	gate_answer_header(
		request, "Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE");
	if (headers)
		gate_answer_header(request, "Access-Control-Allow-Headers", headers);
	gate_answer_header(request, "Access-Control-Max-Age", "600");
	gate_answer_bytes(request, 204, "text/plain", TEXT_LITERAL(""));
}

static bool is_preflight(const struct gate_request *request)
{
	return strcmp(request->head.method, "OPTIONS") == 0 &&
	       gate_request_header(request, "Origin") &&
	       gate_request_header(request, "Access-Control-Request-Method");
}

/* Gives the request to its face, or answers in its place; @status: there is no route. */
static void dispatch(struct gate_request *request, unsigned status)
{
	if (!is_relayed(request) && is_preflight(request))
		answer_preflight(request);
	else if (status != 0)
		gate_answer_error(request, status,
			status == 404   ? "there is no such path"
			: status == 405 ? "this path has no such method"
					: "memory is out");
	else if (request->route->access == GATE_ACCESS_KEY && !request_check_key(request))
		gate_request_denied(request);
	else
		request->route->begin(request);
}

/* Whether a body is announced that is too long to be read for nothing. */
static bool is_unwanted(const struct gate_request *request)
{
	const char *length = gate_request_header(request, "Content-Length");

	return gate_request_header(request, "Expect") ||
	       (length && strtoull(length, NULL, 10) > LIMIT_GATE_DROPPED_BYTES);
}

/* The proxy says for whom it speaks. */
static void read_forwarded(struct gate_request *request)
{
	const char *value = gate_request_header(request, "X-Forwarded-For");
	const char *last = value ? strrchr(value, ',') : NULL;

	if (!value || request->gate->config->tls != GATE_TLS_PROXY)
		return;
	last = last ? last + 1 : value;
	(void)gate_peer_parse(last + strspn(last, " \t"), &request->peer);
}

static enum MHD_Result begin_request(struct gate *gate, struct gate_request *request,
	const char *path, const char *method, const char *version)
{
	struct gate_refusal refusal;
	const char *origin;
	unsigned status;

	if (request_begin(request, path) < 0)
		return MHD_NO;
	request->head = (struct gate_head){method, request->target, version, request->fields,
		(size_t)MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, NULL, NULL)};
	if (!gate_head_check(&request->head, &refusal))
		return refuse_gate_request(request, refusal.status, refusal.message);
	if (!gate_host_read(gate_request_header(request, "Host"), &request->host))
		return refuse_gate_request(request, 400, "Host is malformed");
	if (!gate_config_has_host(gate->config, request->host.text))
		return refuse_gate_request(request, 421, "this host is not served here");
	status = find_route(request);
	origin = gate_request_header(request, "Origin");
	if (origin && !is_relayed(request) &&
		!gate_config_has_origin(gate->config, origin, gate_request_header(request, "Host")))
		return refuse_gate_request(request, 403, "this origin may not use the gate");
	read_forwarded(request);
	if (gate_request_header(request, "Content-Length") ||
		gate_request_header(request, "Transfer-Encoding"))
		event_add(&request->gone, NULL);
	dispatch(request, status);
	if (request->answer != GATE_ANSWER_NONE && is_unwanted(request))
		return queue(request, true);
	return MHD_YES;
}

/* Returns how much of @data was taken. */
static size_t collect(struct gate_request *request, struct text data)
{
	if (request->body_bytes > request->route->max_body) {
		request->body = GATE_BODY_DROP;
		gate_answer_error(request, 413, "the body is too long");
	} else if (evbuffer_add(request->in, data.data, data.len) < 0) {
		request->body = GATE_BODY_DROP;
		gate_answer_error(request, 503, "memory is out");
	}
	return data.len;
}

static enum MHD_Result take_body(struct gate_request *request, const char *bytes, size_t *len)
{
	struct text data = {bytes, *len};
	size_t taken = *len;

	request->wants_more = false;
	if (request->body == GATE_BODY_READ && request->answer == GATE_ANSWER_NONE)
		taken = request->reader->data(request, data);
	request->body_bytes += taken;
	request->gate->counts[GATE_BYTES_IN] += taken;
	if (request->body == GATE_BODY_COLLECT)
		(void)collect(request, data);
	if (request->route && request->body == GATE_BODY_READ &&
		request->body_bytes > request->route->max_body)
		gate_answer_error(request, 413, "the body is too long");
	if ((request->body == GATE_BODY_DROP || request->answer != GATE_ANSWER_NONE) &&
		request->body_bytes > LIMIT_GATE_DROPPED_BYTES &&
		request->body_bytes - taken > LIMIT_GATE_DROPPED_BYTES)
		return MHD_NO;
	*len -= taken;
	if (*len > 0 && !request->wants_more)
		request_wait(request);
	return MHD_YES;
}

static void end_body(struct gate_request *request)
{
	if (request->body_over)
		return;
	request->body_over = true;
	event_del(&request->gone);
	if (request->answer != GATE_ANSWER_NONE)
		return;
	if (request->body == GATE_BODY_READ)
		request->reader->end(request);
	else if (request->body == GATE_BODY_COLLECT)
		request->collected(
			request, (struct text){(const char *)evbuffer_pullup(request->in, -1),
					 evbuffer_get_length(request->in)});
}

static enum MHD_Result on_access(void *context, struct MHD_Connection *mhd, const char *path,
	const char *method, const char *version, const char *data, size_t *len,
	void **request_context)
{
	struct gate_request *request = *request_context;

	(void)mhd;
	if (!request)
		return MHD_NO;
	if (!request->begun)
		return begin_request(context, request, path, method, version);
	if (request->lost)
		return MHD_NO;
	if (*len > 0)
		return take_body(request, data, len);
	end_body(request);
	if (request->answer != GATE_ANSWER_NONE)
		return queue(request, false);
	request_wait(request);
	return MHD_YES;
}

static void on_completed(void *context, struct MHD_Connection *mhd, void **request_context,
	enum MHD_RequestTerminationCode why)
{
	struct gate_request *request = *request_context;

	(void)context;
	(void)mhd;
	if (!request)
		return;
	*request_context = NULL;
	if (!request->begun) {
		request_free(request);
		return;
	}
	if (why != MHD_REQUEST_TERMINATED_COMPLETED_OK)
		request->lost = true;
	event_del(&request->gone);
	if (request->socket.handle && request->socket.fd != request->conn->fd)
		request->conn->daemon->n_closing--;
	if (request->on_end)
		request->on_end(request);
	request->gate->requests--;
	LIST_REMOVE(request, entry);
	gate_conn_await(request->conn);
	request_free(request);
}

static void on_connection(void *context, struct MHD_Connection *mhd, void **socket_context,
	enum MHD_ConnectionNotificationCode what)
{
	struct gate_server *server = ((struct gate *)context)->server;

	(void)mhd;
	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		server->accepted->daemon->n_conns++;
		*socket_context = TAKE_PTR(server->accepted);
	} else if (*socket_context) {
		((struct gate_conn *)*socket_context)->daemon->n_conns--;
		gate_conn_free(*socket_context);
		*socket_context = NULL;
	}
}

/* libmicrohttpd would decode the target; route.c does that by segments. */
static size_t keep_escaped(void *context, struct MHD_Connection *mhd, char *text)
{
	(void)context;
	(void)mhd;
	return strlen(text);
}

static void daemon_free(struct gate_daemon *daemon)
{
	if (!daemon)
		return;
	if (daemon->readable)
		event_free(daemon->readable);
	if (daemon->timer)
		event_free(daemon->timer);
	if (daemon->mhd)
		MHD_stop_daemon(daemon->mhd);
	free(daemon);
}

static void run_gate_server(evutil_socket_t fd, short what, void *context)
{
	struct gate_daemon *daemon = context;
	MHD_UNSIGNED_LONG_LONG ms;
	struct timeval wait;

	(void)fd;
	(void)what;
	MHD_run(daemon->mhd);
	for (unsigned i = 1; i < CLOSING_TURNS && daemon->n_closing > 0; i++)
		MHD_run(daemon->mhd);
	if (daemon->is_old && daemon->n_conns == 0) {
		daemon_free(daemon);
		return;
	}
	if (MHD_get_timeout(daemon->mhd, &ms) != MHD_YES)
		ms = UINT64_MAX;
	if (daemon->n_closing > 0 && ms > CLOSING_MS)
		ms = CLOSING_MS;
	if (ms == UINT64_MAX) {
		evtimer_del(daemon->timer);
		return;
	}
	wait = (struct timeval){(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)};
	evtimer_add(daemon->timer, &wait);
}

/* TLS 1.2 and later, and no renegotiation, which GnuTLS leaves to its caller. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

static int daemon_new(
	struct gate *gate, const char *certificate, const char *key, struct gate_daemon **ret)
{
	const unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_UPGRADE |
			       MHD_ALLOW_SUSPEND_RESUME | MHD_USE_PEDANTIC_CHECKS;
	struct gate_daemon *daemon = calloc(1, sizeof(*daemon));
	const union MHD_DaemonInfo *info;
	struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)certificate},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)key},
		{MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_PRIORITIES},
		{MHD_OPTION_END, 0, NULL}};
	struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};

	if (!daemon)
		return -ENOMEM;
	daemon->mhd = MHD_start_daemon(flags | (certificate ? MHD_USE_TLS : 0), 0, NULL, NULL,
		on_access, gate, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)LIMIT_GATE_HEAD_BYTES,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)gate->config->connections,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(gate->config->idle_ms / 1000),
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, gate, MHD_OPTION_NOTIFY_CONNECTION,
		on_connection, gate, MHD_OPTION_UNESCAPE_CALLBACK, keep_escaped, NULL,
		MHD_OPTION_URI_LOG_CALLBACK, on_target, gate, MHD_OPTION_ARRAY,
		certificate ? tls : plain, MHD_OPTION_END);
	if (!daemon->mhd) {
		daemon_free(daemon);
		return -EINVAL;
	}
	info = MHD_get_daemon_info(daemon->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	daemon->readable = event_new(
		gate->base, info->epoll_fd, EV_READ | EV_PERSIST, run_gate_server, daemon);
	daemon->timer = evtimer_new(gate->base, run_gate_server, daemon);
	if (!daemon->readable || !daemon->timer || event_add(daemon->readable, NULL) < 0) {
		daemon_free(daemon);
		return -ENOMEM;
	}
	*ret = daemon;
	return 0;
}

int gate_server_new(struct gate *gate, const char *certificate, const char *key)
{
	struct gate_server *server = calloc(1, sizeof(*server));
	int r;

	if (!server)
		return -ENOMEM;
	server->gate = gate;
	gate->server = server;
	r = daemon_new(gate, NULL, NULL, &server->plain);
	return r == 0 && certificate ? daemon_new(gate, certificate, key, &server->tls) : r;
}

int gate_server_renew(struct gate *gate, const char *certificate, const char *key)
{
	struct gate_daemon *old = gate->server->tls;
	int r = daemon_new(gate, certificate, key, &gate->server->tls);

	if (r < 0)
		return r;
	old->is_old = true;
	event_active(old->readable, EV_READ, 0);
	return 0;
}

static bool take_gate_conn(struct gate *gate, struct gate_conn *conn, bool tls)
{
	struct gate_server *server = gate->server;
	struct gate_daemon *daemon = tls ? server->tls : server->plain;
	struct sockaddr_storage address = {.ss_family = AF_INET};

	server->accepted = conn;
	conn->daemon = daemon;
	if (MHD_add_connection(daemon->mhd, conn->fd, (struct sockaddr *)&address,
		    sizeof(struct sockaddr_in)) == MHD_YES) {
		/* It looks for the first bytes in its next turn. */
		event_active(daemon->readable, EV_READ, 0);
		return true;
	}
	/* It has closed the socket, and has not seen the connection, or has seen its end. */
	if (!server->accepted)
		return true;
	server->accepted = NULL;
	return false;
}

int gate_server_begin(struct gate_listeners *listeners)
{
	return gate_listeners_begin(listeners, take_gate_conn);
}
