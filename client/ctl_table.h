/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Tables for people, of arrays of JSON objects. */

#include <stddef.h>

struct json_object;

enum ctl_kind {
	CTL_TEXT,
	CTL_NUMBER,   /* to the right */
	CTL_DURATION, /* milliseconds */
	CTL_YES_NO,
};

struct ctl_column {
	const char *key; /* of the objects' member; NULL ends the columns */
	const char *heading;
	enum ctl_kind kind;
};

/** Prints @rows, an array of objects, with @columns; the last one is not padded. Text is escaped
 * for terminals. */
void ctl_table(struct json_object *rows, const struct ctl_column *columns);

/** "350ms", "12.5s", "3h05m": @ms for people. Returns @buffer. */
const char *ctl_duration(long long ms, char *buffer, size_t size);
