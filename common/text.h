/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A borrowed run of bytes with its length: file names and file contents may hold any byte, so
 * nothing that comes from a client or a workspace is passed as a bare char pointer.
 */

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct text {
	const char *data;
	size_t len;
};

#define TEXT_LITERAL(string) ((struct text){(string), sizeof(string) - 1})

static inline struct text text_from(const char *string)
{
	return (struct text){string, string ? strlen(string) : 0};
}

static inline bool text_equal(struct text a, struct text b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline bool text_has_nul(struct text text)
{
	return text.len > 0 && memchr(text.data, '\0', text.len) != NULL;
}
