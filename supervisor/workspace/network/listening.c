// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The kernel answers within send(2) and recv(2); neither waits. sock_diag(7) */
#include "supervisor/workspace/network/listening.h"

#include "common/cleanup.h"
#include "common/sock_diag.h"
#include "supervisor/base/clock.h"
#include "supervisor/workspace/network/egress_cell.h"
#include "supervisor/workspace/workspace_state.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE_BYTES (32 * KIB) /* the kernel's largest piece of a list */
#define KNOWN       16         /* ports whose answers are kept */
#define READS       8          /* of one question: pieces of a list may come before its answer */
#define LIST_READS  64         /* of one list: several thousand sockets */
#define FAMILIES    2

/* A socket that listens. */
struct witness {
	uint16_t port;
	uint64_t cgroup; /* 0: the kernel does not say */
};

struct known {
	uint16_t port;
	int64_t asked; /* as clock_now() */
	bool listens[FAMILIES];
	uint64_t cgroups[FAMILIES];
};

struct listening {
	int fd;
	uint32_t number; /* of the last question */
	int64_t since;   /* when the questions below were begun to be counted */
	unsigned questions;
	struct known known[KNOWN];
	struct witness *list; /* NULL: none was asked for */
	size_t n_list;
	int64_t listed;
	bool list_failed;
};

static const uint8_t families[FAMILIES] = {AF_INET, AF_INET6};

union piece {
	struct nlmsghdr header;
	char bytes[PIECE_BYTES];
};

static union piece piece; /* of one function at a time */

struct listening *listening_new(int fd)
{
	struct listening *listening = fd < 0 ? NULL : calloc(1, sizeof(*listening));

	if (listening)
		listening->fd = fd;
	else if (fd >= 0)
		close(fd);
	return listening;
}

void listening_free(struct listening *listening)
{
	if (!listening)
		return;
	close_fd(&listening->fd);
	free(listening->list);
	free(listening);
}

static bool send_question(struct listening *listening, uint8_t family, uint16_t port)
{
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 request;
	} question = {
		.header = {.nlmsg_len = sizeof(question),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | (port ? 0 : NLM_F_DUMP)),
			.nlmsg_seq = ++listening->number},
		.request = {.sdiag_family = family,
			.sdiag_protocol = IPPROTO_TCP,
			.idiag_states = 1U << TCP_LISTEN,
			.id = {.idiag_sport = htons(port),
				.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
	};

	/* With another end that has no address the kernel looks for what listens here. */
	if (port && family == AF_INET)
		question.request.id.idiag_src[0] = htonl(INADDR_LOOPBACK);
	else if (port)
		question.request.id.idiag_src[3] = htonl(1); /* ::1 */
	return send(listening->fd, &question, sizeof(question), MSG_DONTWAIT) >= 0;
}

static bool read_witness(const struct nlmsghdr *header, struct witness *ret)
{
	const struct inet_diag_msg *message = NLMSG_DATA(header);

	if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
		header->nlmsg_len < NLMSG_LENGTH(sizeof(*message)) ||
		message->idiag_state != TCP_LISTEN)
		return false;
	*ret = (struct witness){
		.port = ntohs(message->id.idiag_sport), .cgroup = sock_diag_cgroup(header)};
	return true;
}

/* One question about a port. */

static void ask_family(struct listening *listening, struct known *known, size_t family)
{
	struct witness witness;

	known->listens[family] = false;
	if (!send_question(listening, families[family], known->port))
		return;
	for (int i = 0; i < READS; i++) {
		ssize_t n = recv(listening->fd, piece.bytes, sizeof(piece), MSG_DONTWAIT);

		if (n < (ssize_t)sizeof(piece.header))
			return;
		if (!NLMSG_OK(&piece.header, (size_t)n) ||
			piece.header.nlmsg_seq != listening->number)
			continue;
		known->listens[family] =
			read_witness(&piece.header, &witness) && witness.port == known->port;
		if (known->listens[family])
			known->cgroups[family] = witness.cgroup;
		return;
	}
}

/* Counts one more question. Returns false if there were too many lately. */
static bool may_ask(struct listening *listening, int64_t now)
{
	if (now - listening->since >= LIMIT_PORT_ASK_MS * CLOCK_NS_PER_MS) {
		listening->since = now;
		listening->questions = 0;
	}
	return listening->questions++ < LIMIT_PORT_QUESTIONS;
}

/* Returns what is known of @port, which is asked for if that was long ago, or NULL. */
static const struct known *find(struct listening *listening, uint16_t port)
{
	struct known *known = &listening->known[0];
	int64_t now = clock_now();

	for (size_t i = 0; i < KNOWN && known->port != port; i++)
		if (listening->known[i].port == port || listening->known[i].asked < known->asked)
			known = &listening->known[i];
	if (known->port == port && now - known->asked < LIMIT_PORT_ASK_MS * CLOCK_NS_PER_MS)
		return known;
	if (!may_ask(listening, now))
		return NULL;
	*known = (struct known){.port = port, .asked = now};
	for (size_t i = 0; i < FAMILIES; i++)
		ask_family(listening, known, i);
	return known;
}

