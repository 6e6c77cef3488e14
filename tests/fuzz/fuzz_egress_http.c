/* links: cloister-egress-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * The first HTTP head of a proxy's client, and of one that knows no proxy. What the host gets has
 * one end, one Host, which is the one that was judged, and no line that the client has not sent
 * whole. No head is of both forms.
 *
 * Input: the client's bytes.
 */
#include "egress/protocol/http_head.h"
#include "tests/fuzz/fuzz.h"

#include <strings.h>

static void check_rewritten(const struct http_head *head)
{
	struct byte_queue queue = {0};
	struct text text, line;
	struct host host;
	uint16_t port;
	unsigned hosts = 0;

	CHECK(http_head_rewrite(head, &queue) == 0);
	text = byte_queue_peek(&queue);
	CHECK(http_head_end(text, 0) == text.len);
	CHECK(memchr(text.data, '\0', text.len) == NULL);
	text.len -= 2;
	text_take(&text, '\n');
	while (text.len > 0) {
		line = text_take(&text, '\n');
		CHECK(line.len > 1 && line.data[line.len - 1] == '\r');
		CHECK(memchr(line.data, '\r', line.len) == line.data + line.len - 1);
		if (line.len <= 5 || strncasecmp(line.data, "host:", 5) != 0)
			continue;
		hosts++;
		line = (struct text){line.data + 6, line.len - 7};
		CHECK(host_port_parse(line, 80, &host, &port) == 0);
		CHECK(host_equal(&host, &head->host) && port == head->port);
	}
	CHECK(hosts == 1);
	byte_queue_free(&queue);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = fuzz_copy(fuzz_text(data, size));
	struct text text = {copy, size};
	size_t end = http_head_end(text, 0);
	struct text whole = {copy, end ? end : size};
	struct http_head head, other;
	bool is_origin;

	(void)http_head_target(text);
	(void)http_head_host(text);
	is_origin = http_head_parse_origin(whole, &other) == 0;
	if (is_origin) {
		CHECK(end > 0 && other.port == 80 && other.host.len > 0);
		check_rewritten(&other);
	}
	if (http_head_parse(whole, &head) == 0) {
		CHECK(end > 0 && !is_origin);
		CHECK(head.port != 0 && head.host.len > 0);
		if (head.kind == HTTP_ABSOLUTE)
			check_rewritten(&head);
	}
	free(copy);
	return 0;
}
