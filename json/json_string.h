/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Strings of JSON texts (RFC 8259 section 7): first checked and measured, then decoded into memory
 * of exactly that size. For json_read.c; the text is hostile. */

#include "common/text.h"

#include <stdbool.h>

struct json_string {
	struct text raw; /* between the quotation marks */
	size_t len;   /* of what it means, in UTF-8: at most raw.len, and equal without escapes */
	size_t taken; /* of the text, quotation marks included; with a fault, up to that */
	bool has_nul;
};

/** Scans the string that @text begins with: its first byte is a quotation mark. NULL, or a static
 * fault. */
const char *json_string_scan(struct text text, struct json_string *ret);

/** Writes what @string, which was scanned without a fault, means: its len bytes. */
void json_string_decode(const struct json_string *string, char *to);
