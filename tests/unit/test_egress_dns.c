/* links: cloister-egress-core */
// SPDX-License-Identifier: Apache-2.0
/* Questions to the DNS stub, its answers, and heads of clients that know no proxy. */
#include "egress/protocol/dns_question.h"
#include "egress/protocol/http_head.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>

#define BYTES(literal) ((struct text){literal, sizeof(literal) - 1})
#define HEADER         "\x12\x34\1\0\0\1\0\0\0\0\0\0"

static void check_name(struct text packet, const char *host)
{
	struct dns_question question;

	assert_int_equal(dns_question_parse(packet, &question), 0);
	assert_int_equal(question.has_host, host != NULL);
	if (host)
		assert_string_equal(question.host.text, host);
}

TEST(test_questions)
{
	const struct text good = BYTES(HEADER "\1A\7example\0\0\1\0\1");
	struct dns_question question;

	check_name(good, "a.example");
	check_name(BYTES(HEADER "\1a\7example\0\0\34\0\1"), "a.example");
	check_name(BYTES(HEADER "\0\0\1\0\1"), NULL);
	check_name(BYTES(HEADER "\11a.example\0\0\1\0\1"), NULL);
	check_name(BYTES(HEADER "\3a\0b\7example\0\0\1\0\1"), NULL);
	check_name(BYTES(HEADER "\003127\0010\0010\0011\0\0\1\0\1"), NULL);
	for (size_t n = 0; n < good.len; n++)
		assert_int_equal(
			dns_question_parse((struct text){good.data, n}, &question), -EBADMSG);
	assert_int_equal(dns_question_parse(BYTES(HEADER "\300\14\0\1\0\1"), &question), -EBADMSG);
	assert_int_equal(dns_question_parse(BYTES(HEADER "\1a\0\0\1\0\3"), &question), -EBADMSG);
	assert_int_equal(
		dns_question_parse(BYTES("\x12\x34\x81\0\0\1\0\0\0\0\0\0\1a\0\0\1\0\1"), &question),
		-EBADMSG);
	assert_int_equal(
		dns_question_parse(BYTES("\x12\x34\1\0\0\2\0\0\0\0\0\0\1a\0\0\1\0\1"), &question),
		-EBADMSG);
}

TEST(test_answers)
{
	/* With an additional record, of EDNS, which the answer leaves out. */
	const struct text packet = BYTES("\x12\x34\1\0\0\1\0\0\0\0\0\1\1a\0\0\1\0\1\0\0\51");
	const struct in_addr address = {.s_addr = htonl(0x7f010001)};
	const char expected[] = "\x12\x34\x81\x80\0\1\0\1\0\0\0\0\1a\0\0\1\0\1"
				"\300\14\0\1\0\1\0\0\0\0\0\4\177\1\0\1";
	uint8_t reply[DNS_PACKET_BYTES];
	struct dns_question question;

	assert_int_equal(dns_question_parse(packet, &question), 0);
	assert_int_equal(dns_answer_put(packet, &question, DNS_ADDRESS, &address, reply),
		sizeof(expected) - 1);
	assert_memory_equal(reply, expected, sizeof(expected) - 1);
	assert_int_equal(dns_answer_put(packet, &question, DNS_NO_NAME, &address, reply), 19);
	assert_memory_equal(reply, "\x12\x34\x81\x83\0\1\0\0\0\0\0\0\1a\0\0\1\0\1", 19);
	question.asks_ipv4 = false;
	assert_int_equal(dns_answer_put(packet, &question, DNS_ADDRESS, &address, reply), 19);
}

static void check_origin(const char *head, int expected, const char *host)
{
	struct http_head parsed;
	int r = http_head_parse_origin(text_from(head), &parsed);

	if (r != expected)
		fail_msg("%s: %d", head, r);
	if (host)
		assert_string_equal(parsed.host.text, host);
}

TEST(test_origin_form)
{
	check_origin("GET /x HTTP/1.1\r\nHost: A.example\r\n\r\n", 0, "a.example");
	check_origin("OPTIONS * HTTP/1.1\r\nhost:a.example:80\r\n\r\n", 0, "a.example");
	check_origin("GET / HTTP/1.1\r\nHost: a.example:81\r\n\r\n", -EINVAL, NULL);
	check_origin("GET / HTTP/1.1\r\nHost: \r\n\r\n", -EINVAL, NULL);
	check_origin("GET / HTTP/1.1\r\n\r\n", -EINVAL, NULL);
	check_origin("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", -EBADMSG, NULL);
	check_origin("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", -EBADMSG, NULL);
	check_origin("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", -EBADMSG, NULL);
}
