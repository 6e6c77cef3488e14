/* links: cloister-egress-core */
// SPDX-License-Identifier: Apache-2.0
/* What a client's first bytes are read as: HTTP heads, SOCKS messages and TLS ClientHellos. */
#include "egress/protocol/client_hello.h"
#include "egress/protocol/http_head.h"
#include "egress/protocol/socks.h"
#include "tests/lib/unit.h"

static void check_head(const char *head, int expected, const char *host, unsigned port)
{
	struct http_head parsed;
	int r = http_head_parse(text_from(head), &parsed);

	if (r != expected)
		fail_msg("%s: %d", head, r);
	if (r < 0)
		return;
	assert_string_equal(parsed.host.text, host);
	assert_int_equal(parsed.port, port);
}

TEST(test_heads)
{
	check_head("CONNECT A.Example:443 HTTP/1.1\r\n\r\n", 0, "a.example", 443);
	check_head("CONNECT [::1]:443 HTTP/1.0\r\nHost: x\r\n\r\n", 0, "::1", 443);
	check_head("CONNECT a.example HTTP/1.1\r\n\r\n", -EINVAL, NULL, 0);
	check_head("CONNECT http://a.example:1 HTTP/1.1\r\n\r\n", -EINVAL, NULL, 0);
	check_head("CONNECT a.example:443/ HTTP/1.1\r\n\r\n", -EINVAL, NULL, 0);
	check_head("CONNECT b@a.example:443 HTTP/1.1\r\n\r\n", -EINVAL, NULL, 0);
	check_head("GET http://a.example/ HTTP/1.1\r\n\r\n", 0, "a.example", 80);
	check_head("GET HTTP://a.example:8080?x HTTP/1.1\r\n\r\n", 0, "a.example", 8080);
	check_head("GET http://a.example HTTP/1.1\r\n\r\n", 0, "a.example", 80);
	check_head("GET http://b@a.example/ HTTP/1.1\r\n\r\n", -EINVAL, NULL, 0);
	check_head("GET http://a.example\\@b/ HTTP/1.1\r\n\r\n", -EINVAL, NULL, 0);
	check_head("GET http:///x HTTP/1.1\r\n\r\n", -EINVAL, NULL, 0);
	check_head("GET http://a.example/#x HTTP/1.1\r\n\r\n", -EBADMSG, NULL, 0);
	check_head("GET https://a.example/ HTTP/1.1\r\n\r\n", -EPROTONOSUPPORT, NULL, 0);
	check_head("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", -EBADMSG, NULL, 0);
	check_head("GET http://a.example/ HTTP/2.0\r\n\r\n", -EBADMSG, NULL, 0);
	check_head("GET http://a.example/ HTTP/1.1 \r\n\r\n", -EBADMSG, NULL, 0);
	check_head("GET  http://a.example/ HTTP/1.1\r\n\r\n", -EBADMSG, NULL, 0);
	check_head("GET\thttp://a.example/ HTTP/1.1\r\n\r\n", -EBADMSG, NULL, 0);
	check_head("GET http://a.example/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n", -EBADMSG, NULL, 0);
	check_head("GET http://a.example/ HTTP/1.1\r\nA : b\r\n\r\n", -EBADMSG, NULL, 0);
	check_head("GET http://a.example/ HTTP/1.1\r\nAb\r\n\r\n", -EBADMSG, NULL, 0);
	check_head("GET http://a.example/ HTTP/1.1\r\nA: b\nHost: c\r\n\r\n", -EBADMSG, NULL, 0);
	check_head("GET http://a.example/ HTTP/1.1\r\nA: b\rc\r\n\r\n", -EBADMSG, NULL, 0);
	check_head("GET http://a.example/ HTTP/1.1\n\n", -EBADMSG, NULL, 0);
	check_head("\r\nGET http://a.example/ HTTP/1.1\r\n\r\n", -EBADMSG, NULL, 0);
	check_head("\r\n\r\n", -EBADMSG, NULL, 0);
	check_head("", -EBADMSG, NULL, 0);
}

