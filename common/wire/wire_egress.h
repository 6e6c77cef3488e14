/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The protocol between cloisterd and cloister-egress, which connects the programs of workspaces to
 * the hosts that the configuration allows. egress/PROTOCOL says how it goes. cloisterd sends
 * listening sockets and their owners; cloister-egress sends events. The call field of every header
 * is the number of the cell, chosen by cloisterd; 0 in EGRESS_READY, EGRESS_RELOAD, EGRESS_RETIRED
 * and EGRESS_FILTERED.
 */

#include "common/limits.h"
#include "common/text.h"
#include "common/wire/wire.h"

enum egress_message {
	EGRESS_OPEN = 1, /* down: struct egress_open, one descriptor for each bit of its sockets */
	EGRESS_CLOSE,    /* down: the cell has ended; no payload */
	EGRESS_CALL,     /* down: struct egress_call: a command or session begins */
	EGRESS_CALL_END, /* down: struct egress_call_end: all of its processes have ended */
	EGRESS_RELOAD,   /* down: the configuration has changed; no payload, no answer */
	EGRESS_RETIRED,  /* down: another generation of cloisterd serves; no payload, no answer */

	EGRESS_READY = 32,  /* up, once: struct egress_ready; nothing is opened before it */
	EGRESS_OPENED,      /* up: no payload: the cell's sockets are served */
	EGRESS_OPEN_FAILED, /* up: struct egress_open_failed: they are closed */
	EGRESS_DENIED,      /* up: struct egress_denied, sent before the client's refusal */
	EGRESS_CLOSED,      /* up: struct egress_closed: a connection has ended */
	EGRESS_CALL_ENDED,  /* up: struct egress_call_ended: the call's last message */
	EGRESS_FILTERED,    /* up: struct egress_filtered, after EGRESS_READY or EGRESS_RELOAD */
};

/* Sockets of a cell, in the order in which they come with EGRESS_OPEN. */
enum egress_socket {
	EGRESS_PROXY = 1,    /* TCP, listening: HTTP and SOCKS proxy; every EGRESS_OPEN has it */
	EGRESS_DNS = 2,      /* UDP, bound to 127.0.0.1:53 */
	EGRESS_HTTP = 4,     /* TCP, listening on port 80 */
	EGRESS_HTTPS = 8,    /* TCP, listening on port 443 */
	EGRESS_DNS_TCP = 16, /* TCP, listening at 127.0.0.1:53 */
	EGRESS_DIAG = 32,    /* NETLINK_SOCK_DIAG, made in the cell's network namespace */
	EGRESS_SOCKETS_ALL = 63,
};
#define EGRESS_SOCKETS 6

/* Why a connection was refused or ended. The names are those of observations and of the log. */
/* In the rules that cloister-egress is started with: the rest of the word is of egress_private. */
#define EGRESS_PRIVATE_WORD "private="

enum egress_reason {
	EGRESS_NOT_ALLOWED = 1, /* no rule allows the host */
	EGRESS_RULE_DENIED,     /* a rule of egress_deny names it: "denied" */
	EGRESS_PORT,            /* the host is allowed, but not this port */
	EGRESS_PRIVATE_ADDRESS, /* its address is not of the public Internet */
	EGRESS_SNI_MISMATCH,    /* TLS for another host than the client had named, or no TLS */
	EGRESS_DNS_FAILED,      /* the name has no address */
	EGRESS_LIMIT,           /* a limit of the tenant, the workspace or the request */
	EGRESS_UPSTREAM_FAILED, /* the host, or egress_upstream, did not accept the connection */
	EGRESS_PROXY_LOST,      /* for cloisterd's own use: cloister-egress has ended */
	EGRESS_BAD_REQUEST,     /* not a request of a proxy's client, or not a host's name */
	EGRESS_UNKNOWN_SECRET,  /* NAME.cloister.internal, but the tenant has no such egress_secret
				 */
	EGRESS_REASON_END,
};

/* How the client asked. */
enum egress_via {
	EGRESS_VIA_CONNECT = 1, /* HTTP CONNECT: "connect" */
	EGRESS_VIA_HTTP,        /* an absolute URL in an HTTP request: "http" */
	EGRESS_VIA_SOCKS,       /* SOCKS5: "socks" */
	EGRESS_VIA_DNS,         /* a question to the DNS socket: "dns" */
	EGRESS_VIA_TRANSPARENT, /* a connection to port 80 or 443: "transparent" */
	EGRESS_VIA_SECRET,      /* a request to NAME.cloister.internal (egress_secret): "secret" */
	EGRESS_VIA_END,
};

struct egress_open {
	struct text tenant;
	struct text workspace; /* for the log only */
	uint8_t sockets;       /* of enum egress_socket */
	bool is_narrowed;
	/*
	 * If is_narrowed: rules as in egress_allow, separated by blanks. The tenant's rules must
	 * then allow a host too.
	 */
	struct text allow;
};

struct egress_open_failed {
	uint32_t error;     /* errno, positive; EACCES: the configuration forbids it */
	struct text reason; /* a sentence */
};

struct egress_ready {
	uint32_t abi; /* of Landlock; 0: the kernel has none */
};

struct egress_filtered {
	/*
	 * Networks of egress_private that the host's IP filter refuses to cloister-egress, as
	 * ADDRESS/PREFIX, separated by blanks; empty: no network is refused any more.
	 */
	struct text networks;
};

/* A command or session of the cell, which has number @call in cloisterd. */
struct egress_call {
	uint64_t call;
	/*
	 * Last two bytes of the proxy's address for this call only, 127.64.0.0/16. 0: none
	 */
	uint16_t address;
	uint64_t cgroup; /* inode number of its cgroup; 0: none, or none yet */
};

struct egress_call_end {
	uint64_t call;
};

/* A call of 0 in the following means that egress does not know which call it was. */
struct egress_denied {
	uint64_t call;
	struct text host; /* as egress reads it: lower case; an IPv6 address has no brackets */
	uint16_t port;
	uint8_t reason; /* enum egress_reason */
	uint8_t via;    /* enum egress_via */
	/* The rule that decided, or a limit's key, as root wrote it; may be empty. */
	struct text rule;
};

struct egress_closed {
	uint64_t call;
	struct text host;
	uint16_t port;
	uint8_t via;
	/* 0, or why egress ended it: EGRESS_LIMIT, or the reason after a reload */
	uint8_t reason;
	uint64_t bytes_in;  /* from the host to the workspace */
	uint64_t bytes_out; /* from the workspace to the host */
};

/* Sums over the call. */
struct egress_call_ended {
	uint64_t call;
	uint64_t connections; /* that reached their host */
	uint64_t denied;
	uint64_t bytes_in, bytes_out;
};

WIRE_MESSAGE(egress_open);
WIRE_MESSAGE(egress_open_failed);
WIRE_MESSAGE(egress_ready);
WIRE_MESSAGE(egress_filtered);
WIRE_MESSAGE(egress_call);
WIRE_MESSAGE(egress_call_end);
WIRE_MESSAGE(egress_denied);
WIRE_MESSAGE(egress_closed);
WIRE_MESSAGE(egress_call_ended);

/** Returns the name of a reason, such as "not_allowed"; NULL for another number. */
const char *egress_reason_name(enum egress_reason reason);
/** Returns the name of a way to ask, such as "connect"; NULL for another number. */
const char *egress_via_name(enum egress_via via);
/** Returns the number of descriptors that come with EGRESS_OPEN for @sockets. */
unsigned egress_sockets_count(uint8_t sockets);
