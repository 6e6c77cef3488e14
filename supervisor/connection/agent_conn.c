// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The client is hostile: it may send lines of any length, never read, close in
 * the middle, and send descriptors. A line over the limit is refused and skipped without being
 * kept. A client that does not read its answers is not read either. The kernel refuses descriptors
 * (SO_PASSRIGHTS), or another thread closes them (fd_closer.h). unix(7).
 */
#include "supervisor/connection/agent_conn.h"

#include "common/byte_queue.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wake_cost.h"
#include "supervisor/base/fd_closer.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/base/timer.h"
#include "supervisor/base/watch.h"
#include "supervisor/connection/client.h"
#include "supervisor/connection/client_payload.h"
#include "supervisor/connection/client_request.h"
#include "supervisor/connection/endpoint.h"
#include "supervisor/connection/line_id.h"
#include "supervisor/schedule/loop_share.h"

#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/queue.h>
#include <sys/socket.h>

#define READ_TURN_BYTES (64 * KIB) /* read from a connection in one turn of the loop */

#define LINES_A_TURN     16         /* of one connection; then other connections have their turn */
#define SKIP_BYTES       (16 * KIB) /* scanned of a refused line before time is looked at */
#define HANG_UP_CHECK_MS 100 /* how often a client that is not read is checked for being gone */

/*
 * The life of a connection, by its end_of_input, ended and closing:
 *
 *             a line comes   end of input   the session ends it     all is answered  hang-up
 *   OPEN      is acted on    DRAINING       ENDED                   OPEN             CLOSING
 *   DRAINING  is acted on    DRAINING       ENDED                   CLOSING          CLOSING
 *   ENDED     is dropped     ENDED          ENDED                   CLOSING          CLOSING
 *   CLOSING   is dropped     CLOSING        CLOSING                 CLOSING          CLOSING
 *
 * DRAINING: the client has said all that it will, and lines that had come before wait for their
 * turn. CLOSING: the loop frees it when it comes round.
 */
enum skip {
	SKIP_NOTHING,
	SKIP_TOO_LONG,
	SKIP_NO_ROOM, /* requests in flight use all the memory allowed */
};

struct agent_conn {
	LIST_ENTRY(agent_conn) entry;
	struct service *service;
	struct client *client;
	size_t line_bytes;
	size_t *count; /* in the service: number of connections of its kind */
	int fd;
	/* the kernel cannot refuse descriptors: they are received and closed */
	bool takes_fds;
	struct byte_queue input; /* one contiguous block, so that a long line is stored once */
	struct evbuffer *output;
	size_t scanned;         /* bytes of input that are known to hold no newline */
	size_t line;            /* bytes of the line that is handled now, with its newline */
	enum skip skip;         /* the current line is refused and not kept */
	bool told;              /* the refusal has been sent */
	struct line_id line_id; /* finds the id for the refusal */
	bool more;              /* the next turn acts on what is left in the input */
	bool end_of_input;
	bool ended;            /* the session has ended it: further input is ignored */
	size_t counted;        /* bytes of output counted as unread */
	bool full;             /* the client does not read its answers */
	struct wake_cost cost; /* of reading and writing the socket */
	bool dear;             /* it is ended for that */
	bool stalled;          /* full, or there is no room for further answers */
	struct unread_waiter room;
	bool closing;                /* close_soon() was called */
	struct loop_turn_task flush; /* writes the output */
	struct watch readable, writable;
	struct loop_share_task share; /* acts on the input */
	bool ready;                   /* the socket is to be read in its next slice */
	unsigned rested;              /* agent_conns_part() */
	struct timer check;           /* while it is not read: is the client still there? */
	struct event *end; /* frees the connection from the loop, not from inside a callback */
};

static LIST_HEAD(, agent_conn) connections = LIST_HEAD_INITIALIZER(connections);

