// SPDX-License-Identifier: Apache-2.0
/* Runs in cloister-egress. Pure functions on a client's bytes, of which none is trusted. */
#include "egress/protocol/dns_question.h"

#include <errno.h>

enum {
	HEADER_BYTES = 12,
	TYPE_A = 1,
	CLASS_IN = 1,
	RESPONSE = 0x80, /* QR, in the third byte */
	OPCODE = 0x78,   /* a standard query has 0 */
	TRUNCATED = 0x02,
	RECURSION_DESIRED = 0x01,
	RECURSION_AVAILABLE = 0x80, /* in the fourth byte */
	LABEL_BYTES = 63,
};

static uint16_t number_at(struct text packet, size_t i)
{
	return (uint16_t)((uint8_t)packet.data[i] << 8 | (uint8_t)packet.data[i + 1]);
}

/* Reads the name at *@at, with dots between its labels. Returns false if it has no end. */
static bool take_name(struct text packet, size_t *at, char ret[256], size_t *ret_len)
{
	size_t len = 0;

	for (;;) {
		size_t n;

		if (*at >= packet.len)
			return false;
		n = (uint8_t)packet.data[(*at)++];
		if (n == 0)
			break;
		/* Pointers have no place in the only name of a packet. */
		if (n > LABEL_BYTES || n > packet.len - *at || len + n + 1 > 255)
			return false;
		/* A dot in a label would be read as the border of two. */
		if (memchr(packet.data + *at, '.', n))
			ret[len++] = ' ';
		memcpy(ret + len, packet.data + *at, n);
		len += n;
		ret[len++] = '.';
		*at += n;
	}
	*ret_len = len;
	return true;
}

int dns_question_parse(struct text packet, struct dns_question *ret)
{
	struct dns_question question = {0};
	char name[256];
	size_t at = HEADER_BYTES, len;

	if (packet.len < HEADER_BYTES || packet.len > DNS_PACKET_BYTES ||
		packet.data[2] & (RESPONSE | OPCODE) || number_at(packet, 4) != 1 ||
		!take_name(packet, &at, name, &len) || packet.len - at < 4 ||
		number_at(packet, at + 2) != CLASS_IN)
		return -EBADMSG;
	question.asks_ipv4 = number_at(packet, at) == TYPE_A;
	question.len = at + 4;
	question.has_host = host_parse((struct text){name, len}, &question.host) == 0 &&
			    question.host.kind == HOST_NAME;
	*ret = question;
	return 0;
}

size_t dns_answer_put(struct text packet, const struct dns_question *question,
	enum dns_answer answer, const struct in_addr *address, uint8_t ret[DNS_PACKET_BYTES])
{
	/* The name of the question, type A, class IN, time to live 0, four bytes. */
	static const uint8_t record[] = {
		0xc0, HEADER_BYTES, 0, TYPE_A, 0, CLASS_IN, 0, 0, 0, 0, 0, 4};
	bool has_record = answer == DNS_ADDRESS && question->asks_ipv4 &&
			  question->len + sizeof(record) + sizeof(*address) <= DNS_PACKET_BYTES;
	size_t len = question->len;

	memcpy(ret, packet.data, len);
	ret[2] = (uint8_t)(RESPONSE | (packet.data[2] & RECURSION_DESIRED) |
			   (answer == DNS_ASK_BY_TCP ? TRUNCATED : 0));
	ret[3] = (uint8_t)(RECURSION_AVAILABLE | (answer == DNS_NO_NAME ? answer : 0));
	/* One question, no record of any section but perhaps one answer. */
	memset(ret + 6, 0, 6);
	ret[7] = has_record;
	if (!has_record)
		return len;
	memcpy(ret + len, record, sizeof(record));
	memcpy(ret + len + sizeof(record), address, sizeof(*address));
	return len + sizeof(record) + sizeof(*address);
}
