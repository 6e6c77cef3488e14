/* links: cloister-gate-core */
/* SPDX-License-Identifier: Apache-2.0 */

#include "gate/mcp/message.h"
#include "tests/lib/unit.h"
#include "json/json_read.h"

#include <json-c/json_object.h>

static int read_text(const char *text, struct mcp_message *ret)
{
	struct json_bounds bounds = json_request_bounds(strlen(text));
	const char *fault;

	return mcp_message_read(text_from(text), &bounds, ret, &fault);
}

TEST(test_ids_are_kept_as_they_came)
{
	static const char *const ids[] = {"0", "-1", "9007199254740993", "9223372036854775807",
		"18446744073709551615", "\"\"", "\"1\"", "\"a/b\"", "\"\\u0000\"", "\"\\\"\""};
	struct mcp_message message;
	char text[128];

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"m\"}",
			ids[i]);
		assert_true(read_text(text, &message) == 0);
		assert_true(message.kind == MCP_REQUEST && strcmp(message.id, ids[i]) == 0);
		mcp_message_done(&message);
	}
}

TEST(test_kinds)
{
	static const struct {
		const char *text;
		int code;
		enum mcp_kind kind;
	} rows[] = {
		{"{\"jsonrpc\":\"2.0\",\"method\":\"m\"}", 0, MCP_NOTIFICATION},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", 0, MCP_RESPONSE},
		{"{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-1}}", 0, MCP_RESPONSE},
		{"{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"m\"}", MCP_INVALID_REQUEST, 0},
		{"{\"jsonrpc\":\"2.0\",\"id\":1e1,\"method\":\"m\"}", MCP_INVALID_REQUEST, 0},
		{"{\"jsonrpc\":\"2.0\",\"method\":\"m\\u0000\"}", MCP_INVALID_REQUEST, 0},
		{"{\"jsonrpc\":2.0,\"method\":\"m\"}", MCP_INVALID_REQUEST, 0},
		{"{\"jsonrpc\":\"2.0\"}", MCP_INVALID_REQUEST, 0},
		{"[]", MCP_INVALID_REQUEST, 0},
		{"null", MCP_INVALID_REQUEST, 0},
		{"", MCP_PARSE_ERROR, 0},
		{"{}{}", MCP_PARSE_ERROR, 0},
	};
	struct mcp_message message;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_true(read_text(rows[i].text, &message) == rows[i].code);
		if (rows[i].code != 0)
			continue;
		assert_true(message.kind == rows[i].kind);
		mcp_message_done(&message);
	}
}

TEST(test_members_that_are_none)
{
	static const char *const texts[] = {
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":null}",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[]}",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"_meta\":1,"
		"\"requestId\":{}}}",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"_meta\":{"
		"\"progressToken\":[]}}}",
	};
	static const char *const path[] = {"params", "_meta", "v", NULL};
	struct mcp_message message;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_true(read_text(texts[i], &message) == 0);
		assert_true(!mcp_message_progress_token(&message));
		assert_true(!mcp_message_cancelled(&message));
		assert_true(!mcp_message_string(&message, path));
		assert_true(mcp_message_error(&message) == 0);
		mcp_message_done(&message);
	}
}

TEST(test_errors_have_their_id)
{
	struct json_object *error = mcp_message_make_error("\"a\"", MCP_INVALID_REQUEST, "no");

	assert_true(strcmp(json_object_to_json_string_ext(error, JSON_C_TO_STRING_PLAIN),
			    "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"error\":{\"code\":-32600,"
			    "\"message\":\"no\"}}") == 0);
	json_object_put(error);
}
