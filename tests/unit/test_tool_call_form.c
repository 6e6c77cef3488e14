/* links: cloister-supervisor */
/* SPDX-License-Identifier: Apache-2.0 */

#include "supervisor/call/request/tool_call_form.h"
#include "tests/lib/unit.h"

#include <json-c/json.h>

static void assert_form(const char *call, const char *expected_name, const char *expected_arguments)
{
	struct json_object *tool_call = json_tokener_parse(call), *arguments = NULL;
	char *message = NULL;
	struct text name = {0};
	size_t memory = 0;

	assert_non_null(tool_call);
	assert_int_equal(
		tool_call_form(tool_call, SIZE_MAX, &name, &arguments, &memory, &message), 0);
	assert_null(message);
	assert_true(text_equal(name, text_from(expected_name)));
	assert_string_equal(json_object_to_json_string_ext(arguments, JSON_C_TO_STRING_PLAIN),
		expected_arguments);
	json_object_put(arguments);
	json_object_put(tool_call);
}

/* Takes @tool_call. */
static void assert_refused(struct json_object *tool_call, const char *expected_words)
{
	struct json_object *arguments = NULL;
	struct text name = {0};
	size_t memory = 0;
	char *message = NULL;

	assert_int_equal(
		tool_call_form(tool_call, SIZE_MAX, &name, &arguments, &memory, &message), -EINVAL);
	assert_null(arguments);
	assert_null(name.data);
	assert_non_null(message);
	if (!strstr(message, expected_words))
		assert_string_equal(message, expected_words);
	free(message);
	json_object_put(tool_call);
}

/* Makes a call whose "arguments" are the string @json. */
static struct json_object *with_string(const char *json, size_t len)
{
	struct json_object *tool_call = json_tokener_parse("{'function':{'name':'read_file'}}");
	struct json_object *function = json_object_object_get(tool_call, "function");

	json_object_object_add(function, "arguments", json_object_new_string_len(json, (int)len));
	return tool_call;
}

TEST(test_ollama)
{
	assert_form("{'function':{'name':'read_file','arguments':{'path':'a'}}}", "read_file",
		"{\"path\":\"a\"}");
	assert_form("{'id':'x','type':'function','function':{'index':0,'name':'n','arguments':{}}}",
		"n", "{}");
}

TEST(test_openai)
{
	assert_form("{'id':'c1','type':'function','function':{'name':'read_file',"
		    "'arguments':'{\\\"path\\\": \\\"a b\\\"}\\n'}}",
		"read_file", "{\"path\":\"a b\"}");
}

TEST(test_absent_arguments)
{
	assert_form("{'function':{'name':'n'}}", "n", "{}");
	assert_form("{'function':{'name':'n','arguments':null}}", "n", "{}");
	assert_form("{'function':{'name':'n','arguments':''}}", "n", "{}");
}

TEST(test_not_a_call)
{
	static const char *const calls[] = {"[]", "{}", "{'function':[]}", "{'function':'x'}",
		"{'function':{}}", "{'function':{'name':5}}", "{'name':'read_file'}"};

	assert_refused(NULL, "tool_call");
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		assert_refused(json_tokener_parse(calls[i]), "\"function\"");
	assert_refused(json_tokener_parse("{'function':{'name':'n','arguments':[1]}}"),
		"must be a JSON object");
	assert_refused(json_tokener_parse("{'function':{'name':'n','arguments':5}}"),
		"must be a JSON object");
}

TEST(test_malformed_strings)
{
	static const struct {
		struct text json;
		const char *words;
	} cases[] = {
		{TEXT_LITERAL("{\"path\":"), "too early"},
		{TEXT_LITERAL("   "), "too early"},
		{TEXT_LITERAL("{\"a\":1} x"), "not valid JSON"},
		{TEXT_LITERAL("{'a':1}"), "quoted with"},
		{TEXT_LITERAL("{'\"':[[],[]"), "quoted with"},
		{TEXT_LITERAL("{\"a\":1,}"), "not valid JSON"},
		{TEXT_LITERAL("{/**/\"a\":1}"), "not valid JSON"},
		{TEXT_LITERAL("[1]"), "must be a JSON object"},
		{TEXT_LITERAL("null"), "must be a JSON object"},
		{TEXT_LITERAL("\"{}\""), "must be a JSON object"},
		{TEXT_LITERAL("{\"a\":1}\0{"), "NUL"},
		{TEXT_LITERAL("{\"a\":\"\xff\"}"), "UTF-8"},
		{TEXT_LITERAL("{\"a\":\"\xc0\xaf\"}"), "UTF-8"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_refused(with_string(cases[i].json.data, cases[i].json.len), cases[i].words);
}

TEST(test_bounds)
{
	_cleanup_free_ char *json = malloc(2 * LIMIT_JSON_VALUES + 64);
	struct json_object *tool_call, *arguments = NULL;
	char *message = NULL;
	struct text name;
	size_t memory;
	size_t len;

	memset(json, '[', LIMIT_JSON_DEPTH + 1);
	assert_refused(with_string(json, LIMIT_JSON_DEPTH + 1), "nesting");

	len = (size_t)sprintf(json, "{\"a\":[");
	for (size_t i = 0; i < LIMIT_JSON_VALUES; i++) {
		json[len++] = '1';
		json[len++] = ',';
	}
	assert_refused(with_string(json, len), "is too complex");

	/* Commas inside a string do not separate values. */
	len = (size_t)sprintf(json, "{\"a\":\"\\\"");
	memset(json + len, ',', LIMIT_JSON_VALUES + 1);
	len += LIMIT_JSON_VALUES + 1;
	len += (size_t)sprintf(json + len, "\"}");
	tool_call = with_string(json, len);
	assert_int_equal(
		tool_call_form(tool_call, SIZE_MAX, &name, &arguments, &memory, &message), 0);
	json_object_put(arguments);
	json_object_put(tool_call);
}
