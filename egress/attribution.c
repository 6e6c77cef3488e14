// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress. The kernel is asked for the client's end of a connection, because an
 * accepted socket has the cgroup of its listener. sock_diag(7)
 */
#include "common/cleanup.h"
#include "egress/egress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>

#define CALL_NETWORK 0x7f400000U /* 127.64.0.0/16 */
#define CALL_MASK    0xffff0000U
#define CGROUP_ID    21 /* INET_DIAG_CGROUP_ID, Linux 5.8 */

struct question {
	struct nlmsghdr header;
	struct inet_diag_req_v2 request;
};

/* The client's source is the proxy's peer. */
static struct question question_of(
	uint8_t protocol, const struct sockaddr_in *client, const struct sockaddr_in *proxy)
{
	struct question question = {
		.header = {.nlmsg_len = sizeof(question),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST},
		.request = {.sdiag_family = AF_INET,
			.sdiag_protocol = protocol,
			.id = {.idiag_sport = client->sin_port,
				.idiag_dport = proxy->sin_port,
				.idiag_src = {client->sin_addr.s_addr},
				.idiag_dst = {proxy->sin_addr.s_addr},
				.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
	};

	return question;
}

/* Finds the cgroup's inode in an answer of @n bytes; 0 if there is none. */
static uint64_t cgroup_in(const struct nlmsghdr *header, size_t n)
{
	const struct inet_diag_msg *message = NLMSG_DATA(header);
	const struct rtattr *attribute;
	uint64_t cgroup;
	size_t left;

	if (n < sizeof(*header) || !NLMSG_OK(header, n) ||
		header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
		header->nlmsg_len < NLMSG_LENGTH(sizeof(*message)))
		return 0;
	left = header->nlmsg_len - NLMSG_LENGTH(sizeof(*message));
	for (attribute = (const void *)(message + 1); RTA_OK(attribute, left);
		attribute = RTA_NEXT(attribute, left)) {
		if (attribute->rta_type != CGROUP_ID || RTA_PAYLOAD(attribute) != sizeof(cgroup))
			continue;
		memcpy(&cgroup, RTA_DATA(attribute), sizeof(cgroup));
		return cgroup;
	}
	return 0;
}

/* The kernel answers within send(2). An answer to an earlier question is read, and dropped. */
static uint64_t cgroup_of(int diag, uint8_t protocol, const struct sockaddr_in *client,
	const struct sockaddr_in *proxy)
{
	struct question question = question_of(protocol, client, proxy);
	static union {
		struct nlmsghdr header;
		char bytes[4096];
	} answer;
	ssize_t n;

	while (recv(diag, answer.bytes, sizeof(answer), MSG_DONTWAIT) > 0)
		continue;
	if (send(diag, &question, sizeof(question), MSG_DONTWAIT) < 0)
		return 0;
	n = recv(diag, answer.bytes, sizeof(answer), MSG_DONTWAIT);
	return n > 0 ? cgroup_in(&answer.header, (size_t)n) : 0;
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

uint64_t attribution_of(struct cell *cell, int client)
{
	struct sockaddr_in ours = {0}, theirs = {0};
	socklen_t ours_len = sizeof(ours), theirs_len = sizeof(theirs);
	uint64_t call = 0;

	if (getsockname(client, (struct sockaddr *)&ours, &ours_len) < 0 ||
		getpeername(client, (struct sockaddr *)&theirs, &theirs_len) < 0 ||
		ours.sin_family != AF_INET)
		return 0;
	if (cell->diag >= 0)
		call = by_cgroup(cell, cgroup_of(cell->diag, IPPROTO_TCP, &theirs, &ours));
	if (call == 0)
		call = by_address(cell, ntohl(ours.sin_addr.s_addr));
	/* An address of a command that has ended: what it left must not look like another's. */
	if (call == 0 && is_of_command(ntohl(ours.sin_addr.s_addr)))
		return 0;
	return call == 0 && cell->n_commands == 1 ? cell->commands[0].number : call;
}

uint64_t attribution_of_datagram(struct cell *cell, const struct sockaddr_in *client)
{
	struct sockaddr_in ours = {0};
	socklen_t len = sizeof(ours);
	uint64_t call = 0;

	/* Of UDP the kernel takes source and destination the other way round. */
	if (cell->diag >= 0 && getsockname(cell->dns, (struct sockaddr *)&ours, &len) == 0)
		call = by_cgroup(cell, cgroup_of(cell->diag, IPPROTO_UDP, &ours, client));
	return call == 0 && cell->n_commands == 1 ? cell->commands[0].number : call;
}
