/* links: cloister-egress-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * The first HTTP head of a proxy's client. What the host gets has one end, one Host, which is the
 * one that was judged, and no line that the client has not sent whole.
 *
 * Input: the client's bytes.
 */
#include "egress/http_head.h"
#include "tests/fuzz/fuzz.h"

#include <strings.h>

static void check_rewritten(const struct http_head *head)
{
	struct byte_queue queue = {0};
	struct text text, line;
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
		hosts += line.len > 5 && strncasecmp(line.data, "host:", 5) == 0;
	}
	CHECK(hosts == 1);
	byte_queue_free(&queue);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = fuzz_copy(fuzz_text(data, size));
	struct text text = {copy, size};
	size_t end = http_head_end(text, 0);
	struct http_head head;

	(void)http_head_target(text);
	if (http_head_parse((struct text){copy, end ? end : size}, &head) == 0) {
		CHECK(end > 0);
		CHECK(head.port != 0 && head.host.len > 0);
		if (head.kind == HTTP_ABSOLUTE)
			check_rewritten(&head);
	}
	free(copy);
	return 0;
}
