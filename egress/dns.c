// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress. For programs that know no proxy: each name that a rule allows has one
 * and the same address inside, at which connections to ports 80 and 443 come here and name their
 * host themselves. Nothing is asked of a DNS server: a question alone carries nothing out.
 */
#include "common/cleanup.h"
#include "egress/egress.h"
#include "egress/protocol/dns_question.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <sys/socket.h>

#define FAKE_ADDRESS 0x7f010001U /* 127.1.0.1 */

/* Returns the reason against @host on both of the ports that are served, or 0. */
static struct verdict judge_dns_name(const struct cell *cell, const struct host *host)
{
	const struct egress_tenant *policy = cell->tenant->policy;
	const struct rules *narrowed = cell->is_narrowed ? &cell->narrowed : NULL;
	struct verdict verdict = {.reason = EGRESS_NOT_ALLOWED};
	const struct secret *secret;

	if (!policy)
		return verdict;
	if (secret_is_asked(host))
		return secret_judge(&policy->secrets, &policy->deny, narrowed, host, &secret);
	verdict = rules_judge(&policy->allow, &policy->deny, narrowed, host, 443);
	return verdict.reason == 0 ? verdict
				   : rules_judge(&policy->allow, &policy->deny, narrowed, host, 80);
}

/* Tells cloisterd of a refused name. Returns false if that has not been taken yet. */
static bool tell_denied(
	struct cell *cell, uint64_t call, const struct host *host, const struct verdict *verdict)
{
	struct egress_command *command = cell_command(cell, call);
	struct egress_denied denied = {.call = call,
		.host = host_text(host),
		.reason = (uint8_t)verdict->reason,
		.via = EGRESS_VIA_DNS,
		.rule = verdict->rule ? text_from(verdict->rule->written) : (struct text){"", 0}};
	uint8_t bytes[1024];
	struct wire_writer writer = wire_writer(bytes, sizeof(bytes));

	if (command)
		command->sums.denied++;
	egress_denied_put(&writer, &denied);
	return egress_send(cell->egress, EGRESS_DENIED, cell->number, &writer);
}

size_t dns_answer(
	struct cell *cell, uint64_t call, struct text packet, uint8_t *reply, bool *ret_told)
{
	const struct in_addr fake = {.s_addr = htonl(FAKE_ADDRESS)};
	struct verdict verdict = {.reason = EGRESS_BAD_REQUEST};
	struct dns_question question;

	*ret_told = true;
	if (dns_question_parse(packet, &question) < 0)
		return 0;
	if (question.has_host)
		verdict = judge_dns_name(cell, &question.host);
	/* Whose a datagram is, the kernel cannot say; of a connection it does. */
	if (verdict.reason != 0 && call == 0 && cell->diag >= 0)
		return dns_answer_put(packet, &question, DNS_ASK_BY_TCP, &fake, reply);
	/*
	 * Resolvers ask for IPv6 at the same time, which is not a second refusal.
	 */
	if (verdict.reason != 0 && question.has_host && question.asks_ipv4)
		*ret_told = tell_denied(cell, call, &question.host, &verdict);
	return dns_answer_put(
		packet, &question, verdict.reason == 0 ? DNS_ADDRESS : DNS_NO_NAME, &fake, reply);
}

/* Receives a datagram, and when it was sent, which stays as it is if the kernel does not say. */
static ssize_t receive_dns(int fd, char packet[static DNS_PACKET_BYTES + 1],
	struct sockaddr_in *client, struct timespec *ret_when)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(struct timespec))];
	} control;
	struct iovec space = {packet, DNS_PACKET_BYTES + 1};
	struct msghdr message = {.msg_name = client,
		.msg_namelen = sizeof(*client),
		.msg_iov = &space,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)};
	ssize_t len = recvmsg(fd, &message, MSG_DONTWAIT);
	struct cmsghdr *header = len < 0 ? NULL : CMSG_FIRSTHDR(&message);

	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_TIMESTAMPNS)
		memcpy(ret_when, CMSG_DATA(header), sizeof(*ret_when));
	if (len >= 0 && message.msg_namelen != sizeof(*client))
		client->sin_family = AF_UNSPEC;
	return len;
}

/* What was sent before a command ended may be that command's, and is nobody's. */
static uint64_t call_of(const struct cell *cell, const struct timespec *when)
{
	const struct timespec *end = &cell->command_ended;
	bool is_left = when->tv_sec < end->tv_sec ||
		       (when->tv_sec == end->tv_sec && when->tv_nsec <= end->tv_nsec);

	return cell->diag >= 0 && is_left ? 0 : attribution_of_datagram(cell);
}

static void answer_next(struct cell *cell)
{
	char packet[DNS_PACKET_BYTES + 1];
	uint8_t reply[DNS_PACKET_BYTES];
	struct sockaddr_in client = {0};
	struct timespec when = {0};
	size_t answered;
	bool told;
	ssize_t len = receive_dns(cell->dns, packet, &client, &when);

	if (len < 0 || client.sin_family != AF_INET || cell_is_dear(cell))
		return;
	answered = dns_answer(
		cell, call_of(cell, &when), (struct text){packet, (size_t)len}, reply, &told);
	/* A client without an answer asks again. */
	if (answered == 0 || !told)
		return;
	wake_cost_begin();
	(void)!sendto(cell->dns, reply, answered, MSG_DONTWAIT | MSG_NOSIGNAL,
		(const void *)&client, sizeof(client));
	cell_calls_ended(cell);
}

void dns_serve(evutil_socket_t fd, short what, void *context)
{
	struct cell *cell = context;

	(void)fd;
	(void)what;
	if (egress_is_behind(cell->egress)) {
		cell_pause_dns(cell);
		return;
	}
	/* One in a turn of the loop: the name of a later one's call may still be in the channel. */
	answer_next(cell);
}