TEST(test_head_end)
{
	const char *head = "GET http://a/ HTTP/1.1\r\nA: b\r\n\r\nbody";
	struct text target = http_head_target(text_from(head));

	assert_int_equal(http_head_end(text_from(head), 0), strlen(head) - 4);
	for (size_t seen = 0; seen < strlen(head) - 4; seen++) {
		assert_int_equal(http_head_end((struct text){head, seen}, 0), 0);
		assert_int_equal(http_head_end(text_from(head), seen), strlen(head) - 4);
	}
	assert_true(text_equal(target, TEXT_LITERAL("http://a/")));
	assert_int_equal(http_head_target(text_from("GET")).len, 0);
	assert_int_equal(http_head_target(text_from("")).len, 0);
}

TEST(test_many_fields)
{
	char head[LIMIT_EGRESS_FIELDS * 8 + 100] = "GET http://a/ HTTP/1.1\r\n";
	struct http_head parsed;

	for (unsigned i = 0; i < LIMIT_EGRESS_FIELDS; i++)
		strcat(head, "A: b\r\n");
	strcat(head, "\r\n");
	assert_int_equal(http_head_parse(text_from(head), &parsed), 0);
	head[strlen(head) - 2] = '\0';
	strcat(head, "A: b\r\n\r\n");
	assert_int_equal(http_head_parse(text_from(head), &parsed), -EBADMSG);
}

/* Each field is compared with each word of Connection: there are few, however long the head is. */
TEST(test_many_words)
{
	char head[LIMIT_EGRESS_HEAD_BYTES] = "GET http://a/ HTTP/1.1\r\nConnection: ";
	size_t begin = strlen(head);
	struct http_head parsed;

	for (unsigned i = 0; i < HTTP_HEAD_NAMED; i++)
		strcat(head, "a, ");
	strcat(head, ",, ,\r\n\r\n");
	assert_int_equal(http_head_parse(text_from(head), &parsed), 0);
	head[begin] = '\0';
	for (unsigned i = 0; i < HTTP_HEAD_NAMED; i++)
		strcat(head, "a,");
	strcat(head, "\r\nconnection:a\r\n\r\n");
	assert_int_equal(http_head_parse(text_from(head), &parsed), -EBADMSG);
}

static void check_rewrite(const char *head, const char *expected)
{
	struct byte_queue queue = {0};
	struct http_head parsed;

	assert_int_equal(http_head_parse(text_from(head), &parsed), 0);
	assert_int_equal(http_head_rewrite(&parsed, &queue), 0);
	if (!text_equal(byte_queue_peek(&queue), text_from(expected)))
		fail_msg("%s\nbecame\n%.*s", head, (int)queue.len, byte_queue_peek(&queue).data);
	byte_queue_free(&queue);
}

