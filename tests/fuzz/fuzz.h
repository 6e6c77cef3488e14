/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the fuzz targets share. A target gets bytes from libFuzzer, feeds them to one part of
 * cloister and checks what must hold of the result; CHECK ends the process where it does not, which
 * libFuzzer reports with the input, as it does for what the sanitizers find.
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

/* The next byte of @rest, 0 at its end. */
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

/* What stands before the next line that is just @mark, such as "\n%%\n"; all of it where there is
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

/* A copy whose end the sanitizers watch: reading one byte past it is a fault. */
static inline char *fuzz_copy(struct text text)
{
	char *copy = malloc(text.len ? text.len : 1);

	CHECK(copy);
	if (text.len > 0)
		memcpy(copy, text.data, text.len);
	return copy;
}
