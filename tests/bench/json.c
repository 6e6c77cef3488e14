// SPDX-License-Identifier: Apache-2.0
/*
 * Compares cloister's JSON reader with json-c's own parser, in nanoseconds, on a request, a long
 * text and many values.
 */
#include "common/limits.h"
#include "tests/bench/bench.h"
#include "json/json_read.h"

#include <json-c/json.h>

static void read_ours(struct text text)
{
	const struct json_bounds bounds = json_request_bounds(text.len);
	struct json_object *value = NULL;
	struct json_report report;

	if (json_read(text, &bounds, &value, &report) < 0)
		abort();
	json_object_put(value);
}

static void read_theirs(struct text text)
{
	static struct json_tokener *tokener;

	if (!tokener)
		tokener = json_tokener_new_ex(LIMIT_JSON_DEPTH);
	json_tokener_reset(tokener);
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	json_object_put(json_tokener_parse_ex(tokener, text.data, (int)text.len));
}

/* Returns the shortest time of a few turns with one text. */
static double measure(void (*read_text)(struct text text), struct text text)
{
	size_t n = (4 << 20) / text.len + 1;
	double best = 0;

	for (int turn = 0; turn < 5; turn++) {
		double began = bench_now_us(), took;

		for (size_t i = 0; i < n; i++)
			read_text(text);
		took = (bench_now_us() - began) / (double)n;
		if (turn == 0 || took < best)
			best = took;
	}
	return best * 1e3;
}

static void compare(const char *name, struct text text)
{
	double ours = measure(read_ours, text), theirs = measure(read_theirs, text);

	printf("%-12s %8zu bytes: %9.0f ns, json-c %9.0f ns, %.2f of it\n", name, text.len, ours,
		theirs, ours / theirs);
}

static struct text repeat(const char *head, const char *part, size_t n, const char *tail)
{
	size_t len = strlen(head), part_len = strlen(part);
	char *text = malloc(len + n * part_len + strlen(tail) + 1);

	if (!text)
		abort();
	memcpy(text, head, len);
	for (size_t i = 0; i < n; i++, len += part_len)
		memcpy(text + len, part, part_len);
	strcpy(text + len, tail);
	return text_from(text);
}

int main(void)
{
	static const char request[] =
		"{\"jsonrpc\":\"2.0\",\"id\":42,\"method\":\"tool.call\",\"params\":{\"tool\":"
		"\"run_command\",\"arguments\":{\"command\":\"make -j4 test 2>&1 | tail -n 50; "
		"echo \\\"exit: $?\\\"\",\"timeout_ms\":30000},\"options\":{\"env\":{\"LANG\":"
		"\"C.UTF-8\",\"TERM\":\"dumb\"},\"stream\":true,\"line_numbers\":false}}}";
	struct text plain = repeat("\"", "the quick brown fox jumps over it", 30000, "\"");
	struct text lines = repeat("\"", "the quick brown fox jumps over it\\n", 30000, "\"");
	struct text values = repeat("[0", ",{\"a\":[1,true,null]}", 3000, "]");

	compare("request", TEXT_LITERAL(request));
	compare("plain text", plain);
	compare("lines", lines);
	compare("values", values);
	free((char *)plain.data);
	free((char *)lines.data);
	free((char *)values.data);
	return 0;
}
