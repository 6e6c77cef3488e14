/* links: cloister-gate-core */
/* SPDX-License-Identifier: Apache-2.0 */

#include "common/egress/host.h"
#include "gate/head.h"
#include "tests/lib/unit.h"

#define FIELDS_MAX 4

static const struct {
	const char *method, *target, *version;
	struct gate_field fields[FIELDS_MAX]; /* besides Host */
	unsigned status;                      /* 0: it is taken */
} rows[] = {
	{"GET", "/", "HTTP/1.1", {{0}}, 0},
	{"POST", "/a?b=c", "HTTP/1.0", {{"Content-Length", "3"}}, 0},
	{"PUT", "/", "HTTP/1.1", {{"Transfer-Encoding", "Chunked"}}, 0},
	{"get", "/", "HTTP/1.1", {{0}}, 501},
	{"CONNECT", "h:1", "HTTP/1.1", {{0}}, 501},
	{"TRACE", "/", "HTTP/1.1", {{0}}, 501},
	{"GET", "http://h/", "HTTP/1.1", {{0}}, 400},
	{"GET", "*", "HTTP/1.1", {{0}}, 400},
	{"GET", "", "HTTP/1.1", {{0}}, 400},
	{"GET", "/a#b", "HTTP/1.1", {{0}}, 400},
	{"GET", "/a\rb", "HTTP/1.1", {{0}}, 400},
	{"GET", "/", "HTTP/1.2", {{0}}, 505},
	{"GET", "/", "HTTP/2.0", {{0}}, 505},
	{"GET", "/", "http/1.1", {{0}}, 505},
	{"GET", "/", "HTTP/1.1", {{"a b", "c"}}, 400},
	{"GET", "/", "HTTP/1.1", {{"Content-Length ", "3"}}, 400},
	{"GET", "/", "HTTP/1.1", {{"Content-Length\t", "3"}}, 400},
	{"GET", "/", "HTTP/1.1", {{" X", "3"}}, 400},
	{"GET", "/", "HTTP/1.1", {{"", "3"}}, 400},
	{"GET", "/", "HTTP/1.1", {{"X", "a\rb"}}, 400},
	{"GET", "/", "HTTP/1.1", {{"X", "a\nb"}}, 400},
	{"GET", "/", "HTTP/1.1", {{"X", "a\x01"}}, 400},
	{"GET", "/", "HTTP/1.1", {{"X", "a\tb \xc3\xa4"}}, 0},
	/* What libmicrohttpd 0.9 makes of a value on a continuation line. */
	{"POST", "/", "HTTP/1.1", {{"Content-Length5", ""}}, 400},
	{"POST", "/", "HTTP/1.1", {{"transfer-encodingchunked", ""}}, 400},
	{"POST", "/", "HTTP/1.1", {{"Content-Length", "3"}, {"Content-Length", "5"}}, 400},
	{"POST", "/", "HTTP/1.1", {{"Content-Length", "3"}, {"content-length", "3"}}, 400},
	{"POST", "/", "HTTP/1.1", {{"Content-Length", "3, 3"}}, 400},
	{"POST", "/", "HTTP/1.1", {{"Content-Length", "+3"}}, 400},
	{"POST", "/", "HTTP/1.1", {{"Content-Length", "-3"}}, 400},
	{"POST", "/", "HTTP/1.1", {{"Content-Length", "0x3"}}, 400},
	{"POST", "/", "HTTP/1.1", {{"Content-Length", ""}}, 400},
	{"POST", "/", "HTTP/1.1", {{"Content-Length", "3"}, {"Transfer-Encoding", "chunked"}}, 400},
	{"POST", "/", "HTTP/1.0", {{"Transfer-Encoding", "chunked"}}, 400},
	{"POST", "/", "HTTP/1.1", {{"Transfer-Encoding", "xchunked"}}, 501},
	{"POST", "/", "HTTP/1.1", {{"Transfer-Encoding", "gzip, chunked"}}, 501},
	{"POST", "/", "HTTP/1.1", {{"Transfer-Encoding", "chunked, identity"}}, 501},
	{"POST", "/", "HTTP/1.1", {{"Transfer-Encoding", "identity"}}, 501},
	{"POST", "/", "HTTP/1.1",
		{{"Transfer-Encoding", "chunked"}, {"Transfer-Encoding", "identity"}}, 400},
	{"POST", "/", "HTTP/1.1", {{"Expect", "100-continue"}}, 0},
	{"POST", "/", "HTTP/1.1", {{"Expect", "200-ok"}}, 417},
	{"GET", "/", "HTTP/1.1", {{"Host", "h"}}, 400}, /* a second one */
	{"GET", "/", "HTTP/1.1", {{"Authorization", "a"}, {"authorization", "b"}}, 400},
	{"GET", "/", "HTTP/1.1", {{"Origin", "a"}, {"Origin", "b"}}, 400},
};

TEST(test_heads)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct gate_field fields[FIELDS_MAX + 1] = {{"Host", "h"}};
		struct gate_head head = {
			rows[i].method, rows[i].target, rows[i].version, fields, 1};
		struct gate_refusal refusal = {0};

		while (head.n_fields <= FIELDS_MAX && rows[i].fields[head.n_fields - 1].name) {
			fields[head.n_fields] = rows[i].fields[head.n_fields - 1];
			head.n_fields++;
		}
		if (gate_head_check(&head, &refusal) != !rows[i].status ||
			refusal.status != rows[i].status)
			fail_msg("row %zu: %u %s", i, refusal.status,
				refusal.message ? refusal.message : "");
	}
}

TEST(test_a_head_without_host)
{
	const struct gate_head head = {"GET", "/", "HTTP/1.1", NULL, 0};
	struct gate_refusal refusal;

	assert_false(gate_head_check(&head, &refusal));
	assert_int_equal(refusal.status, 400);
}

TEST(test_hosts)
{
	static const struct {
		const char *value, *host; /* host NULL: it is none */
		bool is_loopback;
	} hosts[] = {
		{"Example.ORG:8080", "example.org", false},
		{"localhost", "localhost", true},
		{"LOCALHOST.:1", "localhost", true},
		{"3000-abc.localhost", "3000-abc.localhost", true},
		{"notlocalhost", "notlocalhost", false},
		{"localhost.example.org", "localhost.example.org", false},
		{"127.0.0.1:7080", "127.0.0.1", true},
		{"127.1", "127.0.0.1", true},
		{"[::1]:80", "::1", true},
		{"[::1", NULL, false},
		{"a@b", NULL, false},
		{"a/b", NULL, false},
		{"a b", NULL, false},
		{"a:b", NULL, false},
		{"a:99999", NULL, false},
		{"", NULL, false},
		{":80", NULL, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		struct host host;
		bool is_host = gate_host_read(hosts[i].value, &host);

		if (is_host != (hosts[i].host != NULL))
			fail_msg("%s", hosts[i].value);
		if (!is_host)
			continue;
		assert_string_equal(host.text, hosts[i].host);
		assert_int_equal(gate_host_is_loopback(host.text), hosts[i].is_loopback);
	}
}
