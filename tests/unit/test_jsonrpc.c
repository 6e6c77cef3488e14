/* links: cloister-supervisor */
/* SPDX-License-Identifier: Apache-2.0 */

#include "supervisor/base/json_text.h"
#include "supervisor/connection/jsonrpc.h"
#include "tests/lib/unit.h"

#include <event2/buffer.h>
#include <json-c/json.h>

#define CALL "\"jsonrpc\":\"2.0\",\"method\":\"m\""

static void assert_request(const char *line, const char *id_text, const char *params)
{
	struct jsonrpc_request request;
	struct jsonrpc_fault fault;
	int result = jsonrpc_parse(text_from(line), SIZE_MAX, &request, &fault);

	if (result < 0)
		fail_msg("%s: %s", line, fault.message);
	assert_true(text_equal(request.method, TEXT_LITERAL("m")));
	assert_true(request.notification == !id_text);
	if (id_text)
		assert_string_equal(request.id_text, id_text);
	else
		assert_null(request.id_text);
	assert_string_equal(
		json_object_to_json_string_ext(request.params, JSON_C_TO_STRING_PLAIN), params);
	jsonrpc_request_free(&request);
}

static void assert_fault_of(struct text line, enum jsonrpc_code code, const char *id_text)
{
	struct jsonrpc_request request;
	struct jsonrpc_fault fault;
	int result = jsonrpc_parse(line, SIZE_MAX, &request, &fault);

	if (result != -EBADMSG)
		fail_msg("accepted: %.*s", (int)line.len, line.data);
	if (fault.code != code)
		fail_msg("%d for %.*s", fault.code, (int)line.len, line.data);
	assert_false(fault.notification);
	assert_true(strlen(fault.message) > 0);
	if (id_text)
		assert_string_equal(fault.id_text, id_text);
	else
		assert_null(fault.id_text);
	jsonrpc_fault_free(&fault);
}

static void assert_fault(const char *line, enum jsonrpc_code code, const char *id_text)
{
	assert_fault_of(text_from(line), code, id_text);
}

TEST(test_requests)
{
	assert_request("{" CALL ",\"id\":1}", "1", "{}");
	assert_request("{" CALL ",\"id\":-7,\"params\":{}}", "-7", "{}");
	assert_request("{" CALL ",\"id\":9223372036854775807}", "9223372036854775807", "{}");
	assert_request("{" CALL ",\"id\":-9223372036854775808}", "-9223372036854775808", "{}");
	assert_request("{" CALL ",\"id\":18446744073709551615}", "18446744073709551615", "{}");
	assert_request("{" CALL ",\"id\":18446744073709551614}", "18446744073709551614", "{}");
	assert_request("{" CALL ",\"id\":\"\"}", "\"\"", "{}");
	assert_request("{" CALL ",\"id\":\"a/b\\u00e9\\\"\\n\\u0000\"}",
		"\"a/b\xc3\xa9\\\"\\n\\u0000\"", "{}");
	assert_request(" {\t" CALL " , \"params\" : {\"a\":[1,{}]} } \r", NULL, "{\"a\":[1,{}]}");
	assert_request("{" CALL ",\"params\":{\"n\":[0,-0.5e-05,1E+3,10.01]}}", NULL,
		"{\"n\":[0,-0.5e-05,1E+3,10.01]}");
	assert_request("{" CALL ",\"params\":{\"s\":\"N \\\\\\u0000 01 ,\"}}", NULL,
		"{\"s\":\"N \\\\\\u0000 01 ,\"}");
}

/* A method may be any string; an unknown one is found later. */
TEST(test_method_may_hold_a_nul)
{
	struct jsonrpc_request request;
	struct jsonrpc_fault fault;

	assert_int_equal(
		jsonrpc_parse(TEXT_LITERAL("{\"jsonrpc\":\"2.0\",\"method\":\"m\\u0000x\"}"),
			SIZE_MAX, &request, &fault),
		0);
	assert_true(text_equal(request.method, TEXT_LITERAL("m\0x")));
	jsonrpc_request_free(&request);
	jsonrpc_request_free(&request);
}

