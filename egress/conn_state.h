/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A connection's states; only egress/conn*.c, relay.c and refusal.c, and their unit test, include
 * it. conn.c has the table of what happens in each.
 */

#include "common/byte_queue.h"
#include "egress/conn.h"
#include "egress/resolver.h"

struct conn_secret;
struct http_head;

enum conn_state {
	CONN_HEAD,       /* the client's first bytes, and the rest of an HTTP head */
	CONN_NAME,       /* a ClientHello, which names the host of a connection to port 443 */
	CONN_SOCKS,      /* the client's SOCKS request */
	CONN_QUESTION,   /* a question for a name, or cloisterd, to take the event of the last */
	CONN_RESOLVING,  /* a name's addresses */
	CONN_CONNECTING, /* a host's acceptance */
	CONN_UPSTREAM,   /* egress_upstream's answer */
	CONN_HELLO,      /* the client's ClientHello */
	CONN_RELAYING,   /* nothing but bytes */
	CONN_TLS,        /* the handshake with the host of a secret */
	CONN_ASKING,     /* the request with the secret, and its answer */
	CONN_REFUSING,   /* cloisterd, to take the event */
	CONN_LINGERING,  /* the client, to read its refusal */
	CONN_STATES,
};

enum conn_event {
	CONN_ON_CLIENT,   /* the client's socket is ready */
	CONN_ON_REMOTE,   /* the host's socket is ready */
	CONN_ON_RESOLVED, /* addresses, or none, have come */
	CONN_ON_TOLD,     /* cloisterd has the event */
	CONN_ON_TIME,     /* the time of the state is over */
	CONN_EVENTS,
};

enum conn_direction {
	CONN_OUT, /* from the client to the host */
	CONN_IN,  /* from the host to the client */
	CONN_DIRECTIONS,
};

/* One way of the relay. Index: the direction. */
struct conn_way {
	struct byte_queue pending; /* read before the relay began, not yet sent */
	uint64_t bytes;
	bool is_over;    /* the reader's end has come and was passed on */
	bool is_blocked; /* the receiver takes no more for now */
};

/* State that is needed until the host is connected. */
struct conn_attempt {
	struct sockaddr_storage addresses[LIMIT_EGRESS_ADDRESSES];
	size_t n, next;
	bool found_refused; /* an address that is not permitted was left out */
	bool has_tried;     /* another one was connected to, or tried */
};

struct conn {
	LIST_ENTRY(conn) entry;
	TAILQ_ENTRY(conn) waiting; /* of the events' queue, while is_waiting */
	struct cell *cell;
	uint64_t call;   /* 0: none, or not known yet */
	uint64_t cgroup; /* attribution_cgroup() */
	uint8_t state, via, reason;
	uint8_t socks_reply; /* of a refusal; 0: that of the reason */
	bool is_waiting, is_admitted, is_connected,
		is_told;    /* is_told: the client has its answer */
	bool is_attributed; /* call is known */
	uint8_t ready;      /* bits 1 << enum conn_direction: the relay may go on that way */
	bool is_greeted; /* a client of SOCKS5 knows the method: a reply to its request is next */
	bool any_protocol, by_upstream;
	bool is_inside; /* a tunnel to host, which is the name of a secret: a head comes in it */
	uint16_t port;
	struct host host;
	size_t seen;   /* bytes of the head, or of the upstream's answer, that were looked at */
	size_t needed; /* bytes that a ClientHello must have before it is looked at again */
	int fds[2]; /* index: the direction that is read from it; remote is -1 until connected to */
	struct event client, remote, timer;
	uint64_t active_ms;
	struct conn_way ways[CONN_DIRECTIONS];
	struct conn_attempt *attempt;
	struct resolver_query *query;
	struct conn_secret *secret; /* NULL: the request is for no secret */
	const char *limit;          /* the key of a limit that was reached */
};

/* conn.c */

