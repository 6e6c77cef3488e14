// SPDX-License-Identifier: Apache-2.0
#include "supervisor/tool_call_form.h"

#include "common/limits.h"
#include "common/utf8.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/json_tokener.h>
#include <stdio.h>

static int refuse(char **ret_message, const char *sentence)
{
	*ret_message = strdup(sentence);
	return -EINVAL;
}

/*
 * Why json-c shall not see @json, a static sentence, or NULL. Even when strict it takes '…' for a
 * string and a NUL for the end, lets overlong UTF-8 pass, and makes up to a KiB of two bytes such
 * as "[,": that is bounded beforehand.
 */
static const char *fault(struct text json)
{
	bool in_string = false;
	size_t values = 0;

	if (text_has_nul(json) || !utf8_is_valid(json))
		return "tool_call: the string \"arguments\" must be valid UTF-8 without NUL "
		       "characters";
	for (size_t i = 0; i < json.len; i++) {
		char c = json.data[i];

		if (in_string && c == '\\')
			i++;
		else if (c == '"')
			in_string = !in_string;
		else if (!in_string && c == '\'')
			return "tool_call: the string \"arguments\" is not valid JSON: strings "
			       "are quoted with \"";
		else if (!in_string && (c == ',' || c == '[' || c == '{'))
			values++;
	}
	return values <= LIMIT_JSON_VALUES && json.len <= LIMIT_LINE_BYTES
		       ? NULL
		       : "tool_call: the string \"arguments\" holds too much";
}

static int parse(struct text json, struct json_object **ret_value, char **ret_message)
{
	const char *sentence = fault(json);
	struct json_tokener *tokener;
	struct json_object *value;
	enum json_tokener_error error;

	if (sentence)
		return refuse(ret_message, sentence);
	tokener = json_tokener_new_ex(LIMIT_JSON_DEPTH);
	if (!tokener)
		return -ENOMEM;
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT);
	value = json_tokener_parse_ex(tokener, json.data, (int)json.len);
	/* After a bare number or word more of it could come: a space says that none does. */
	if (json_tokener_get_error(tokener) == json_tokener_continue)
		value = json_tokener_parse_ex(tokener, " ", 1);
	error = json_tokener_get_error(tokener);
	json_tokener_free(tokener);
	if (error == json_tokener_success) {
		*ret_value = value;
		return 0;
	}
	if (asprintf(ret_message, "tool_call: the string \"arguments\" is not valid JSON: %s",
		    error == json_tokener_continue ? "it ends too early"
						   : json_tokener_error_desc(error)) < 0)
		*ret_message = NULL;
	return -EINVAL;
}

/* A reference to the object that @arguments is or, if it is a string, holds. */
static int arguments_object(
	struct json_object *arguments, struct json_object **ret_object, char **ret_message)
{
	struct json_object *object = NULL;
	int r;

	if (json_object_is_type(arguments, json_type_string) &&
		json_object_get_string_len(arguments) > 0) {
		struct text json = {json_object_get_string(arguments),
			(size_t)json_object_get_string_len(arguments)};

		r = parse(json, &object, ret_message);
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
		return refuse(ret_message, "tool_call: \"arguments\" must be a JSON object");
	}
	*ret_object = object;
	return 0;
}

int tool_call_form(struct json_object *tool_call, struct text *ret_name,
	struct json_object **ret_arguments, char **ret_message)
{
	struct json_object *function = NULL, *name = NULL, *arguments = NULL;
	int r;

	if (!json_object_is_type(tool_call, json_type_object) ||
		!json_object_object_get_ex(tool_call, "function", &function) ||
		!json_object_is_type(function, json_type_object))
		return refuse(ret_message, "tool_call: there must be an object \"function\" with "
					   "\"name\" and \"arguments\"");
	if (!json_object_object_get_ex(function, "name", &name) ||
		!json_object_is_type(name, json_type_string))
		return refuse(ret_message, "tool_call: \"function\" must have a string \"name\"");
	json_object_object_get_ex(function, "arguments", &arguments);
	r = arguments_object(arguments, ret_arguments, ret_message);
	if (r < 0)
		return r;
	*ret_name = (struct text){
		json_object_get_string(name), (size_t)json_object_get_string_len(name)};
	return 0;
}