/* Closing wakes the client too. */
static void close_socket(struct agent_conn *conn)
{
	if (conn->dear) /* told, unless a line was sent in part */
		client_close_dear(conn->client, conn->fd, evbuffer_get_length(conn->output) == 0);
	else if (conn->cost.n_dear > 0)
		fd_closer_end(conn->fd, NULL);
	else if (conn->takes_fds)
		fd_closer_close(conn->fd);
	else
		close(conn->fd);
}

static void conn_free(struct agent_conn *conn)
{
	struct service *service = conn->service;
	size_t *count = conn->count;

	LIST_REMOVE(conn, entry);
	unread_stop_waiting(&conn->room);
	watch_done(&conn->readable);
	watch_done(&conn->writable);
	close_socket(conn);
	client_free(conn->client);
	loop_turn_cancel(&conn->flush);
	loop_share_cancel(&conn->share);
	timer_cancel(&conn->check);
	if (conn->end)
		event_free(conn->end);
	line_id_reset(&conn->line_id);
	byte_queue_free(&conn->input);
	if (conn->output)
		evbuffer_free(conn->output);
	free(conn);
	--*count;
	service->idle(service);
}

static void on_agent_conn_end(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	conn_free(context);
}

static void close_soon(struct agent_conn *conn)
{
	if (conn->closing)
		return;
	conn->closing = true;
	watch_want(&conn->readable, WATCH_NOTHING);
	watch_want(&conn->writable, WATCH_NOTHING);
	timer_cancel(&conn->check);
	loop_turn_cancel(&conn->flush);
	loop_share_cancel(&conn->share);
	event_active(conn->end, EV_TIMEOUT, 0);
}

/*
 * The measured calls have ended. Returns whether the connection is ended because its client makes
 * them too dear.
 */
static bool is_too_dear(struct agent_conn *conn, bool woke)
{
	bool dear = wake_cost_end(&conn->cost, woke);

	if (conn->cost.n_dear == 0 || (!dear && !client_is_of_dear_user(conn->client)))
		return false;
	client_is_dear(conn->client);
	conn->dear = true;
	close_soon(conn);
	return true;
}

/* Whether a line, or a part of one, can be acted on. */
static bool has_lines(const struct agent_conn *conn)
{
	return conn->input.len > (conn->skip == SKIP_NOTHING ? conn->scanned : 0);
}

/* Closes the connection if the client will send no more and everything is answered. */
static void close_if_done(struct agent_conn *conn)
{
	if (conn->end_of_input && client_calls(conn->client) == 0 &&
		evbuffer_get_length(conn->output) == 0 && (conn->ended || !has_lines(conn)))
		close_soon(conn);
}

/*
 * Whether the next line may be handled: the client reads its answers, and not too much is in
 * flight.
 */
static bool may_act(const struct agent_conn *conn)
{
	return !conn->closing && !conn->ended &&
	       unread_may_begin(client_unread(conn->client), LIMIT_UNREAD_LINE_BYTES) &&
	       client_bytes(conn->client) <= LIMIT_PENDING_BYTES;
}

static void act_soon(struct agent_conn *conn)
{
	loop_share_wait(&conn->share, client_share(conn->client));
}

/* cloisterd reads the connection only after handling what has come, because short lines can come
 * faster than it handles them. While a connection is not read for lack of room, cloisterd checks
 * whether its client has hung up. */
static void watch_agent_conn(struct agent_conn *conn)
{
	bool may_read = may_act(conn) && !conn->end_of_input;
	bool read = may_read && !conn->more && !conn->ready;

	watch_want(&conn->readable, read ? WATCH_READABLE : WATCH_NOTHING);
	if (may_read)
		timer_cancel(&conn->check);
	else if (!timer_is_set(&conn->check))
		timer_set(&conn->check, HANG_UP_CHECK_MS);
}

