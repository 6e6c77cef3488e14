/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state of cloister-egress: the cells that cloisterd has opened, their tenants and calls, and
 * the connection to cloisterd. One thread, one loop.
 */

#include "common/wake_cost.h"
#include "common/wire/channel.h"
#include "egress/policy.h"
#include "egress/usage.h"

#include <event2/event_struct.h>
#include <sys/queue.h>

struct conn;
struct resolver;

TAILQ_HEAD(conn_queue, conn);

/* A command or session of a cell. */
struct egress_command {
	uint64_t number;
	uint16_t address; /* last two bytes of its proxy's address 127.64.0.0/16; 0: none */
	uint64_t cgroup;  /* 0: none */
	struct egress_call_ended sums;
};

/* The counters of a tenant that outlive a reload and its last cell. */
struct tenant {
	LIST_ENTRY(tenant) entry;
	char name[LIMIT_CONFIG_NAME_BYTES + 1];
	const struct egress_tenant *policy; /* NULL: it may reach nothing any more */
	struct usage usage;
	struct wake_cost_sum cost; /* of calls on sockets of its cells */
	unsigned n_cells;
	/* Relays that have had a part of the turn of the loop, and of the one before. */
	uint64_t turn;
	unsigned n_busy, n_busy_before;
};

/* A listener of a cell. */
struct door {
	struct cell *cell;
	uint8_t kind; /* enum egress_socket: all but EGRESS_DNS and EGRESS_DIAG */
	int fd;       /* -1: there is none */
	struct event accept;
	bool is_paused;
	TAILQ_ENTRY(door) paused; /* of those in egress.paused, while is_paused */
};
TAILQ_HEAD(door_queue, door);
#define CELL_DOORS 4

struct cell {
	LIST_ENTRY(cell) entry;
	struct egress *egress;
	uint64_t number;
	struct tenant *tenant;
	char workspace[LIMIT_NAME_BYTES + 1];
	bool is_narrowed;
	struct rules narrowed;
	struct usage usage;
	struct wake_cost_sum cost;     /* of calls on its sockets */
	uint64_t dear_until_ms;        /* for which it has no connections; 0: it may have some */
	struct door doors[CELL_DOORS]; /* proxy first */
	unsigned n_sockets;
	int dns;                /* -1 if there is none */
	int diag;               /* the same; if there is one, the kernel says whose all is */
	struct event questions; /* at dns */
	bool is_dns_paused;
	struct timespec command_ended; /* when the last one has, if there is a diag */
	struct egress_command *commands;
	size_t n_commands;
	LIST_HEAD(, conn) conns;
};

/*
 * cloisterd names a call before its command starts, so the name is in the channel before the
 * command can connect. This event has the first priority, so the loop reads the channel before any
 * connection. The call of a connection is looked up when the connection can be read, not when it is
 * accepted: the name may have come after the loop last read the channel.
 */
enum { EGRESS_PRIORITY_CHANNEL, EGRESS_PRIORITY_OTHER, EGRESS_PRIORITIES };

struct egress {
	struct event_base *base;
	bool is_system;
	uint32_t landlock_abi;
	struct egress_policy *policy;
	struct resolver *resolver;
	struct channel channel;
	struct event readable, writable;
	struct conn_queue waiting; /* for cloisterd to take their events */
	LIST_HEAD(, cell) cells;
	/*
	 * Sockets that wait for room. When a connection ends, only these are looked at, and not all
	 * cells.
	 */
	struct door_queue paused;
	unsigned n_dns_paused; /* cells whose questions wait */
	LIST_HEAD(, tenant) tenants;
	unsigned n_cells, n_tenants; /* n_tenants: of these with a cell */
	uint64_t n_sockets;          /* of all cells */
	uint64_t max_sockets;        /* of cells and connections */
	uint64_t open, max_open;     /* connections of all tenants */
	bool is_filtered;            /* cloisterd was told of a filter that refuses */
	struct event resume;         /* accepts again after a lack of descriptors */
	struct event turn_over;      /* runs last in a turn of the loop */
	uint64_t turn;               /* connections in which bytes were relayed */
};

