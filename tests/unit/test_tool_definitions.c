/* links: cloister-supervisor */
/* SPDX-License-Identifier: Apache-2.0 */

#include "supervisor/agent/tool/tool_definitions.h"

#include "common/tools.h"
#include "supervisor/config/tenant.h"
#include "tests/lib/unit.h"

#include <json-c/json.h>

/* Copied by hand from the tools' specification: names, descriptions, types, defaults, required. */
static const struct {
	const char *name;
	const char *description;
	const char *properties; /* without their descriptions */
	const char *required;
} seed[] = {
	{"read_file",
		"Read the contents of a file. Returns content with line numbers. Use "
		"start_line/end_line to read a specific range.",
		"{'path':{'type':'string'},'start_line':{'type':'integer'},"
		"'end_line':{'type':'integer'}}",
		"['path']"},
	{"write_file",
		"Write content to a file. Creates parent directories if needed. Overwrites "
		"existing content.",
		"{'path':{'type':'string'},'content':{'type':'string'},"
		"'create_dirs':{'type':'boolean','default':true}}",
		"['path','content']"},
	{"list_directory",
		"List files and directories at the given path. Use recursive=true for deep "
		"listing. Use pattern for glob filtering.",
		"{'path':{'type':'string'},'recursive':{'type':'boolean','default':false},"
		"'pattern':{'type':'string'}}",
		"['path']"},
	{"run_command",
		"Execute a shell command in the workspace directory. Returns stdout, stderr, and "
		"exit code. Timeout default 30 seconds.",
		"{'command':{'type':'string'},'timeout_ms':{'type':'integer','default':30000}}",
		"['command']"},
	{"search_files",
		"Search for a regex pattern across files. Returns matching lines with file paths "
		"and line numbers. Max 50 results.",
		"{'pattern':{'type':'string'},'path':{'type':'string','default':'.'},"
		"'file_pattern':{'type':'string'},'max_results':{'type':'integer','default':50}}",
		"['pattern']"},
};

static struct json_object *member(struct json_object *object, const char *name)
{
	struct json_object *value = NULL;

	assert_true(json_object_object_get_ex(object, name, &value));
	return value;
}

static const char *string(struct json_object *object, const char *name)
{
	return json_object_get_string(member(object, name));
}

/* @expected has ' for " */
static void assert_json_equal(struct json_object *value, const char *expected)
{
	struct json_object *parsed = json_tokener_parse(expected);

	assert_non_null(parsed);
	if (!json_object_equal(value, parsed))
		assert_string_equal(json_object_to_json_string(value), expected);
	json_object_put(parsed);
}

/* Compares with the specification and removes the parameters' descriptions. */
static void check_schema(struct json_object *schema, size_t i)
{
	struct json_object *properties = member(schema, "properties");

	assert_string_equal(string(schema, "type"), "object");
	json_object_object_foreach (properties, name, property) {
		(void)name;
		assert_true(json_object_get_string_len(member(property, "description")) > 0);
		json_object_object_del(property, "description");
	}
	assert_json_equal(properties, seed[i].properties);
	assert_json_equal(member(schema, "required"), seed[i].required);
}

static void check_function(struct json_object *definition, size_t i, int schema_members)
{
	struct json_object *function = member(definition, "function");

	assert_int_equal(json_object_object_length(definition), 2);
	assert_string_equal(string(definition, "type"), "function");
	assert_int_equal(json_object_object_length(function), 3);
	assert_string_equal(string(function, "name"), seed[i].name);
	assert_string_equal(string(function, "description"), seed[i].description);
	assert_int_equal(json_object_object_length(member(function, "parameters")), schema_members);
	check_schema(member(function, "parameters"), i);
}

