/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A patch's parts. */

#include "common/wire/wire.h"
#include "tests/lib/unit.h"

/* Encodes lines of a type and a text, with "|" as newline, into a buffer of its own. */
static inline struct text encode_parts(const char *parts)
{
	static char buffer[4096];
	struct wire_writer writer = wire_writer(buffer, sizeof(buffer));
	struct text rest = text_from(parts);

	while (rest.len > 0) {
		struct text line = text_take(&rest, '\n');
		char copy[256];

		assert_true(line.len > 0 && line.len < sizeof(copy));
		for (size_t i = 1; i < line.len; i++)
			copy[i] = line.data[i] == '|' ? '\n' : line.data[i];
		wire_put_u8(&writer, (uint8_t)line.data[0]);
		wire_put_text(&writer, (struct text){copy + 1, line.len - 1});
	}
	assert_true(wire_writer_ok(&writer));
	return (struct text){buffer, writer.len};
}