TEST(test_rewrite)
{
	check_rewrite("GET http://A.example/x?y HTTP/1.1\r\nHost: evil\r\nhost: evil2\r\nX: y\r\n"
		      "Proxy-Authorization: z\r\nConnection: keep-alive, x-hop\r\nX-Hop: 1\r\n\r\n",
		"GET /x?y HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nX: y\r\n\r\n");
	check_rewrite("POST http://a.example:81 HTTP/1.0\r\nContent-Length: 3\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.example:81\r\nConnection: close\r\n"
		"Content-Length: 3\r\n\r\n");
	check_rewrite(
		"GET http://[::1]/ HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: [::1]\r\nConnection: Upgrade\r\nUpgrade: "
		"websocket\r\n\r\n");
	check_rewrite("GET http://a.example/ HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\n"
		      "Upgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
	check_rewrite("GET http://a.example?q HTTP/1.1\r\n\r\n",
		"GET /?q HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
	check_rewrite("OPTIONS http://a.example HTTP/1.1\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
	/* A client cannot have the body's length removed, and with it choose where it ends. */
	check_rewrite("POST http://a.example/ HTTP/1.1\r\nConnection: content-length\r\n"
		      "Content-Length: 3\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n"
		"Content-Length: 3\r\n\r\n");
}

#define POST "POST http://s.cloister.internal/ HTTP/1.1\r\n"

static void check_framing(const char *head, int expected, unsigned framing, uint64_t left)
{
	struct http_body body = {0};
	struct http_head parsed;
	int r;

	assert_int_equal(http_head_parse(text_from(head), &parsed), 0);
	r = http_head_body(&parsed, &body);
	if (r != expected || body.framing != framing || body.left != left)
		fail_msg("%s: %d, %u, %llu", head, r, body.framing, (unsigned long long)body.left);
}

TEST(test_framing)
{
	check_framing(POST "\r\n", 0, HTTP_NO_BODY, 0);
	check_framing(POST "Content-Length: 0042 \r\n\r\n", 0, HTTP_LENGTH, 42);
	check_framing(POST "content-length:999999999999999999\r\n\r\n", 0, HTTP_LENGTH,
		999999999999999999);
	check_framing(POST "Transfer-Encoding: Chunked\r\n\r\n", 0, HTTP_CHUNKED, 0);
	check_framing(POST "Content-Length: 1000000000000000000\r\n\r\n", -EBADMSG, 0, 0);
	check_framing(POST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", -EBADMSG, 0, 0);
	check_framing(POST "Content-Length: 1\r\ncontent_length: 1\r\n\r\n", -EBADMSG, 0, 0);
	check_framing(
		POST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", -EBADMSG, 0, 0);
	check_framing(POST "Content-Length: 1,1\r\n\r\n", -EBADMSG, 0, 0);
	check_framing(POST "Content-Length: 1 1\r\n\r\n", -EBADMSG, 0, 0);
	check_framing(POST "Content-Length:\r\n\r\n", -EBADMSG, 0, 0);
	check_framing(POST "Content-Length: -1\r\n\r\n", -EBADMSG, 0, 0);
	check_framing(POST "Transfer-Encoding: chunked, chunked\r\n\r\n", -EBADMSG, 0, 0);
	check_framing(POST "Transfer-Encoding: gzip\r\n\r\n", -EBADMSG, 0, 0);
	check_framing(
		"POST http://a/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", -EBADMSG, 0, 0);
}

/* Gives a body in two pieces, cut at each place, and checks how much of it is the body's. */
static void check_body(struct http_body begun, struct text bytes, ssize_t expected)
{
	for (size_t cut = 0; cut <= bytes.len; cut++) {
		struct http_body body = begun;
		ssize_t n = http_body_take(&body, (struct text){bytes.data, cut}), more = 0;

		if (n >= 0)
			more = http_body_take(
				&body, (struct text){bytes.data + n, bytes.len - (size_t)n});
		if ((n < 0 ? n : more < 0 ? more : n + more) != expected)
			fail_msg("%.*s, cut at %zu: %zd and %zd", (int)bytes.len, bytes.data, cut,
				n, more);
		if (expected >= 0)
			assert_true(http_body_is_over(&body));
	}
}

TEST(test_body)
{
	static const char *const broken[] = {"5;a=b\r\n", "5 \r\n", " 5\r\n", "5\n", "\r\n",
		"0x5\r\n", "-5\r\n", "g\r\n", "5\r\nhellox", "5\r\nhello\n", "5\r\nhello\rx",
		"0\r\nX: y\r\n\r\n", "0\r\n\n", "0\r\n\rx", "1234567890123456\r\n"};
	const struct http_body chunks = {.framing = HTTP_CHUNKED};

	check_body((struct http_body){.framing = HTTP_NO_BODY}, text_from("GET /"), 0);
	check_body((struct http_body){.framing = HTTP_LENGTH, .left = 3}, text_from("abcGET"), 3);
	check_body(chunks, text_from("0\r\n\r\nGET"), 5);
	check_body(chunks, text_from("5\r\nhello\r\n00a\r\n0123456789\r\n000\r\n\r\nGET"), 34);
	for (size_t i = 0; i < ARRAY_SIZE(broken); i++)
		check_body(chunks, text_from(broken[i]), -EBADMSG);
}

static void check_rewrite_for(const char *head, int expected, const char *rewritten)
{
	struct byte_queue queue = {0};
	struct http_head parsed;
	struct http_body body;
	struct host host;
	int r;

	assert_int_equal(host_parse(text_from("[::1]"), &host), 0);
	assert_int_equal(http_head_parse(text_from(head), &parsed), 0);
	assert_int_equal(http_head_body(&parsed, &body), 0);
	r = http_head_rewrite_for(&parsed, &host, 443, text_from("X-Own"), &body, &queue);
	if (r != expected || (r == 0 && !text_equal(byte_queue_peek(&queue), text_from(rewritten))))
		fail_msg("%s\nbecame %d\n%.*s", head, r, (int)queue.len,
			byte_queue_peek(&queue).data);
	byte_queue_free(&queue);
}

#define AS_POST "POST / HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n"

TEST(test_rewrite_for)
{
	static const char *const kept_back[] = {"Host", "Connection", "Keep-Alive",
		"Proxy-Connection", "Proxy-Authorization", "TE", "Trailer", "Upgrade",
		"HTTP2-Settings", "Authorization", "Cookie", "X-Api-Key", "Api-Key",
		"X-Goog-Api-Key", "X-Auth-Token", "Private-Token", "X-Own", "x-own", "X_Own",
		"AUTHORIZATION", "x_api_key", "X-Hop"};
	char head[300];

	for (size_t i = 0; i < ARRAY_SIZE(kept_back); i++) {
		snprintf(head, sizeof(head),
			POST "%s: forged\r\nConnection: x-hop, close\r\nA: b\r\n\r\n",
			kept_back[i]);
		check_rewrite_for(head, 0, AS_POST "A: b\r\n");
	}
	check_rewrite_for(POST "Content-Length: 007\r\nA: b\r\n\r\n", 0,
		AS_POST "A: b\r\nContent-Length: 7\r\n");
	check_rewrite_for(POST "Transfer-Encoding:  CHUNKED\r\n\r\n", 0,
		AS_POST "Transfer-Encoding: chunked\r\n");
	check_rewrite_for("GET http://a?b HTTP/1.1\r\n\r\n", 0,
		"GET /?b HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n");
	check_rewrite_for("TRACE http://a/ HTTP/1.1\r\n\r\n", -EBADMSG, NULL);
	check_rewrite_for("Track http://a/ HTTP/1.1\r\n\r\n", -EBADMSG, NULL);
	check_rewrite_for("CONNECT a:80 HTTP/1.1\r\n\r\n", -EBADMSG, NULL);
}

#define BYTES(literal) ((struct text){literal, sizeof(literal) - 1})

TEST(test_socks_greeting)
{
	size_t len = 0;
	bool accepts = true;

	assert_int_equal(socks_greeting_parse(BYTES("\5\2\1\0x"), &len, &accepts), 1);
	assert_int_equal(len, 4);
	assert_true(accepts);
	assert_int_equal(socks_greeting_parse(BYTES("\5\1\2"), &len, &accepts), 1);
	assert_false(accepts);
	assert_int_equal(socks_greeting_parse(BYTES("\5\0"), &len, &accepts), 1);
	assert_false(accepts);
	assert_int_equal(socks_greeting_parse(BYTES("\5"), &len, &accepts), 0);
	assert_int_equal(socks_greeting_parse(BYTES("\5\2\0"), &len, &accepts), 0);
	assert_int_equal(socks_greeting_parse(BYTES("\4\1\0"), &len, &accepts), -EBADMSG);
}

static void check_socks(struct text bytes, const char *host, unsigned port)
{
	struct socks_request request;

	for (size_t n = 0; n < bytes.len; n++)
		assert_int_equal(socks_request_parse((struct text){bytes.data, n}, &request), 0);
	assert_int_equal(socks_request_parse(bytes, &request), 1);
	assert_int_equal(request.len, bytes.len);
	assert_int_equal(request.has_host, host != NULL);
	if (host)
		assert_string_equal(request.host.text, host);
	assert_int_equal(request.port, port);
}

TEST(test_socks_request)
{
	struct socks_request request;

	check_socks(BYTES("\5\1\0\1\177\0\0\1\1\273"), "127.0.0.1", 443);
	check_socks(BYTES("\5\1\0\3\11A.example\0\120"), "a.example", 80);
	check_socks(BYTES("\5\1\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\120"), "::1", 80);
	check_socks(BYTES("\5\1\0\3\13a\0b.example\0\120") /* NUL in the name */, NULL, 80);
	check_socks(BYTES("\5\1\0\3\0\0\120"), NULL, 80);
	check_socks(BYTES("\5\1\0\3\1a\0\0"), NULL, 0);
	assert_int_equal(socks_request_parse(BYTES("\5\2\0\3\1a\0\120"), &request), 1);
	assert_false(request.is_connect);
	assert_int_equal(socks_request_parse(BYTES("\5\1\0\2\1a\0\120"), &request), -EAFNOSUPPORT);
	assert_int_equal(socks_request_parse(BYTES("\5\1\1\1\1\1\1\1\1\1"), &request), -EBADMSG);
	assert_int_equal(socks_request_parse(BYTES("\4\1\0\1\1\1\1\1\1\1"), &request), -EBADMSG);
}

struct hello {
	uint8_t bytes[600];
	size_t len;
};

static void put(struct hello *hello, size_t value, size_t n)
{
	while (n-- > 0)
		hello->bytes[hello->len++] = (uint8_t)(value >> (8 * n));
}

/* A ClientHello whose extensions are @extensions; no block of them with @extensions.data NULL. */
static struct hello made_hello(struct text extensions)
{
	size_t body = 2 + 32 + 1 + 2 + 2 + 1 + 1 + (extensions.data ? 2 + extensions.len : 0);
	struct hello hello = {.len = 0};

	put(&hello, 22, 1);
	put(&hello, 0x0301, 2);
	put(&hello, body + 4, 2);
	put(&hello, 1, 1);
	put(&hello, body, 3);
	put(&hello, 0x0303, 2);
	hello.len += 32;
	put(&hello, 0, 1);
	put(&hello, 2, 2);
	put(&hello, 0x1301, 2);
	put(&hello, 1, 1);
	put(&hello, 0, 1);
	if (extensions.data) {
		put(&hello, extensions.len, 2);
		memcpy(hello.bytes + hello.len, extensions.data, extensions.len);
		hello.len += extensions.len;
	}
	return hello;
}

#define NAME_A "\0\0\0\16\0\14\0\0\11A.example"

static int hello_name(const struct hello *hello, struct host *ret)
{
	size_t needed;

	return client_hello_name(
		(struct text){(const char *)hello->bytes, hello->len}, &needed, ret);
}

static void check_extensions(struct text extensions, int expected)
{
	struct hello hello = made_hello(extensions);
	struct host host;

	assert_int_equal(hello_name(&hello, &host), expected);
}

TEST(test_client_hello)
{
	struct hello hello = made_hello(BYTES("\0\53\0\3\2\3\4" NAME_A));
	struct host host;
	size_t needed;

	for (size_t n = 0; n < hello.len; n++) {
		struct text part = {(char *)hello.bytes, n};

		assert_int_equal(client_hello_name(part, &needed, &host), 0);
		assert_int_equal(needed, n < 5 ? 9 : hello.len);
	}
	assert_int_equal(hello_name(&hello, &host), 1);
	assert_string_equal(host.text, "a.example");
	check_extensions((struct text){NULL, 0}, -ENOENT);
	check_extensions(BYTES(""), -ENOENT);
	check_extensions(BYTES("\0\53\0\3\2\3\4"), -ENOENT);
	check_extensions(BYTES(NAME_A NAME_A), -EBADMSG);
	check_extensions(BYTES("\0\0\0\17\0\14\0\0\11A.examplex"), -EBADMSG);
	check_extensions(BYTES("\0\0\0\16\0\14\1\0\11A.example"), -EBADMSG);
	check_extensions(BYTES("\0\0\0\32\0\30\0\0\11A.example\0\0\11B.example"), -EBADMSG);
	check_extensions(BYTES("\0\0\0\16\0\14\0\0\11A.exa\0ple"), -EINVAL);
	check_extensions(BYTES("\0\0\0\16\0\14\0\0\12A.example"), -EBADMSG);
	check_extensions(BYTES("\0\0\0\0"), -EBADMSG);
	assert_int_equal(client_hello_name(BYTES("GET / HTTP/1.1\r\n"), &needed, &host), -EBADMSG);
	assert_int_equal(client_hello_name(BYTES("S"), &needed, &host), -EBADMSG);
	assert_int_equal(client_hello_name(BYTES("\26\3\1\0\0"), &needed, &host), -EBADMSG);
	assert_int_equal(client_hello_name(BYTES("\26\3\1\100\1"), &needed, &host), -EBADMSG);
}

/* A ClientHello may come in several records; so it may not hide its name behind their borders. */
TEST(test_split_hello)
{
	struct hello whole = made_hello(BYTES(NAME_A)), split = {.len = 0};
	struct host host;

	for (size_t at = 5; at < whole.len; at += 7) {
		size_t n = whole.len - at < 7 ? whole.len - at : 7;

		put(&split, 22, 1);
		put(&split, 0x0301, 2);
		put(&split, n, 2);
		memcpy(split.bytes + split.len, whole.bytes + at, n);
		split.len += n;
	}
	assert_int_equal(hello_name(&split, &host), 1);
	assert_string_equal(host.text, "a.example");
}

/* Byte by byte, in the smallest records, a hello is read a few times, and not at each byte. */
TEST(test_hello_in_crumbs)
{
	static char bytes[6 * LIMIT_EGRESS_HELLO_BYTES];
	const size_t length = 4000;
	struct host host;
	size_t len = 0, needed = 0, n_read = 0;
	int r = 0;

	for (size_t at = 0; at < length; at++) {
		char byte = (char)(at == 0   ? 1
				   : at == 2 ? (length - 4) >> 8
				   : at == 3 ? length - 4
					     : 0);

		memcpy(bytes + 6 * at, "\26\3\1\0\1", 5);
		bytes[6 * at + 5] = byte;
	}
	for (; r == 0 && len <= 6 * length; len++) {
		if (len < needed)
			continue;
		r = client_hello_name((struct text){bytes, len}, &needed, &host);
		n_read++;
	}
	/* All of it has been read, and its version is none. */
	assert_int_equal(r, -EBADMSG);
	assert_int_equal(len - 1, 6 * length);
	assert_in_range(n_read, 10, 100);
}

TEST(test_long_hello)
{
	static char bytes[LIMIT_EGRESS_HELLO_BYTES + 100] = "\26\3\1\0\4\1\1\0\0";
	struct host host;
	size_t needed;

	assert_int_equal(client_hello_name((struct text){bytes, 9}, &needed, &host), -E2BIG);
	memcpy(bytes, "\26\3\1\0\4\1\0\77\374", 9); /* 16380 and its header: the most */
	assert_int_equal(client_hello_name((struct text){bytes, 9}, &needed, &host), 0);
	memcpy(bytes, "\26\3\1\0\4\1\0\77\375", 9);
	assert_int_equal(client_hello_name((struct text){bytes, 9}, &needed, &host), -E2BIG);
}