/* Counts the unread output, and stops or resumes the connection. */
static void check_unread(struct agent_conn *conn)
{
	struct unread_account *unread = client_unread(conn->client);
	size_t pending = evbuffer_get_length(conn->output);
	bool stalled;

	unread_recount(unread, &conn->counted, pending);
	/*
	 * Resume when half of it is written, so that the state does not change with every answer.
	 */
	if (pending > LIMIT_OUTPUT_PENDING_BYTES)
		conn->full = true;
	else if (pending <= LIMIT_OUTPUT_PENDING_BYTES / 2)
		conn->full = false;
	unread_set_full(unread, conn->full);
	stalled = !unread_may_begin(unread, LIMIT_UNREAD_LINE_BYTES);
	/*
	 * The socket reports when it is no longer full, but room that others leave needs a waiter.
	 */
	if (stalled && !conn->full)
		unread_wait(&conn->room);
	if (stalled != conn->stalled)
		client_pause_output(conn->client, stalled);
	conn->stalled = stalled;
}

/* Call it after any change that may_act() depends on. */
static void update_agent_conn(struct agent_conn *conn)
{
	if (conn->closing)
		return;
	check_unread(conn);
	watch_agent_conn(conn);
	/* Buffered input does not make the socket readable. */
	if (may_act(conn) && conn->input.len > 0)
		act_soon(conn);
}

static void flush_answers(void *context)
{
	struct agent_conn *conn = context;

	while (evbuffer_get_length(conn->output) > 0) {
		int n, error;

		wake_cost_begin();
		n = evbuffer_write(conn->output, conn->fd);
		error = errno;
		if (is_too_dear(conn, n > 0))
			return;
		if (n >= 0)
			continue;
		if (error == EAGAIN || error == EINTR)
			break;
		close_soon(conn);
		return;
	}
	watch_want(&conn->writable,
		evbuffer_get_length(conn->output) > 0 ? WATCH_WRITABLE : WATCH_NOTHING);
	update_agent_conn(conn);
	close_if_done(conn);
}

static void on_answer_room(void *context)
{
	update_agent_conn(context);
}

/* Answers are written together at the end of the turn. */
static void on_wrote(void *context)
{
	struct agent_conn *conn = context;

	if (conn->closing)
		return;
	loop_turn_defer(&conn->flush);
	update_agent_conn(conn);
}

/* Whether the current line, of which @len bytes have come, is too large to keep. */
static enum skip check_line(const struct agent_conn *conn, size_t len)
{
	const struct client *client = conn->client;

	if (len > conn->line_bytes)
		return SKIP_TOO_LONG;
	/* This replaces the amount counted for the line so far. */
	return len > client_memory_left(client, client_counted_input(client)) ? SKIP_NO_ROOM
									      : SKIP_NOTHING;
}

static void tell_skipped(struct agent_conn *conn)
{
	if (!conn->told)
		client_refuse_line(
			conn->client, conn->skip == SKIP_TOO_LONG, conn->line_id.id_text);
	conn->told = true;
}

/*
 * Skips what is there of the next @len bytes of a refused line: all, or a part as long as its id is
 * scanned for. It is answered as soon as its id is known, at its end at the latest. Returns how
 * much is left of @len.
 */
static size_t skip_part(struct agent_conn *conn, size_t len)
{
	struct text part = {byte_queue_peek(&conn->input).data, len};

	if (len > 0 && !conn->told) {
		part.len = len < SKIP_BYTES ? len : SKIP_BYTES;
		if (line_id_feed(&conn->line_id, part))
			tell_skipped(conn);
	}
	byte_queue_consume(&conn->input, part.len);
	return len - part.len;
}

static void end_skipped(struct agent_conn *conn)
{
	if (conn->skip == SKIP_NOTHING)
		return;
	tell_skipped(conn);
	line_id_reset(&conn->line_id);
	conn->skip = SKIP_NOTHING;
	conn->told = false;
}

/*
 * There is no newline in the input: keeps or refuses the line so far. Returns whether a part of it
 * is still to be skipped.
 */