static bool is_of(uint64_t listener, uint64_t cgroup)
{
	return cgroup == 0 || listener == 0 || listener == cgroup;
}

enum listens listening_ask(struct listening *listening, uint16_t port, uint64_t cgroup)
{
	const struct known *known;

	if (port < LISTENING_PORT_MIN)
		return LISTENS_NOT;
	known = find(listening, port);
	if (!known)
		return LISTENS_UNKNOWN;
	if (known->listens[0] && is_of(known->cgroups[0], cgroup))
		return LISTENS_AT_IPV4;
	return known->listens[1] && is_of(known->cgroups[1], cgroup) ? LISTENS_AT_IPV6
								     : LISTENS_NOT;
}

/* The list of all. */

static void add_listening(struct listening *listening, const struct witness *witness)
{
	for (size_t i = 0; i < listening->n_list; i++)
		if (listening->list[i].port == witness->port &&
			listening->list[i].cgroup == witness->cgroup)
			return;
	if (witness->port >= LISTENING_PORT_MIN && listening->n_list < LIMIT_PORTS_LISTED)
		listening->list[listening->n_list++] = *witness;
}

/* Reads a piece of @n bytes. Returns 0 if more comes, 1 after the last one, -1 if it failed. */
static int read_piece(struct listening *listening, size_t n)
{
	struct nlmsghdr *header = &piece.header;
	struct witness witness;

	for (; NLMSG_OK(header, n); header = NLMSG_NEXT(header, n)) {
		if (header->nlmsg_seq != listening->number)
			continue;
		if (header->nlmsg_type == NLMSG_DONE) {
			const int *error = NLMSG_DATA(header);

			return header->nlmsg_len >= NLMSG_LENGTH(sizeof(*error)) && *error < 0 ? -1
											       : 1;
		}
		if (header->nlmsg_type == NLMSG_ERROR)
			return -1;
		if (read_witness(header, &witness))
			add_listening(listening, &witness);
	}
	return 0;
}

/*
 * A list that is not read to its end, because thousands of sockets listen, is what it is until
 * then. The kernel begins no other before its end has been read, and what is left is read before
 * the next answers.
 */
static bool list_family(struct listening *listening, uint8_t family)
{
	int r = 0;

	if (!send_question(listening, family, 0))
		return false;
	for (int i = 0; r == 0 && i < LIST_READS; i++) {
		ssize_t n = recv(listening->fd, piece.bytes, sizeof(piece), MSG_DONTWAIT);

		if (n <= 0)
			return false;
		r = read_piece(listening, (size_t)n);
	}
	return r >= 0;
}

static void list_again(struct listening *listening)
{
	int64_t now = clock_now();

	if (listening->list && now - listening->listed < LIMIT_PORTS_LIST_MS * CLOCK_NS_PER_MS)
		return;
	if (!listening->list)
		listening->list = calloc(LIMIT_PORTS_LISTED, sizeof(*listening->list));
	listening->list_failed = !listening->list;
	listening->n_list = 0;
	listening->listed = now;
	for (size_t i = 0; !listening->list_failed && i < FAMILIES; i++)
		listening->list_failed = !list_family(listening, families[i]);
}

bool listening_list(struct listening *listening, uint64_t cgroup, struct listening_ports *ret)
{
	list_again(listening);
	ret->n = 0;
	for (size_t i = 0; i < listening->n_list; i++) {
		const struct witness *witness = &listening->list[i];
		bool is_new = is_of(witness->cgroup, cgroup);

		for (size_t j = 0; is_new && j < ret->n; j++)
			is_new = ret->ports[j] != witness->port;
		if (is_new)
			ret->ports[ret->n++] = witness->port;
	}
	return !listening->list_failed;
}

/* Of a workspace. */

bool workspace_is_proxy(const struct workspace *workspace, int64_t port)
{
	return workspace->network && egress_cell_port(workspace->network) == port;
}

bool workspace_has_cgroups(const struct workspace *workspace)
{
	return workspace->all->cgroups >= 0;
}

bool workspace_tells_ports(const struct workspace *workspace)
{
	struct listening_ports ports;

	if (cell_status(workspace->cell) != CELL_STATUS_OPEN)
		return true;
	return workspace->listening && listening_list(workspace->listening, 0, &ports);
}

enum listens workspace_listens(struct workspace *workspace, uint16_t port, uint64_t cgroup)
{
	if (workspace_is_proxy(workspace, port))
		return LISTENS_NOT;
	return workspace->listening ? listening_ask(workspace->listening, port, cgroup)
				    : LISTENS_UNKNOWN;
}

bool workspace_ports(struct workspace *workspace, uint64_t cgroup, struct listening_ports *ret)
{
	size_t n = 0;

	*ret = (struct listening_ports){0};
	if (!workspace->listening || !listening_list(workspace->listening, cgroup, ret))
		return false;
	for (size_t i = 0; i < ret->n; i++)
		if (!workspace_is_proxy(workspace, ret->ports[i]))
			ret->ports[n++] = ret->ports[i];
	ret->n = n;
	return true;
}

void workspace_end_listening(struct workspace *workspace)
{
	listening_free(TAKE_PTR(workspace->listening));
}
