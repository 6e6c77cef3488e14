// SPDX-License-Identifier: Apache-2.0
#include "supervisor/call/request/tool_call_form.h"

#include "json/json_read.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <stdio.h>

static int refuse_tool_call(char **ret_message, const char *sentence)
{
	*ret_message = strdup(sentence);
	return -EINVAL;
}

static int parse(struct text json, size_t memory, struct json_object **ret_value,
	size_t *ret_memory, char **ret_message)
{
	struct json_bounds bounds = json_request_bounds(json.len);
	const bool pressed = memory < bounds.memory;
	struct json_report report;
	int r;

	if (pressed)
		bounds.memory = memory;
	r = json_read(json, &bounds, ret_value, &report);
	*ret_memory = report.memory;
	if (r == 0 || r == -ENOMEM || (r == -ENOBUFS && pressed))
		return r;
	if (asprintf(ret_message,
		    "tool_call: the string \"arguments\" %s: %s, at byte %zu of the string",
		    r == -EBADMSG ? "is not valid JSON" : "is too complex", report.fault,
		    report.at) < 0)
		*ret_message = NULL;
	return -EINVAL;
}

/* Returns a reference to @arguments, an object, or to the object in it if it is a string. */
static int arguments_object(struct json_object *arguments, size_t memory,
	struct json_object **ret_object, size_t *ret_memory, char **ret_message)
{
	struct json_object *object = NULL;
	int r;

	if (json_object_is_type(arguments, json_type_string) &&
		json_object_get_string_len(arguments) > 0) {
		struct text json = {json_object_get_string(arguments),
			(size_t)json_object_get_string_len(arguments)};

		r = parse(json, memory, &object, ret_memory, ret_message);
		if (r < 0)
			return r;
	} else if (!arguments || json_object_is_type(arguments, json_type_string)) {
		object = json_object_new_object();
		if (!object)
			return -ENOMEM;
	} else {
		object = json_object_get(arguments);
	}
	if (!json_object_is_type(object, json_type_object)) {
		json_object_put(object);
		return refuse_tool_call(
			ret_message, "tool_call: \"arguments\" must be a JSON object");
	}
	*ret_object = object;
	return 0;
}

int tool_call_form(struct json_object *tool_call, size_t memory, struct text *ret_name,
	struct json_object **ret_arguments, size_t *ret_memory, char **ret_message)
{
	struct json_object *function = NULL, *name = NULL, *arguments = NULL;
	int r;

	if (!json_object_is_type(tool_call, json_type_object) ||
		!json_object_object_get_ex(tool_call, "function", &function) ||
		!json_object_is_type(function, json_type_object))
		return refuse_tool_call(ret_message,
			"tool_call must be an object that has an object \"function\" with "
			"\"name\" and \"arguments\"");
	if (!json_object_object_get_ex(function, "name", &name) ||
		!json_object_is_type(name, json_type_string))
		return refuse_tool_call(
			ret_message, "tool_call: \"function\" must have a string \"name\"");
	json_object_object_get_ex(function, "arguments", &arguments);
	*ret_memory = 0;
	r = arguments_object(arguments, memory, ret_arguments, ret_memory, ret_message);
	if (r < 0)
		return r;
	*ret_name = (struct text){
		json_object_get_string(name), (size_t)json_object_get_string_len(name)};
	return 0;
}