static bool keep_part(struct agent_conn *conn)
{
	size_t len = conn->input.len;

	if (conn->skip == SKIP_NOTHING)
		conn->skip = check_line(conn, len);
	conn->scanned = conn->skip == SKIP_NOTHING ? len : skip_part(conn, len);
	return conn->skip != SKIP_NOTHING && conn->scanned > 0;
}

/* Handles one complete line of @len bytes. */
static void act_on_line(struct agent_conn *conn, size_t len)
{
	assert(!conn->ended && !conn->closing);
	client_count_input(conn->client, byte_queue_memory(&conn->input));
	conn->line = len + 1;
	/* An empty line is not a message. */
	if (len > 0)
		client_line(conn->client, (struct text){byte_queue_peek(&conn->input).data, len});
}

/*
 * Takes the payload of the last line, or waits for the rest of it. Returns whether it was complete.
 */
static bool take_payload(struct agent_conn *conn, size_t len)
{
	size_t have = conn->input.len < len ? conn->input.len : len;

	if (have < len && client_may_keep_payload(conn->client)) {
		conn->scanned = have;
		return false;
	}
	conn->scanned = 0;
	if (have == 0)
		return false;
	client_payload(conn->client, (struct text){byte_queue_peek(&conn->input).data, have});
	byte_queue_consume(&conn->input, have);
	return have == len;
}

/*
 * Takes the next complete line, or its payload, from the input and handles it, or skips a part of
 * it. Returns whether there may be more to take.
 */
static bool take_request_line(struct agent_conn *conn)
{
	size_t payload = client_payload_left(conn->client), len;
	struct text input = byte_queue_peek(&conn->input);
	const char *newline = NULL;

	if (payload > 0)
		return take_payload(conn, payload);
	if (input.len > conn->scanned)
		newline = memchr(input.data + conn->scanned, '\n', input.len - conn->scanned);
	if (!newline)
		return keep_part(conn);
	len = (size_t)(newline - input.data);
	conn->scanned = 0;
	if (conn->skip == SKIP_NOTHING)
		conn->skip = check_line(conn, len);
	if (conn->skip != SKIP_NOTHING) {
		len = conn->scanned = skip_part(conn, len);
		if (len > 0)
			return true;
		end_skipped(conn);
	} else {
		act_on_line(conn, len);
	}
	byte_queue_consume(&conn->input, len + 1);
	return true;
}

/* Handles some lines; the rest of the input waits for the next turn. */
static void act_on_input(struct agent_conn *conn)
{
	size_t begin = conn->input.len;
	int lines = 0;

	conn->more = false;
	while (may_act(conn) && !conn->more && take_request_line(conn))
		conn->more = ++lines == LINES_A_TURN ||
			     begin - conn->input.len >= READ_TURN_BYTES || loop_share_is_used_up();
	if (conn->more)
		act_soon(conn);
	else if (conn->end_of_input && conn->input.len == 0)
		end_skipped(conn);
	client_count_input(conn->client, byte_queue_memory(&conn->input));
	if (may_act(conn))
		watch_agent_conn(conn);
	else
		update_agent_conn(conn);
}

/* Returns how much may be read: only a little if requests already use the memory allowed. */
static size_t room_to_read(const struct agent_conn *conn)
{
	size_t left = client_memory_left(conn->client, 0);

	if (left < LIMIT_READ_LEAST_BYTES)
		return LIMIT_READ_LEAST_BYTES;
	return left < READ_TURN_BYTES ? left : READ_TURN_BYTES;
}

/*
 * Reads once into the input. Returns like read(2). If less has come than there is room for, the
 * queue is empty now, and the client was woken.
 */
