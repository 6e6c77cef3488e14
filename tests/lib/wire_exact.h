/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Messages of the wire are exact. */

#include "common/wire/wire.h"
#include "tests/lib/unit.h"

static uint8_t bytes[2048];

static inline struct text written(const struct wire_writer *writer)
{
	assert_true(wire_writer_ok(writer));
	return (struct text){(char *)bytes, writer->len};
}

/* Checks that @get accepts exactly @payload: none shorter, and none with one more byte. */
static inline void check_exact(struct text payload, int (*get)(struct text payload))
{
	bytes[payload.len] = 0;
	assert_int_equal(get(payload), 0);
	for (size_t len = 0; len < payload.len; len++)
		assert_int_equal(get((struct text){payload.data, len}), -EBADMSG);
	assert_int_equal(get((struct text){payload.data, payload.len + 1}), -EBADMSG);
}