/* egress_serve.c */

/** Begins to serve @channel_fd. Returns 0 or -errno. */
int egress_begin(struct egress *egress, int channel_fd);

/**
 * Sends an event to cloisterd. Returns true if the kernel has everything that was sent; otherwise
 * egress_wait() reports when it has.
 */
bool egress_send(
	struct egress *egress, uint8_t type, uint64_t cell, const struct wire_writer *writer);

/** Calls conn_told() when all events have been taken. */
void egress_wait(struct egress *egress, struct conn *conn);
void egress_wait_no_more(struct egress *egress, struct conn *conn);

/** Whether so many events wait that nothing new may begin. */
bool egress_is_behind(const struct egress *egress);

/* cell.c */

/** Opens a cell. Takes the descriptors. Returns 0, or -errno with a sentence in @why. */
int cell_open(struct egress *egress, uint64_t number, const struct egress_open *request, int *fds,
	char *why, size_t size);
void cell_close(struct cell *cell);
struct cell *cell_find(struct egress *egress, uint64_t number);

/** Accepts again where it was paused and there is room now. */
void cells_resume(struct egress *egress);
/** Looks up the policies of all tenants again, and ends connections that they do not allow. */
void cells_renew(struct egress *egress);

int cell_add_command(struct cell *cell, const struct egress_call *request);
/** Ends the connections of a command, and sends its sums to cloisterd. */
void cell_end_command(struct cell *cell, uint64_t number);
/** Returns the command, or NULL. */
struct egress_command *cell_command(struct cell *cell, uint64_t number);

/** Returns the part of the tenant's @limit that one workspace may have; 0: unlimited. */
uint64_t cell_share(const struct cell *cell, uint64_t limit);

/**
 * Charges the cell for its socket calls since wake_cost_begin(). If they took too much CPU time,
 * because programs of the cell have too many waiters on the socket, the cell may have no
 * connections for LIMIT_DEAR_CELL_MS.
 */
void cell_calls_ended(struct cell *cell);

/** Whether the cell may have no connections now, for that reason. */
bool cell_is_dear(struct cell *cell);

/**
 * Bounds the kernel's buffers of @fd, which otherwise grow to megabytes while a reader does not
 * read: a tenant has many connections, and the memory of TCP belongs to the host. tcp(7)
 */
void socket_bound_buffers(int fd);

/** Reads no questions until cells_resume(). */
void cell_pause_dns(struct cell *cell);

/* dns.c */

/**
 * Answers the question @packet of @call in @reply, which has DNS_PACKET_BYTES. Returns the length
 * of the answer; 0: there is none. It may be sent when cloisterd has the event that goes with it:
 * at once with *@ret_told, otherwise when egress_wait() says so.
 */
size_t dns_answer(
	struct cell *cell, uint64_t call, struct text packet, uint8_t *reply, bool *ret_told);

/** Answers datagrams: the callback of an event whose context is the cell. */
void dns_serve(evutil_socket_t fd, short what, void *context);

/* attribution.c */

/**
 * Asks the kernel, if the cell has a socket for that, for the cgroup in which the other end of
 * @client was made: one question, which does not wait. Returns its inode; 0: it is not known, as
 * when the other end is closed already. Ask when @client has just been accepted.
 */
uint64_t attribution_cgroup(const struct cell *cell, int client);

/** Returns whether the kernel answers such questions about the cell. */
bool attribution_is_told(const struct cell *cell);

/**
 * Returns the number of the command that has the other end of @client, for which
 * attribution_cgroup() has said @cgroup; 0 if that is not known.
 */
uint64_t attribution_of(const struct cell *cell, int client, uint64_t cgroup);

/**
 * The same for a datagram. Its source says nothing: a program can give it that of another's socket
 * (IP_PKTINFO, ip(7)).
 */
uint64_t attribution_of_datagram(const struct cell *cell);
