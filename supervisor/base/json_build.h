/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Building small json-c trees: every step fails as the first allocation that failed. */

#include "common/cleanup.h"

#include <json-c/json_object.h>

static inline void json_build_put(struct json_object **object)
{
	json_object_put(*object);
}
#define _cleanup_json_ _cleanup_(json_build_put)

/** Moves @value into @object. False, with @value released, if either of them could not be
 * allocated.
 */
static inline bool json_build_add(
	struct json_object *object, const char *key, struct json_object *value)
{
	if (object && value && json_object_object_add(object, key, value) == 0)
		return true;
	json_object_put(value);
	return false;
}

/** Likewise, at the end of @array. */
static inline bool json_build_append(struct json_object *array, struct json_object *value)
{
	if (array && value && json_object_array_add(array, value) == 0)
		return true;
	json_object_put(value);
	return false;
}
