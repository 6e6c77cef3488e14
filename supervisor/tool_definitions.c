// SPDX-License-Identifier: Apache-2.0
#include "supervisor/tool_definitions.h"

#include "common/cleanup.h"
#include "common/tools.h"

#include <errno.h>
#include <json-c/json_object.h>

int tool_format_by_name(struct text name, enum tool_format *ret_format)
{
	static const char *const names[] = {
		[TOOL_FORMAT_OLLAMA] = "ollama",
		[TOOL_FORMAT_OPENAI] = "openai",
		[TOOL_FORMAT_MCP] = "mcp",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (text_equal(text_from(names[i]), name)) {
			*ret_format = (enum tool_format)i;
			return 0;
		}
	}
	return -EINVAL;
}

static void put_object(struct json_object **object)
{
	json_object_put(*object);
}

#define _cleanup_json_ _cleanup_(put_object)

/* Moves @value into @object. False, with @value released, if either of them could not be allocated.
 */
static bool add(struct json_object *object, const char *key, struct json_object *value)
{
	if (object && value && json_object_object_add(object, key, value) == 0)
		return true;
	json_object_put(value);
	return false;
}

static bool append(struct json_object *array, struct json_object *value)
{
	if (array && value && json_object_array_add(array, value) == 0)
		return true;
	json_object_put(value);
	return false;
}

static struct json_object *default_value(const struct tool_param *param)
{
	switch (param->type) {
	case PARAM_STRING:
		return json_object_new_string(param->text);
	case PARAM_INTEGER:
		return json_object_new_int64(param->number);
	case PARAM_BOOLEAN:
		return json_object_new_boolean(param->number != 0);
	}
	return NULL;
}

static struct json_object *property(const struct tool_param *param)
{
	static const char *const types[] = {
		[PARAM_STRING] = "string",
		[PARAM_INTEGER] = "integer",
		[PARAM_BOOLEAN] = "boolean",
	};
	_cleanup_json_ struct json_object *object = json_object_new_object();

	if (!add(object, "type", json_object_new_string(types[param->type])) ||
		!add(object, "description", json_object_new_string(param->description)) ||
		(param->has_default && !add(object, "default", default_value(param))))
		return NULL;
	return TAKE_PTR(object);
}

/* JSON Schema of the arguments. @closed: with additionalProperties false, which the seed's form has
 * not. */
static struct json_object *schema(const struct tool *tool, bool closed)
{
	_cleanup_json_ struct json_object *properties = json_object_new_object();
	_cleanup_json_ struct json_object *required = json_object_new_array();
	_cleanup_json_ struct json_object *object = json_object_new_object();

	for (size_t i = 0; i < tool_param_count(tool); i++) {
		const struct tool_param *param = &tool->params[i];

		if (!add(properties, param->name, property(param)) ||
			(param->required && !append(required, json_object_new_string(param->name))))
			return NULL;
	}
	if (!add(object, "type", json_object_new_string("object")) ||
		!add(object, "properties", TAKE_PTR(properties)) ||
		!add(object, "required", TAKE_PTR(required)) ||
		(closed && !add(object, "additionalProperties", json_object_new_boolean(false))))
		return NULL;
	return TAKE_PTR(object);
}

static struct json_object *definition(const struct tool *tool, enum tool_format format)
{
	const char *schema_key = format == TOOL_FORMAT_MCP ? "inputSchema" : "parameters";
	_cleanup_json_ struct json_object *function = json_object_new_object();
	_cleanup_json_ struct json_object *object = NULL;

	if (!add(function, "name", json_object_new_string(tool->name)) ||
		!add(function, "description", json_object_new_string(tool->description)) ||
		!add(function, schema_key, schema(tool, format != TOOL_FORMAT_OLLAMA)))
		return NULL;
	if (format == TOOL_FORMAT_MCP)
		return TAKE_PTR(function);
	object = json_object_new_object();
	if (!add(object, "type", json_object_new_string("function")) ||
		!add(object, "function", TAKE_PTR(function)))
		return NULL;
	return TAKE_PTR(object);
}

struct json_object *tool_definitions(enum tool_format format)
{
	_cleanup_json_ struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < TOOL_COUNT; i++)
		if (!append(array, definition(&tools[i], format)))
			return NULL;
	return TAKE_PTR(array);
}