static ssize_t receive_agent(struct agent_conn *conn)
{
	static char buffer[READ_TURN_BYTES];
	struct iovec iov = {buffer, room_to_read(conn)};
	ssize_t n;
	int error;

	wake_cost_begin();
	n = conn->takes_fds ? fd_closer_receive(conn->fd, &iov)
			    : read(conn->fd, buffer, iov.iov_len);
	error = errno;
	if (is_too_dear(conn, n > 0 && (size_t)n < iov.iov_len)) {
		errno = ECONNRESET;
		return -1;
	}
	errno = error;
	if (n > 0 && byte_queue_append(&conn->input, buffer, (size_t)n) < 0) {
		errno = ENOMEM;
		return -1;
	}
	return n;
}

/*
 * The client will send no more. It may still wait for answers, or be gone: POLLHUP tells, but no
 * event does.
 */
static void end_input(struct agent_conn *conn)
{
	conn->end_of_input = true;
	if (conn->ended || conn->input.len == 0)
		end_skipped(conn);
	watch_want(&conn->readable, WATCH_NOTHING);
	timer_set(&conn->check, 0);
}

/* The session wants nothing more from this client. */
static void on_session_end(void *context)
{
	struct agent_conn *conn = context;

	conn->ended = true;
	if (!conn->end_of_input)
		end_input(conn);
}

static bool may_give(void *context)
{
	const struct agent_conn *conn = context;

	return conn->input.len == conn->line && evbuffer_get_length(conn->output) == 0;
}

/* An answer that the socket does not take at once would be mixed with what the next owner writes.
 */
static int give_requests(void *context)
{
	struct agent_conn *conn = context;
	int fd = -EAGAIN;

	flush_answers(conn);
	if (!conn->closing && evbuffer_get_length(conn->output) == 0)
		fd = fcntl(conn->fd, F_DUPFD_CLOEXEC, 0);
	close_soon(conn);
	return fd;
}

static void on_check(void *context)
{
	struct agent_conn *conn = context;
	struct pollfd poll_fd = {.fd = conn->fd};

	timer_set(&conn->check, HANG_UP_CHECK_MS);
	if (poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & (POLLHUP | POLLERR)))
		close_soon(conn);
	else
		close_if_done(conn);
}

static void read_and_act(struct agent_conn *conn)
{
	ssize_t n = receive_agent(conn);

	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		watch_agent_conn(conn);
		return;
	}
	if (n < 0) {
		close_soon(conn);
		return;
	}
	act_on_input(conn);
	if (n == 0 && !conn->closing)
		end_input(conn);
}

/* The connection's slice of the loop. */
static void act_on_agent_conn(void *context)
{
	struct agent_conn *conn = context;
	bool ready = conn->ready;

	loop_share_asked(client_share(conn->client));
	conn->ready = false;
	if (conn->closing)
		return;
	if (ready && may_act(conn) && !conn->end_of_input) {
		read_and_act(conn);
		return;
	}
	act_on_input(conn);
	close_if_done(conn);
}

static void on_agent_readable(void *context)
{
	struct agent_conn *conn = context;

	conn->ready = true;
	if (!loop_share_now_or_wait(&conn->share, client_share(conn->client)))
		watch_want(&conn->readable, WATCH_NOTHING);
	loop_turn_end();
}

/* cloisterd must not close descriptors that a client sends, because closing can block. */
static int refuse_fds(struct agent_conn *conn)
{
	if (fd_closer_refuse_instead(conn->fd))
		return 0;
	conn->takes_fds = true;
	return fd_closer_start();
}

int agent_conn_new(struct service *service, const struct endpoint *endpoint, int fd,
	struct peer_credentials *peer)
{
	static const struct watch_calls read_calls = {
		{on_agent_readable, NULL}, LOOP_PRIORITY_BULK};
	static const struct watch_calls write_calls = {{NULL, flush_answers}, LOOP_PRIORITY_NORMAL};
	struct agent_conn *conn = calloc(1, sizeof(*conn));
	struct client_connection connection = {.wrote = on_wrote,
		.end = on_session_end,
		.may_give = may_give,
		.give = give_requests,
		.context = conn};
	int r;

