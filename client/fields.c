// SPDX-License-Identifier: Apache-2.0
/* Runs in the clients. json-c ends the process if an array is asked for and there is none. */
#include "client/fields.h"

#include <json-c/json.h>
#include <string.h>

struct json_object *field(struct json_object *object, const char *name)
{
	struct json_object *value = NULL;

	return json_object_object_get_ex(object, name, &value) ? value : NULL;
}

const char *field_text(struct json_object *object, const char *name)
{
	const char *text = json_object_get_string(field(object, name));

	return text ? text : "";
}

long long field_number(struct json_object *object, const char *name)
{
	return (long long)json_object_get_int64(field(object, name));
}

bool field_is(struct json_object *object, const char *name, const char *expected)
{
	return strcmp(field_text(object, name), expected) == 0;
}

size_t elements(struct json_object *array)
{
	return json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
}

struct json_object *element(struct json_object *array, size_t index)
{
	return index < elements(array) ? json_object_array_get_idx(array, index) : NULL;
}
