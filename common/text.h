/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A borrowed run of bytes with its length. File names and file contents may hold any byte, so data
 * from a client or a workspace is never passed as a bare char pointer.
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

/**
 * Takes the bytes before the next @separator from the beginning of @text, and removes the
 * separator; takes all of @text if there is none.
 */
static inline struct text text_take(struct text *text, char separator)
{
	const char *end =
		text->len > 0 ? (const char *)memchr(text->data, separator, text->len) : NULL;
	struct text part = {text->data, end ? (size_t)(end - text->data) : text->len};
	size_t used = part.len + (end ? 1 : 0);

	text->data += used;
	text->len -= used;
	return part;
}