TEST(test_invalid_requests)
{
	static const struct {
		const char *line;
		const char *id_text;
	} cases[] = {
		{"[]", NULL},
		{"[{" CALL ",\"id\":1}]", NULL},
		{"1", NULL},
		{"\"x\"", NULL},
		{"null", NULL},
		{"true", NULL},
		{"{}", NULL},
		{"{\"method\":\"m\",\"id\":1}", "1"},
		{"{\"jsonrpc\":\"1.0\",\"method\":\"m\",\"id\":1}", "1"},
		{"{\"jsonrpc\":2.0,\"method\":\"m\",\"id\":1}", "1"},
		{"{\"jsonrpc\":\"2.0\\u0000\",\"method\":\"m\",\"id\":1}", "1"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1}", "1"},
		{"{\"jsonrpc\":\"2.0\",\"method\":1,\"id\":\"x\"}", "\"x\""},
		{"{\"jsonrpc\":\"2.0\",\"method\":null}", NULL},
		{"{" CALL ",\"id\":null}", NULL},
		{"{" CALL ",\"id\":1.0}", NULL},
		{"{" CALL ",\"id\":1e2}", NULL},
		{"{" CALL ",\"id\":true}", NULL},
		{"{" CALL ",\"id\":[1]}", NULL},
		{"{" CALL ",\"id\":{}}", NULL},
		{"{" CALL ",\"id\":18446744073709551616}", NULL},
		{"{" CALL ",\"id\":-9223372036854775809}", NULL},
		{"{" CALL ",\"id\":2,\"params\":\"s\"}", "2"},
		{"{" CALL ",\"id\":2,\"params\":null}", "2"},
		{"{" CALL ",\"params\":7}", NULL},
		{"{" CALL ",\"id\":3,\"extra\":1}", "3"},
		{"{" CALL ",\"id\":3,\"Params\":{}}", "3"},
		{"{" CALL ",\"id\":3,\"result\":1}", "3"},
		{"{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}", NULL},
		{"{\"jsonrpc\":\"2.0\",\"id\":4,\"error\":{\"code\":1}}", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_fault(cases[i].line, JSONRPC_INVALID_REQUEST, cases[i].id_text);
}

TEST(test_params_by_position)
{
	struct jsonrpc_request request;
	struct jsonrpc_fault fault;

	assert_fault("{" CALL ",\"id\":5,\"params\":[]}", JSONRPC_INVALID_PARAMS, "5");
	assert_int_equal(jsonrpc_parse(TEXT_LITERAL("{" CALL ",\"params\":[1]}"), SIZE_MAX,
				 &request, &fault),
		-EBADMSG);
	assert_int_equal(fault.code, JSONRPC_INVALID_PARAMS);
	assert_true(fault.notification);
	jsonrpc_fault_free(&fault);
}

TEST(test_parse_errors)
{
	static const char *const bodies[] = {"NaN", "Infinity", "-Infinity", "nan", "01", "00",
		"-01", "1.", "2.e3", "-.5", ".5", "012.5", "-", "1e", "1e+", "+1", "0x1", "1.2.3",
		"--1", "True", "nul", "truex", "'a'", "\"a\tb\"", "\"a\x01\"", "\"\x1f\"",
		"\"\\x\"", "\"\\u12\"", "\"\\", "\"\\u000", "\"open", "1 2", "[1,]", "{\"a\":1,}",
		"{,}", "{\"a\" 1}", "{a:1}", "{\"a\":}", "[}", "{]", "/**/1", "\f1", "1\xc2\xa0",
		"\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf5\x80\x80\x80\"", "\"\xff\"",
		"\"\xe2\x82\"", "{\"a\\u0000b\":1}", "{\"a\\u0000\" \t:1}"};
	static const char *const lines[] = {"", " ", "{", "{\"jsonrpc\":", "{" CALL "} x",
		"{" CALL "}{" CALL "}", "{" CALL "},", "\xef\xbb\xbf{" CALL "}", "nul", "[", "}",
		"{" CALL "}//"};
	char line[200];

	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		snprintf(
			line, sizeof(line), "{" CALL ",\"id\":1,\"params\":{\"a\":%s}}", bodies[i]);
		assert_fault(line, JSONRPC_PARSE_ERROR, NULL);
	}
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		assert_fault(lines[i], JSONRPC_PARSE_ERROR, NULL);
	assert_fault_of((struct text){NULL, 0}, JSONRPC_PARSE_ERROR, NULL);
	assert_fault_of(TEXT_LITERAL("{" CALL "}\0"), JSONRPC_PARSE_ERROR, NULL);
	assert_fault_of(TEXT_LITERAL("{" CALL ",\0\"id\":1}"), JSONRPC_PARSE_ERROR, NULL);
	assert_fault_of(TEXT_LITERAL("{" CALL ",\"id\":\"\0\"}"), JSONRPC_PARSE_ERROR, NULL);
}

/* Every prefix of a request, each in a block of exactly its size. */
TEST(test_truncated_at_every_byte)
{
	const struct text whole =
		TEXT_LITERAL("{" CALL ",\"id\":\"\\u0041\xe2\x82\xac\",\"params\":{\"a\":-1.5e3}}");

	for (size_t len = 0; len < whole.len; len++) {
		char *line = malloc(len > 0 ? len : 1);

		assert_non_null(line);
		memcpy(line, whole.data, len);
		assert_fault_of((struct text){line, len}, JSONRPC_PARSE_ERROR, NULL);
		free(line);
	}
	assert_request(whole.data, "\"A\xe2\x82\xac\"", "{\"a\":-1.5e3}");
}

TEST(test_limits)
{
	static char line[8 * LIMIT_JSON_VALUES];
	size_t len;

	for (int extra = 0; extra <= 1; extra++) {
		char id[LIMIT_REQUEST_ID_BYTES + 2], quoted[sizeof(id) + 2];

		memset(id, 'i', sizeof(id));
		id[LIMIT_REQUEST_ID_BYTES + extra] = '\0';
		snprintf(quoted, sizeof(quoted), "\"%s\"", id);
		snprintf(line, sizeof(line), "{" CALL ",\"id\":%s}", quoted);
		if (extra)
			assert_fault(line, JSONRPC_INVALID_REQUEST, NULL);
		else
			assert_request(line, quoted, "{}");
	}
	/* json-c also counts the level of the innermost value. */
	for (size_t depth = LIMIT_JSON_DEPTH - 4; depth <= LIMIT_JSON_DEPTH; depth++) {
		struct jsonrpc_request request;
		struct jsonrpc_fault fault;
		int result;

		len = (size_t)snprintf(line, sizeof(line), "{" CALL ",\"params\":{\"a\":");
		memset(line + len, '[', depth);
		memset(line + len + depth, ']', depth);
		snprintf(line + len + 2 * depth, 3, "}}");
		result = jsonrpc_parse(text_from(line), SIZE_MAX, &request, &fault);
		assert_true((result == 0) == (depth + 2 <= LIMIT_JSON_DEPTH));
		if (result == 0)
			jsonrpc_request_free(&request);
		else
			assert_int_equal(fault.code, JSONRPC_PARSE_ERROR);
	}
	len = (size_t)snprintf(line, sizeof(line), "{" CALL ",\"params\":{\"a\":[");
	for (size_t i = 0; i < LIMIT_JSON_VALUES; i++)
		len += (size_t)snprintf(line + len, sizeof(line) - len, "{},");
	snprintf(line + len, sizeof(line) - len, "{}]}}");
	assert_fault(line, JSONRPC_PARSE_ERROR, NULL);
}

TEST(test_answers)
{
	struct evbuffer *out = evbuffer_new();
	struct json_text json = json_text(out);

	jsonrpc_result_begin(&json, "\"x\"");
	json_text_object_begin(&json);
	json_text_key(&json, "ok");
	json_text_bool(&json, true);
	json_text_object_end(&json);
	assert_int_equal(jsonrpc_end(&json), 0);

	jsonrpc_notification_begin(&json, "tool.output");
	json_text_object_end(&json);
	assert_int_equal(jsonrpc_end(&json), 0);

	assert_int_equal(jsonrpc_error(out, NULL, JSONRPC_PARSE_ERROR, "bad\n", NULL), 0);
	assert_int_equal(jsonrpc_error(out, "7", JSONRPC_SERVER_ERROR, "no", "FORBIDDEN"), 0);

	evbuffer_add(out, "", 1);
	assert_string_equal((const char *)evbuffer_pullup(out, -1),
		"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{\"ok\":true}}\n"
		"{\"jsonrpc\":\"2.0\",\"method\":\"tool.output\",\"params\":{}}\n"
		"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":"
		"\"bad\\n\"}}\n"
		"{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32000,\"message\":\"no\","
		"\"data\":{\"code\":\"FORBIDDEN\"}}}\n");
	evbuffer_free(out);
}
