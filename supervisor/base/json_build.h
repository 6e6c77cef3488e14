/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Builds small json-c trees. Once an allocation has failed, all later steps fail too. */

#include "common/cleanup.h"

#include <json-c/json_object.h>

static inline void json_build_put(struct json_object **object)
{
	json_object_put(*object);
}
#define _cleanup_json_ _cleanup_(json_build_put)

/**
 * Moves @value into @object. Returns false, with @value released, if either of them is NULL because
 * its allocation failed.
 */
static inline bool json_build_add(
	struct json_object *object, const char *key, struct json_object *value)
{
	if (object && value && json_object_object_add(object, key, value) == 0)
		return true;
	json_object_put(value);
	return false;
}

/** Moves @value to the end of @array. If that fails, frees it and returns false. */
static inline bool json_build_append(struct json_object *array, struct json_object *value)
{
	if (array && value && json_object_array_add(array, value) == 0)
		return true;
	json_object_put(value);
	return false;
}