TEST(test_ollama)
{
	struct json_object *array = tool_definitions(TOOLS_BASIC, TOOL_FORMAT_OLLAMA, NULL);

	assert_int_equal(json_object_array_length(array), ARRAY_SIZE(seed));
	for (size_t i = 0; i < ARRAY_SIZE(seed); i++)
		check_function(json_object_array_get_idx(array, i), i, 3);
	json_object_put(array);
}

TEST(test_openai)
{
	struct json_object *array = tool_definitions(TOOLS_BASIC, TOOL_FORMAT_OPENAI, NULL);

	assert_int_equal(json_object_array_length(array), ARRAY_SIZE(seed));
	for (size_t i = 0; i < ARRAY_SIZE(seed); i++) {
		struct json_object *definition = json_object_array_get_idx(array, i);
		struct json_object *schema = member(member(definition, "function"), "parameters");

		assert_json_equal(member(schema, "additionalProperties"), "false");
		check_function(definition, i, 4);
	}
	json_object_put(array);
}

TEST(test_mcp)
{
	struct json_object *array = tool_definitions(TOOLS_BASIC, TOOL_FORMAT_MCP, NULL);

	assert_int_equal(json_object_array_length(array), ARRAY_SIZE(seed));
	for (size_t i = 0; i < ARRAY_SIZE(seed); i++) {
		struct json_object *definition = json_object_array_get_idx(array, i);

		assert_string_equal(string(definition, "name"), seed[i].name);
		assert_string_equal(string(definition, "description"), seed[i].description);
		assert_json_equal(
			member(member(definition, "inputSchema"), "additionalProperties"), "false");
		check_schema(member(definition, "inputSchema"), i);
	}
	json_object_put(array);
}

static struct json_object *property_of(struct json_object *array, size_t tool, const char *name)
{
	struct json_object *function = member(json_object_array_get_idx(array, tool), "function");

	return member(member(member(function, "parameters"), "properties"), name);
}

TEST(test_limits)
{
	const struct tenant_limits limits = {
		.command_timeout_ms = 5000, .command_timeout_max_ms = 60000};
	struct json_object *array = tool_definitions(TOOLS_BASIC, TOOL_FORMAT_OLLAMA, &limits);
	struct json_object *timeout = property_of(array, TOOL_RUN_COMMAND, "timeout_ms");
	struct json_object *content = property_of(array, TOOL_WRITE_FILE, "content");

	assert_json_equal(member(timeout, "minimum"), "1");
	assert_json_equal(member(timeout, "maximum"), "60000");
	assert_json_equal(member(timeout, "default"), "5000");
	assert_json_equal(member(content, "maxLength"), "16777216");
	assert_false(json_object_object_get_ex(content, "minLength", NULL));
	assert_json_equal(
		member(property_of(array, TOOL_SEARCH_FILES, "max_results"), "maximum"), "50");
	assert_false(json_object_object_get_ex(
		property_of(array, TOOL_READ_FILE, "end_line"), "maximum", NULL));
	json_object_put(array);
}

TEST(test_format_by_name)
{
	enum tool_format format = TOOL_FORMAT_OPENAI;

	assert_int_equal(tool_format_by_name(TEXT_LITERAL("anthropic"), &format), -EINVAL);
	assert_int_equal(tool_format_by_name(TEXT_LITERAL("MCP"), &format), -EINVAL);
	assert_int_equal(tool_format_by_name((struct text){NULL, 0}, &format), -EINVAL);
	assert_int_equal(format, TOOL_FORMAT_OPENAI);
	assert_int_equal(tool_format_by_name(TEXT_LITERAL("ollama"), &format), 0);
	assert_int_equal(format, TOOL_FORMAT_OLLAMA);
	assert_int_equal(tool_format_by_name(TEXT_LITERAL("openai"), &format), 0);
	assert_int_equal(format, TOOL_FORMAT_OPENAI);
	assert_int_equal(tool_format_by_name(TEXT_LITERAL("mcp"), &format), 0);
	assert_int_equal(format, TOOL_FORMAT_MCP);
}
