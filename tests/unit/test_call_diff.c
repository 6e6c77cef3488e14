/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* The result of workspace.diff, from frames of a files process that lies. */
#include "supervisor/call/request/call_request.h"
#include "supervisor/call/result/call_result.h"
#include "supervisor/call/result/observation.h"
#include "tests/lib/unit.h"

#include <event2/buffer.h>

static uint8_t payload[WIRE_PAYLOAD_MAX];

static int give(struct call_result *result, uint8_t type, struct text text)
{
	return call_result_add(result, &(struct channel_frame){.type = type, .payload = text});
}

static int give_change(struct call_result *result, const struct files_change *change)
{
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	files_change_put(&writer, change);
	return give(result, FILES_CHANGE, (struct text){(char *)payload, writer.len});
}

static int give_totals(struct call_result *result, uint64_t number)
{
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	files_totals_put(&writer, &(struct files_totals){number, number, number, number, number});
	return give(result, FILES_TOTALS, (struct text){(char *)payload, writer.len});
}

static struct files_change change_of(const char *path)
{
	return (struct files_change){.path = text_from(path),
		.before = {.type = FILES_TYPE_FILE, .size = 1, .mode = 0644},
		.after = {.type = FILES_TYPE_SYMLINK, .size = UINT64_MAX, .mode = 0777}};
}

static const struct call_request plain = {.tool = &tool_diff},
				 patched = {.tool = &tool_diff, .args = {.as_patch = true}};

static void check(struct call_result *result, const char *expected)
{
	struct observation observation = {0};
	struct files_end end = {0};
	size_t len;

	assert_int_equal(call_result_finish(result), 0);
	call_result_tell(result, &end, &observation);
	len = evbuffer_get_length(observation.items);
	assert_int_equal(len, strlen(expected));
	assert_memory_equal(evbuffer_pullup(observation.items, -1), expected, len);
	call_result_done(result);
}

#define BEFORE        "\"before\":{\"type\":\"file\",\"size\":1,\"mode\":\"0644\"}"
#define AFTER         "\"after\":{\"type\":\"symlink\",\"size\":18446744073709551615,\"mode\":\"0777\"}"
#define CHANGED(path) "{\"path\":\"" path "\",\"change\":\"changed\"," BEFORE "," AFTER

TEST(test_changes_and_their_patches)
{
	struct files_change change = change_of("a");
	struct call_result result;

	assert_int_equal(call_result_begin(&result, &patched), 0);
	/* Before the first change it belongs to nothing. */
	assert_int_equal(give(&result, FILES_DATA, TEXT_LITERAL("lost")), 0);
	assert_int_equal(give_change(&result, &change), 0);
	assert_int_equal(give(&result, FILES_DATA, TEXT_LITERAL("x\"")), 0);
	assert_int_equal(give(&result, FILES_DATA, TEXT_LITERAL("\xff\n")), 0);
	change = change_of("b\x1b");
	assert_int_equal(give_change(&result, &change), 0);
	assert_int_equal(give_totals(&result, UINT64_MAX), 0);
	check(&result,
		"[" CHANGED("a") ",\"patch\":\"x\\\"\xef\xbf\xbd\\n\"}," CHANGED("b\\u001b") "}]");
	assert_int_equal(call_result_begin(&result, &plain), 0);
	check(&result, "[]");
}

TEST(test_what_is_no_answer)
{
	struct files_change change = change_of("a");
	struct call_result result;

	assert_int_equal(call_result_begin(&result, &plain), 0);
	assert_int_equal(give(&result, FILES_DATA, TEXT_LITERAL("not asked for")), -EBADMSG);
	assert_int_equal(give(&result, FILES_ENTRY, TEXT_LITERAL("")), -EBADMSG);
	assert_int_equal(give(&result, FILES_CHANGE, TEXT_LITERAL("short")), -EBADMSG);
	assert_int_equal(give(&result, FILES_TOTALS, TEXT_LITERAL("short")), -EBADMSG);
	change.before.type = change.after.type = 0;
	assert_int_equal(give_change(&result, &change), -EBADMSG);
	change = change_of("a");
	change.after.type = FILES_TYPE_UNKNOWN + 1;
	assert_int_equal(give_change(&result, &change), -EBADMSG);
	change = change_of("a");
	change.before.mode = 010000;
	assert_int_equal(give_change(&result, &change), -EBADMSG);
	check(&result, "[]");
}

TEST(test_more_than_there_may_be)
{
	static char text[60000];
	struct files_change change = change_of("a");
	struct call_result result;
	uint64_t sent = 0;

	assert_int_equal(call_result_begin(&result, &patched), 0);
	for (int i = 0; i < LIMIT_DIFF_CHANGES + 100; i++)
		assert_int_equal(give_change(&result, &change), 0);
	assert_int_equal(result.count, LIMIT_DIFF_CHANGES);
	assert_true(result.cut);
	memset(text, 'x', sizeof(text));
	while (sent + sizeof(text) <= LIMIT_DIFF_PATCH_BYTES) {
		/* A patch of what is not listed is not kept. */
		assert_int_equal(give(&result, FILES_DATA, (struct text){text, sizeof(text)}), 0);
		sent += sizeof(text);
	}
	assert_int_equal(give(&result, FILES_DATA, (struct text){text, sizeof(text)}), -EBADMSG);
	assert_true(call_result_size(&result) < LIMIT_RESULT_BYTES);
	call_result_drop(&result);
	assert_int_equal(give_change(&result, &change), 0);
	assert_int_equal(call_result_size(&result), 0);
	call_result_done(&result);
}
