/* links: cloister-egress-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * A request for a secret's host, whole. What the host gets is one request as a strict server reads
 * it: one Host, at most one field of framing, none of the fields that carry credentials; its body
 * ends where that field says, and cutting the input into other pieces changes nothing.
 *
 * Input: a byte that chooses where to cut, the client's bytes.
 */
#include "common/cleanup.h"
#include "egress/protocol/http_head.h"
#include "tests/fuzz/fuzz.h"

#include <strings.h>

struct counts {
	unsigned hosts, framings;
};

static bool is_field(struct text line, const char *name)
{
	return line.len > strlen(name) && strncasecmp(line.data, name, strlen(name)) == 0 &&
	       line.data[strlen(name)] == ':';
}

static void check_line(struct text line, struct counts *counts)
{
	static const char *const forbidden[] = {
		"authorization", "proxy-authorization", "cookie", "x-api-key", "x-own", "upgrade"};

	CHECK(line.len > 1 && line.data[line.len - 1] == '\r');
	CHECK(memchr(line.data, '\r', line.len) == line.data + line.len - 1);
	CHECK(line.data[0] != ' ' && line.data[0] != '\t');
	counts->hosts += is_field(line, "host");
	counts->framings += is_field(line, "content-length") || is_field(line, "transfer-encoding");
	for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++)
		CHECK(!is_field(line, forbidden[i]));
}

static void check_rewritten(const struct http_head *head, const struct http_body *body)
{
	struct byte_queue queue = {0};
	struct counts counts = {0};
	struct host host;
	struct text text;

	CHECK(host_parse(TEXT_LITERAL("api.test"), &host) == 0);
	if (http_head_rewrite_for(head, &host, 443, TEXT_LITERAL("X-Own"), body, &queue) == 0) {
		text = byte_queue_peek(&queue);
		CHECK(!text_has_nul(text) && !memmem(text.data, text.len, "\r\n\r\n", 4));
		text_take(&text, '\n');
		while (text.len > 0)
			check_line(text_take(&text, '\n'), &counts);
		CHECK(counts.hosts == 1);
		CHECK(counts.framings == (body->framing != HTTP_NO_BODY));
	}
	byte_queue_free(&queue);
}

/* The end of the body as a plain reader finds it, in what has been accepted as one. */
static size_t reference_end(struct text bytes)
{
	size_t at = 0;

	while (true) {
		size_t size = strtoull(bytes.data + at, NULL, 16);
		const char *line = memmem(bytes.data + at, bytes.len - at, "\r\n", 2);

		CHECK(line);
		at = (size_t)(line - bytes.data) + 2 + size + 2;
		CHECK(at <= bytes.len && memcmp(bytes.data + at - 2, "\r\n", 2) == 0);
		if (size == 0)
			return at;
	}
}

static void check_body(struct http_body body, struct text bytes, size_t cut)
{
	struct http_body other = body;
	struct text first = {bytes.data, cut < bytes.len ? cut : bytes.len};
	ssize_t whole = http_body_take(&body, bytes), n = http_body_take(&other, first), more = 0;

	if (n >= 0)
		more = http_body_take(&other, (struct text){bytes.data + n, bytes.len - (size_t)n});
	CHECK((n < 0 || more < 0) == (whole < 0));
	if (whole < 0)
		return;
	CHECK(n + more == whole && (size_t)whole <= bytes.len);
	CHECK(http_body_is_over(&body) == http_body_is_over(&other));
	CHECK(http_body_is_over(&body) || (size_t)whole == bytes.len);
	if (body.framing == HTTP_CHUNKED && http_body_is_over(&body))
		CHECK(reference_end(bytes) == (size_t)whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t cut = size > 0 ? data[0] : 0;
	char *copy = fuzz_copy(fuzz_text(data + (size > 0), size - (size > 0)));
	struct text text = {copy, size - (size > 0)};
	size_t end = http_head_end(text, 0);
	struct http_head head;
	struct http_body body;

	if (end > 0 &&
		(http_head_parse((struct text){copy, end}, &head) == 0 ||
			http_head_parse_origin((struct text){copy, end}, &head) == 0) &&
		http_head_body(&head, &body) == 0) {
		check_rewritten(&head, &body);
		check_body(body, (struct text){copy + end, text.len - end}, cut);
	}
	free(copy);
	return 0;
}