	if (!conn) {
		close(fd);
		peer_credentials_done(peer);
		return -ENOMEM;
	}
	conn->service = service;
	conn->fd = fd;
	conn->flush = (struct loop_turn_task){.act = flush_answers, .context = conn};
	LIST_INSERT_HEAD(&connections, conn, entry);
	conn->count = (size_t *)((char *)service + endpoint->connections);
	++*conn->count;
	conn->line_bytes = endpoint->line_bytes;
	fcntl(fd, F_SETFL, O_NONBLOCK);
	conn->output = connection.output = evbuffer_new();
	conn->client = connection.output ? client_new(service, endpoint, &connection, peer) : NULL;
	conn->room =
		(struct unread_waiter){.account = conn->client ? client_unread(conn->client) : NULL,
			.wanted = LIMIT_UNREAD_LINE_BYTES,
			.act = on_answer_room,
			.context = conn};
	conn->share = (struct loop_share_task){.act = act_on_agent_conn, .context = conn};
	timer_init(&conn->check, on_check, conn);
	conn->end = event_new(service->base, -1, 0, on_agent_conn_end, conn);
	peer_credentials_done(peer);
	r = refuse_fds(conn);
	if (r == 0)
		r = conn->client && conn->end
			    ? watch_init(&conn->readable, service->base, fd, &read_calls, conn)
			    : -ENOMEM;
	if (r == 0)
		r = watch_init(&conn->writable, service->base, fd, &write_calls, conn);
	if (r < 0)
		conn_free(conn);
	else
		watch_want(&conn->readable, WATCH_READABLE);
	return r;
}

size_t agent_conns_of_user(const struct endpoint *endpoint, uid_t uid)
{
	const struct agent_conn *conn;
	size_t n = 0;

	LIST_FOREACH (conn, &connections, entry)
		n += client_is_of(conn->client, endpoint, uid);
	return n;
}

void agent_conns_shut_down(void)
{
	struct agent_conn *conn;

	LIST_FOREACH (conn, &connections, entry)
		client_shut_down(conn->client);
}

/* Whether cloisterd may act on more of what it has received. */
static bool may_have_lines(const struct agent_conn *conn)
{
	return !conn->ended && !conn->closing && (conn->ready || has_lines(conn));
}

size_t agent_conns_calls(void)
{
	struct agent_conn *conn;
	size_t n = 0;

	LIST_FOREACH (conn, &connections, entry)
		n += client_calls_to_end(conn->client) + (evbuffer_get_length(conn->output) > 0) +
		     may_have_lines(conn);
	return n;
}

static bool has_input(const struct agent_conn *conn)
{
	struct pollfd poll_fd = {.fd = conn->fd, .events = POLLIN};

	return conn->input.len > 0 || conn->ready || poll(&poll_fd, 1, 0) > 0;
}

static bool is_agents(const struct agent_conn *conn)
{
	return conn->count == &conn->service->connections;
}

void agent_conns_foreach(void (*each)(void *context, struct client *client), void *context)
{
	struct agent_conn *conn;

	LIST_FOREACH (conn, &connections, entry)
		if (is_agents(conn) && conn->client)
			each(context, conn->client);
}

void agent_conns_tell_retiring(void)
{
	struct agent_conn *conn;

	LIST_FOREACH (conn, &connections, entry)
		if (is_agents(conn) && !conn->ended && !conn->closing)
			client_tell_retiring(conn->client);
}

void agent_conns_part(unsigned rounds)
{
	struct agent_conn *conn;

	LIST_FOREACH (conn, &connections, entry) {
		bool rests = is_agents(conn) && evbuffer_get_length(conn->output) == 0 &&
			     !client_is_needed(conn->client) && !has_input(conn);

		conn->rested = rests ? conn->rested + 1 : 0;
		if (conn->rested >= rounds)
			close_soon(conn);
	}
}

void agent_conns_close(void)
{
	while (!LIST_EMPTY(&connections))
		conn_free(LIST_FIRST(&connections));
}
