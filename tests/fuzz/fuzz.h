/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the fuzz targets. A target gets bytes from libFuzzer, feeds them to one part of
 * cloister and checks the result. CHECK ends the process if its condition is false. libFuzzer then
 * reports the input, as it does for a fault that a sanitizer finds.
 */

#include "common/text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition) ((condition) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #condition))

static inline _Noreturn void fuzz_fail(const char *file, int line, const char *condition)
{
	fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
	abort();
}

static inline struct text fuzz_text(const uint8_t *data, size_t size)
{
	return (struct text){(const char *)data, size};
}

/* Takes the next byte of @rest; 0 at its end. */
static inline uint8_t fuzz_byte(struct text *rest)
{
	uint8_t byte;

	if (rest->len == 0)
		return 0;
	byte = (uint8_t)rest->data[0];
	rest->data++;
	rest->len--;
	return byte;
}

/* Takes the text before the next line that is just @mark, such as "\n%%\n"; the rest if there is
 * none. */
static inline struct text fuzz_section(struct text *rest, struct text mark)
{
	const char *end = rest->len > 0
				  ? (const char *)memmem(rest->data, rest->len, mark.data, mark.len)
				  : NULL;
	struct text section = {rest->data, end ? (size_t)(end - rest->data) : rest->len};
	size_t used = section.len + (end ? mark.len : 0);

	rest->data += used;
	rest->len -= used;
	return section;
}

/* Returns a copy in a block of its exact size, so that the sanitizers see a read past its end. */
static inline char *fuzz_copy(struct text text)
{
	char *copy = malloc(text.len ? text.len : 1);

	CHECK(copy);
	if (text.len > 0)
		memcpy(copy, text.data, text.len);
	return copy;
}
