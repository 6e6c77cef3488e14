/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Members of a service's answer, or of a line of a file. A member, and also @object, may be
 * missing, null or of any type.
 */

#include <stdbool.h>
#include <stddef.h>

struct json_object;

/** Returns the member @name, borrowed; NULL if it is missing or null. */
struct json_object *field(struct json_object *object, const char *name);

/** Returns it as text, borrowed and not fit for a terminal: see show(). "" if there is none. */
const char *field_text(struct json_object *object, const char *name);

/** Returns it as a number; 0 if it is none. */
long long field_number(struct json_object *object, const char *name);

/** Whether it is @expected, as text. */
bool field_is(struct json_object *object, const char *name, const char *expected);

/** Returns the number of elements; 0 if @array is none. */
size_t elements(struct json_object *array);

/** Returns the element @index, borrowed; NULL if it is missing or null. */
struct json_object *element(struct json_object *array, size_t index);
