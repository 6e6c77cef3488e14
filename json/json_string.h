/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Strings in JSON texts (RFC 8259 section 7), for json_read.c: first validated and measured, then
 * decoded into memory of exactly that size. The text is hostile.
 */

#include "common/text.h"

#include <stdbool.h>

struct json_string {
	struct text raw; /* the bytes between the quotation marks */
	/* length of the decoded UTF-8: at most raw.len, and equal to it without escapes */
	size_t len;
	/* bytes of the text up to and with the closing quotation mark, or up to the fault */
	size_t taken;
	bool has_nul;
};

/**
 * Scans the string at the beginning of @text, whose first byte is a quotation mark. Returns NULL,
 * or a static phrase that names the fault.
 */
const char *json_string_scan(struct text text, struct json_string *ret);

/** Decodes @string, which was scanned without a fault, to @to, which has room for its len bytes. */
void json_string_decode(const struct json_string *string, char *to);
