/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* jansson as a strict reference, behind other names: its header and json-c's conflict. */

#include "common/text.h"

#include <stdint.h>

enum reference_type {
	REFERENCE_NULL,
	REFERENCE_BOOLEAN,
	REFERENCE_INTEGER,
	REFERENCE_REAL,
	REFERENCE_STRING,
	REFERENCE_ARRAY,
	REFERENCE_OBJECT,
};

struct reference;

/** Returns NULL if it is not JSON, or if jansson has no type for a number in it (*ret_overflow). */
struct reference *reference_read(struct text text, bool *ret_overflow);
void reference_free(struct reference *root);

enum reference_type reference_type(const struct reference *value);
bool reference_boolean(const struct reference *value);
int64_t reference_integer(const struct reference *value);
double reference_real(const struct reference *value);
struct text reference_string(const struct reference *value);
/** Returns the number of elements or members of an array or an object. */
size_t reference_size(const struct reference *value);
const struct reference *reference_element(const struct reference *value, size_t i);
/** Returns NULL if there is no such member. */
const struct reference *reference_member(const struct reference *value, const char *name);
