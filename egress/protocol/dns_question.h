/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A question to a DNS server, and the few answers that the stub gives: RFC 1035. */

#include "common/egress/host.h"

#define DNS_PACKET_BYTES 512 /* of a UDP message without EDNS */

enum dns_answer {
	DNS_ADDRESS = 0, /* one IPv4 address if that was asked for, otherwise no record */
	DNS_NO_NAME = 3, /* NXDOMAIN: there is no such name */
	DNS_ASK_BY_TCP,  /* no error and no record, but more than UDP carries: TC */
};

struct dns_question {
	size_t len; /* of the header and the question */
	bool asks_ipv4;
	bool has_host; /* otherwise the name is none of a host */
	struct host host;
};

/** Parses a packet with exactly one question. Returns 0, or -EBADMSG: it gets no answer. */
int dns_question_parse(struct text packet, struct dns_question *ret);

/**
 * Writes the answer to @packet into @answer and returns its length, at most DNS_PACKET_BYTES.
 * @address is what DNS_ADDRESS gives. Clients keep no answer: its time to live is 0.
 */
size_t dns_answer_put(struct text packet, const struct dns_question *question,
	enum dns_answer answer, const struct in_addr *address, uint8_t ret[DNS_PACKET_BYTES]);
