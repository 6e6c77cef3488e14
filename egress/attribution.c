// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress. The kernel is asked for the client's end of a connection, because an
 * accepted socket has the cgroup of its listener. sock_diag(7)
 */
#include "common/cleanup.h"
#include "common/sock_diag.h"
#include "egress/egress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#define CALL_NETWORK 0x7f400000U /* 127.64.0.0/16 */
#define CALL_MASK    0xffff0000U

/* The states of a client's end that has been connected. */
#define CONNECTED                                                            \
	(1U << TCP_ESTABLISHED | 1U << TCP_FIN_WAIT1 | 1U << TCP_FIN_WAIT2 | \
		1U << TCP_CLOSE_WAIT | 1U << TCP_LAST_ACK | 1U << TCP_CLOSING)

struct question {
	struct nlmsghdr header;
	struct inet_diag_req_v2 request;
};

/* What the kernel says of a socket of the cell. */
struct witness {
	uint8_t state; /* enum of netinet/tcp.h */
	in_port_t from, to;
	uint64_t cgroup; /* 0: the kernel does not say */
};

static struct question question_of(const struct sockaddr_in *from, const struct sockaddr_in *to)
{
	static uint32_t asked;
	struct question question = {
		.header = {.nlmsg_len = sizeof(question),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST,
			.nlmsg_seq = ++asked},
		.request = {.sdiag_family = AF_INET,
			.sdiag_protocol = IPPROTO_TCP,
			.id = {.idiag_sport = from->sin_port,
				.idiag_dport = to->sin_port,
				.idiag_src = {from->sin_addr.s_addr},
				.idiag_dst = {to->sin_addr.s_addr},
				.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
	};

	return question;
}

/* Reads an answer of @n bytes to the question numbered @asked. Returns whether it is one. */
static bool read_answer(
	const struct nlmsghdr *header, size_t n, uint32_t asked, struct witness *ret)
{
	const struct inet_diag_msg *message = NLMSG_DATA(header);

	if (n < sizeof(*header) || !NLMSG_OK(header, n) || header->nlmsg_seq != asked ||
		header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
		header->nlmsg_len < NLMSG_LENGTH(sizeof(*message)))
		return false;
	*ret = (struct witness){.state = message->idiag_state,
		.from = message->id.idiag_sport,
		.to = message->id.idiag_dport,
		.cgroup = sock_diag_cgroup(header)};
	return true;
}

/*
 * Asks for the socket that is at @from and connected to @to. The kernel answers within send(2). An
 * answer to an earlier question is read, and dropped.
 */
static bool ask_sock_diag(
	int diag, const struct sockaddr_in *from, const struct sockaddr_in *to, struct witness *ret)
{
	struct question question = question_of(from, to);
	static union {
		struct nlmsghdr header;
		char bytes[4096];
	} answer;
	ssize_t n;

	while (recv(diag, answer.bytes, sizeof(answer), MSG_DONTWAIT) > 0)
		continue;
	if (send(diag, &question, sizeof(question), MSG_DONTWAIT) < 0)
		return false;
	n = recv(diag, answer.bytes, sizeof(answer), MSG_DONTWAIT);
	return n > 0 && read_answer(&answer.header, (size_t)n, question.header.nlmsg_seq, ret);
}

/* Returns false if our end is not connected any more. */
static bool names_of(int client, struct sockaddr_in *ret_ours, struct sockaddr_in *ret_theirs)
{
	socklen_t ours_len = sizeof(*ret_ours), theirs_len = sizeof(*ret_theirs);

	return getsockname(client, (struct sockaddr *)ret_ours, &ours_len) == 0 &&
	       getpeername(client, (struct sockaddr *)ret_theirs, &theirs_len) == 0 &&
	       ret_ours->sin_family == AF_INET;
}

/*
 * A client that has reset its connection leaves its port to others, while the connection still
 * waits to be accepted. Who then has the port must not be taken for the client: a socket that
 * listens there, or is about to connect, is told by its state, and one that is connected by our own
 * end, which ends before another can be connected with the same addresses. So our end is looked at
 * again in the end.
 */
uint64_t attribution_cgroup(const struct cell *cell, int client)
{
	struct sockaddr_in ours = {0}, theirs = {0};
	struct witness witness;

	if (cell->diag < 0 || !names_of(client, &ours, &theirs) ||
		!ask_sock_diag(cell->diag, &theirs, &ours, &witness) ||
		!(CONNECTED & 1U << (witness.state & 31)) || witness.from != theirs.sin_port ||
		witness.to != ours.sin_port || !names_of(client, &ours, &theirs))
		return 0;
	return witness.cgroup;
}

bool attribution_is_told(const struct cell *cell)
{
	struct sockaddr_in proxy = {0}, nobody = {.sin_family = AF_INET};
	socklen_t len = sizeof(proxy);
	struct witness witness;

	return cell->diag >= 0 &&
	       getsockname(cell->doors[0].fd, (struct sockaddr *)&proxy, &len) == 0 &&
	       ask_sock_diag(cell->diag, &proxy, &nobody, &witness) && witness.cgroup != 0;
}

static uint64_t by_cgroup(const struct cell *cell, uint64_t cgroup)
{
	for (size_t i = 0; cgroup != 0 && i < cell->n_commands; i++)
		if (cell->commands[i].cgroup == cgroup)
			return cell->commands[i].number;
	return 0;
}

static bool is_of_command(uint32_t address)
{
	return (address & CALL_MASK) == CALL_NETWORK && (address & ~CALL_MASK) != 0;
}

static uint64_t by_address(const struct cell *cell, uint32_t address)
{
	uint16_t wanted = (uint16_t)(address & ~CALL_MASK);

	if (!is_of_command(address))
		return 0;
	for (size_t i = 0; i < cell->n_commands; i++)
		if (cell->commands[i].address == wanted)
			return cell->commands[i].number;
	return 0;
}

static uint64_t only(const struct cell *cell)
{
	return cell->n_commands == 1 ? cell->commands[0].number : 0;
}

uint64_t attribution_of(const struct cell *cell, int client, uint64_t cgroup)
{
	struct sockaddr_in ours = {0};
	socklen_t len = sizeof(ours);
	uint64_t call;

	if (cell->diag >= 0)
		return by_cgroup(cell, cgroup);
	if (getsockname(client, (struct sockaddr *)&ours, &len) < 0 || ours.sin_family != AF_INET)
		return 0;
	call = by_address(cell, ntohl(ours.sin_addr.s_addr));
	/* An address of a command that has ended: what it left must not look like another's. */
	return call != 0 || is_of_command(ntohl(ours.sin_addr.s_addr)) ? call : only(cell);
}

uint64_t attribution_of_datagram(const struct cell *cell)
{
	return only(cell);
}
