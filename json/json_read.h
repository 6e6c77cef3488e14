/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The reader of JSON: every JSON text from outside, in cloisterd, libcloister and the commands, is
 * read here and nowhere else. It reads RFC 8259 and nothing more, makes the values itself with
 * json-c's constructors, and counts the memory of each before it makes it. The text is hostile.
 *
 * Refused beside what is no JSON: invalid UTF-8; a surrogate without its other half, raw or
 * escaped; a member name given twice or holding a NUL; more than LIMIT_JSON_DEPTH levels,
 * LIMIT_JSON_MEMBERS members of one object or LIMIT_JSON_NUMBER_BYTES digits of one number.
 *
 * Integers from -2^63 to 2^64 - 1 are kept exactly. A number beyond that, or with a fraction or an
 * exponent, becomes a double that is written out again as it was read. A string may hold a NUL.
 */

#include "common/text.h"

#include <stddef.h>

struct json_object;

struct json_bounds {
	size_t values; /* of all kinds, in the whole text */
	size_t memory; /* bytes that they may take, as json_report.memory counts them */
};

struct json_report {
	const char *fault; /* static, no sentence: "invalid number"; NULL: there is none */
	size_t at;         /* the byte of the text that the fault is at, from 0 */
	/* Of the heap, for the values: at least what glibc's malloc takes, also while they grow. */
	size_t memory;
};

/**
 * Reads the one value that @text is, with white space around it. @ret_report is filled in any case.
 *
 * Returns 0 with *ret_value to be released with json_object_put(), of which null is NULL. Otherwise
 * -EBADMSG where @text is not such a value or nested too deeply, -EMSGSIZE where something in it
 * is too many or too long, -ENOBUFS where it is beyond @bounds->memory, which is found out before
 * that memory is taken, or -ENOMEM.
 */
int json_read(struct text text, const struct json_bounds *bounds, struct json_object **ret_value,
	struct json_report *ret_report);

/** The bounds of a text of @len bytes that a client sent: its strings take what they take as text,
 * and all the rest LIMIT_JSON_MEMORY_BYTES. */
struct json_bounds json_request_bounds(size_t len);
