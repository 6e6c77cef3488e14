// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/reference_json.h"

#include <jansson.h>

/* The wrappers avoid names of json-c, because json_object_get() exists in both libraries. */

static json_t *of(const struct reference *value)
{
	return (json_t *)(uintptr_t)value;
}

struct reference *reference_read(struct text text, bool *ret_overflow)
{
	json_error_t error;
	json_t *root = json_loadb(text.data, text.len,
		JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);

	*ret_overflow = !root && json_error_code(&error) == json_error_numeric_overflow;
	return (struct reference *)root;
}

void reference_free(struct reference *root)
{
	json_decref(of(root));
}

enum reference_type reference_type(const struct reference *value)
{
	switch (json_typeof(of(value))) {
	case JSON_OBJECT:
		return REFERENCE_OBJECT;
	case JSON_ARRAY:
		return REFERENCE_ARRAY;
	case JSON_STRING:
		return REFERENCE_STRING;
	case JSON_INTEGER:
		return REFERENCE_INTEGER;
	case JSON_REAL:
		return REFERENCE_REAL;
	case JSON_TRUE:
	case JSON_FALSE:
		return REFERENCE_BOOLEAN;
	case JSON_NULL:
		break;
	}
	return REFERENCE_NULL;
}

bool reference_boolean(const struct reference *value)
{
	return json_is_true(of(value));
}

int64_t reference_integer(const struct reference *value)
{
	return json_integer_value(of(value));
}

double reference_real(const struct reference *value)
{
	return json_real_value(of(value));
}

struct text reference_string(const struct reference *value)
{
	return (struct text){json_string_value(of(value)), json_string_length(of(value))};
}

size_t reference_size(const struct reference *value)
{
	return json_is_array(of(value)) ? json_array_size(of(value)) : json_object_size(of(value));
}

const struct reference *reference_element(const struct reference *value, size_t i)
{
	return (const struct reference *)json_array_get(of(value), i);
}

const struct reference *reference_member(const struct reference *value, const char *name)
{
	void *iter = json_object_iter_at(of(value), name);

	return iter ? (const struct reference *)json_object_iter_value(iter) : NULL;
}
