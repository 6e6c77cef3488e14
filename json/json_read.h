/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The JSON reader. cloisterd, libcloister and the commands read every JSON text from outside here
 * and nowhere else. It accepts RFC 8259 and nothing more, makes values with json-c's constructors,
 * and counts the memory of each value before it makes it. The text is hostile.
 *
 * It also refuses invalid UTF-8; a surrogate without its other half, raw or escaped; a member name
 * that is given twice or holds a NUL; more than LIMIT_JSON_DEPTH levels, LIMIT_JSON_MEMBERS members
 * of one object or LIMIT_JSON_NUMBER_BYTES digits of one number.
 *
 * Integers from -2^63 to 2^64 - 1 are kept exactly. A larger number, or one with a fraction or an
 * exponent, becomes a double that is written out again as it was read. A string may hold a NUL.
 */

#include "common/text.h"

#include <stddef.h>

struct json_object;

struct json_bounds {
	size_t values; /* values of all types in the whole text */
	size_t memory; /* bytes of memory for them, as json_report.memory counts */
};

struct json_report {
	const char *fault; /* a static phrase such as "invalid number"; NULL: no fault */
	size_t at;         /* offset of the fault in the text */
	/* Heap memory for the values: at least what glibc's malloc takes, also while they grow. */
	size_t memory;
};

/**
 * Reads @text, which is one value with optional white space around it. Always fills in @ret_report.
 *
 * Returns 0 with *ret_value, to be released with json_object_put(); a null is NULL. Otherwise
 * returns -EBADMSG if @text is not such a value or is nested too deeply, -EMSGSIZE if it has too
 * many or too long parts, -ENOBUFS if it needs more than @bounds->memory, which is detected before
 * the memory is taken, or -ENOMEM.
 */
int json_read(struct text text, const struct json_bounds *bounds, struct json_object **ret_value,
	struct json_report *ret_report);

/**
 * Returns the bounds for a client's text of @len bytes: its strings may take as much memory as
 * their text, all other values together LIMIT_JSON_MEMORY_BYTES.
 */
struct json_bounds json_request_bounds(size_t len);
