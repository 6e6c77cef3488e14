// SPDX-License-Identifier: Apache-2.0
#include "supervisor/agent/tool/tool_definitions.h"

#include "common/tools.h"
#include "supervisor/agent/tool/tool_output_schema.h"
#include "supervisor/base/json_build.h"
#include "supervisor/config/tenant.h"

#include <errno.h>

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

/* Whether it is the argument for which a tenant has its own limit. */
static bool is_timeout(const struct tool_param *param)
{
	return param->offset == offsetof(struct tool_args, timeout_ms);
}

/* @limits: the limits of the tenant's calls, or NULL. */
static struct json_object *default_value(
	const struct tool_param *param, const struct tenant_limits *limits)
{
	switch (param->type) {
	case PARAM_STRING:
		return json_object_new_string(param->text);
	case PARAM_INTEGER:
		if (limits && is_timeout(param))
			return json_object_new_int64((
				int64_t)(limits->command_timeout_ms < limits->command_timeout_max_ms
						 ? limits->command_timeout_ms
						 : limits->command_timeout_max_ms));
		return json_object_new_int64(param->number);
	case PARAM_BOOLEAN:
		return json_object_new_boolean(param->number != 0);
	case PARAM_EDITS:
		break;
	}
	return NULL;
}

/*
 * Adds the bounds that args_decode.c checks. JSON Schema counts characters where it counts bytes; a
 * text never has more characters than bytes.
 */
static bool add_bounds(struct json_object *object, const struct tool_param *param,
	const struct tenant_limits *limits)
{
	bool text = param->type == PARAM_STRING;
	int64_t max = param->max_plain > 0 ? param->max_plain : param->max;

	if (param->type == PARAM_BOOLEAN || param->type == PARAM_EDITS)
		return true;
	if (is_timeout(param) && (uint64_t)max > limits->command_timeout_max_ms)
		max = (int64_t)limits->command_timeout_max_ms;
	if (param->min > 0 && !json_build_add(object, text ? "minLength" : "minimum",
				      json_object_new_int64(param->min)))
		return false;
	return max == INT64_MAX ||
	       json_build_add(object, text ? "maxLength" : "maximum", json_object_new_int64(max));
}

/* Adds the property @name to a schema. */
static bool add_property(
	struct json_object *properties, const char *name, const char *type, const char *description)
{
	_cleanup_json_ struct json_object *object = json_object_new_object();

	return json_build_add(object, "type", json_object_new_string(type)) &&
	       json_build_add(object, "description", json_object_new_string(description)) &&
	       json_build_add(properties, name, TAKE_PTR(object));
}

/* The schema of an element of edits. */
static struct json_object *edit_schema(void)
{
	_cleanup_json_ struct json_object *properties = json_object_new_object();
	_cleanup_json_ struct json_object *required = json_object_new_array();
	_cleanup_json_ struct json_object *object = json_object_new_object();

	if (!add_property(properties, "old", "string", "Text to replace, exactly as in the file") ||
		!add_property(properties, "new", "string", "Text to put there") ||
		!add_property(
			properties, "all", "boolean", "Replace every occurrence (default false)") ||
		!json_build_append(required, json_object_new_string("old")) ||
		!json_build_append(required, json_object_new_string("new")) ||
		!json_build_add(object, "type", json_object_new_string("object")) ||
		!json_build_add(object, "properties", TAKE_PTR(properties)) ||
		!json_build_add(object, "required", TAKE_PTR(required)) ||
		!json_build_add(object, "additionalProperties", json_object_new_boolean(false)))
		return NULL;
	return TAKE_PTR(object);
}

static struct json_object *property(
	const struct tool_param *param, const struct tenant_limits *limits)
{
	static const char *const types[] = {
		[PARAM_STRING] = "string",
		[PARAM_INTEGER] = "integer",
		[PARAM_BOOLEAN] = "boolean",
		[PARAM_EDITS] = "array",
	};
	_cleanup_json_ struct json_object *object = json_object_new_object();

	if (!json_build_add(object, "type", json_object_new_string(types[param->type])) ||
		!json_build_add(
			object, "description", json_object_new_string(param->description)) ||
		(param->type == PARAM_EDITS && !json_build_add(object, "items", edit_schema())) ||
		(param->has_default &&
			!json_build_add(object, "default", default_value(param, limits))) ||
		(limits && !add_bounds(object, param, limits)))
		return NULL;
	return TAKE_PTR(object);
}

/*
 * Makes the JSON Schema of the arguments. @closed adds additionalProperties: false, which the
 * original form lacks.
 */
static struct json_object *schema(
	const struct tool *tool, enum tool_set set, bool closed, const struct tenant_limits *limits)
{
	_cleanup_json_ struct json_object *properties = json_object_new_object();
	_cleanup_json_ struct json_object *required = json_object_new_array();
	_cleanup_json_ struct json_object *object = json_object_new_object();

	for (size_t i = 0; i < tool_param_count(tool); i++) {
		const struct tool_param *param = &tool->params[i];

		if (param->set & ~set)
			continue;
		if (!json_build_add(properties, param->name, property(param, limits)) ||
			(param->required &&
				!json_build_append(required, json_object_new_string(param->name))))
			return NULL;
	}
	if (!json_build_add(object, "type", json_object_new_string("object")) ||
		!json_build_add(object, "properties", TAKE_PTR(properties)) ||
		!json_build_add(object, "required", TAKE_PTR(required)) ||
		(closed && !json_build_add(
				   object, "additionalProperties", json_object_new_boolean(false))))
		return NULL;
	return TAKE_PTR(object);
}

static struct json_object *definition(const struct tool *tool, enum tool_set set,
	enum tool_format format, const struct tenant_limits *limits)
{
	const bool is_mcp = format == TOOL_FORMAT_MCP || format == TOOL_FORMAT_MCP_TEXT;
	const char *schema_key = is_mcp ? "inputSchema" : "parameters";
	_cleanup_json_ struct json_object *function = json_object_new_object();
	_cleanup_json_ struct json_object *object = NULL;

	if (!json_build_add(function, "name", json_object_new_string(tool->name)) ||
		!json_build_add(
			function, "description", json_object_new_string(tool->description)) ||
		!json_build_add(function, schema_key,
			schema(tool, set, format != TOOL_FORMAT_OLLAMA, limits)))
		return NULL;
	if (is_mcp) {
		if ((format == TOOL_FORMAT_MCP &&
			    !json_build_add(function, "outputSchema", tool_output_schema(tool))) ||
			!json_build_add(function, "annotations", tool_annotations(tool)))
			return NULL;
		return TAKE_PTR(function);
	}
	object = json_object_new_object();
	if (!json_build_add(object, "type", json_object_new_string("function")) ||
		!json_build_add(object, "function", TAKE_PTR(function)))
		return NULL;
	return TAKE_PTR(object);
}

struct json_object *tool_definitions(
	enum tool_set set, enum tool_format format, const struct tenant_limits *limits)
{
	_cleanup_json_ struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < TOOL_COUNT; i++)
		if (!(tools[i].set & ~set) &&
			!json_build_append(array, definition(&tools[i], set, format, limits)))
			return NULL;
	return TAKE_PTR(array);
}
