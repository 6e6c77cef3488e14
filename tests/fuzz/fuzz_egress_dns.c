/* links: cloister-egress-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * Questions to the DNS stub. Every answer is one that the stub itself would not take for a
 * question, repeats the question, and has the records that it says.
 *
 * Input: the client's packet.
 */
#include "egress/protocol/dns_question.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct in_addr address = {.s_addr = 1};
	char *copy = fuzz_copy(fuzz_text(data, size));
	struct text packet = {copy, size};
	struct dns_question question, again;
	uint8_t reply[DNS_PACKET_BYTES];
	size_t len;

	if (dns_question_parse(packet, &question) == 0) {
		CHECK(question.len <= size && size <= DNS_PACKET_BYTES);
		CHECK(!question.has_host || question.host.kind == HOST_NAME);
		len = dns_answer_put(packet, &question, DNS_ADDRESS, &address, reply);
		CHECK(len == question.len + (reply[7] ? 16 : 0));
		CHECK(memcmp(reply + 12, copy + 12, question.len - 12) == 0);
		CHECK(dns_question_parse((struct text){(char *)reply, len}, &again) < 0);
	}
	free(copy);
	return 0;
}