/** Makes the state @state; its time is over in @ms. */
void conn_enter(struct conn *conn, enum conn_state state, unsigned ms);
/** Watches a socket for @what (EV_READ, EV_WRITE), or, with 0, not at all. */
void conn_watch_client(struct conn *conn, short what);
void conn_watch_remote(struct conn *conn, short what);
/** Ends it in order. The connection is gone afterwards. */
void conn_end(struct conn *conn);
/** Reads what has come from the client, as far as it fits @max. Returns as read(2) does. */
ssize_t conn_read_client(struct conn *conn, size_t max);
/**
 * recv(2), send(2) and shutdown(2) of one of its sockets, without waiting and without a signal. The
 * cell is charged for their cost (cell_calls_ended()).
 */
ssize_t conn_recv(struct conn *conn, int fd, void *data, size_t size, int flags);
ssize_t conn_send(struct conn *conn, int fd, const void *data, size_t len);
void conn_shut_down(struct conn *conn, int fd);
/** Sends a few bytes to the client. Returns false if it does not take them. */
bool conn_answer(struct conn *conn, const void *data, size_t len);

/* conn_head.c: CONN_HEAD, CONN_NAME, CONN_SOCKS and CONN_HELLO */
void conn_read_head(struct conn *conn);
void conn_read_socks(struct conn *conn);
void conn_read_hello(struct conn *conn);
void conn_read_name(struct conn *conn);

/* conn_question.c */
void conn_read_question(struct conn *conn);
void conn_answer_question(struct conn *conn);

/* conn_open.c: the steps to a connected host */
/** The client has named its host. Judges, and connects or refuses. */
void conn_open(struct conn *conn);
/** Tells a client that asked for a tunnel that it has one. Returns false if it takes no bytes. */
bool conn_answer_tunnel(struct conn *conn);
void conn_be_resolved(struct conn *conn);
/** Stops waiting for the resolver's answer. */
void conn_leave_query(struct conn *conn);
void conn_be_connected(struct conn *conn);
void conn_try_next(struct conn *conn);
void conn_read_upstream(struct conn *conn);
/** The client's ClientHello may pass. */
void conn_begin_relay(struct conn *conn);

/* relay.c */
void conn_relay(struct conn *conn);
void conn_check_idle(struct conn *conn);

/**
 * Returns how many bytes the limits still let the connection carry in one direction. Stores the key
 * of the limit.
 */
uint64_t conn_allowance(
	struct conn *conn, enum conn_direction way, uint64_t now, const char **ret_key);
/**
 * How many bytes the connection may carry in each direction in this turn of the loop. Call it once
 * a turn.
 */
size_t conn_share_of_turn(struct conn *conn);
/** Counts the bytes of one direction. */
void conn_count(struct conn *conn, enum conn_direction way, uint64_t n);

/* conn_secret.c: CONN_TLS and CONN_ASKING */
/** Returns the secret that conn->host names, or NULL after a refusal. */
const struct secret *conn_find_secret(struct conn *conn);
/** Judges again a request with a secret. The tenant has a policy. */
struct verdict conn_judge_secret(const struct conn *conn);
/** The client has sent a head for that secret, of @len bytes. Connects or refuses. */
void conn_take_secret(struct conn *conn, const struct http_head *head, size_t len);
/** The secret's host is connected. */
void conn_begin_tls(struct conn *conn);
void conn_shake_hands(struct conn *conn);
void conn_shake_no_more(struct conn *conn);
void conn_carry_secret(struct conn *conn);
void conn_secret_free(struct conn_secret *secret);

/* refusal.c */
/**
 * Refuses: tells cloisterd, then the client. @rule is the rule or key that decided, or NULL; @named
 * is the client's text if it is not a host.
 */
void conn_refuse(struct conn *conn, enum egress_reason reason, const char *rule, struct text named);
/** Only tells cloisterd, of conn->reason. Returns what egress_send() returns. */
bool conn_tell_refusal(struct conn *conn, const char *rule, struct text named);
void conn_answer_refusal(struct conn *conn);
void conn_discard(struct conn *conn);
