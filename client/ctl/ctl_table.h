/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Prints arrays of JSON objects as tables. */

#include <stddef.h>

struct json_object;

enum ctl_kind {
	CTL_TEXT,
	CTL_NUMBER,   /* aligned to the right */
	CTL_DURATION, /* milliseconds */
	CTL_SIZE,     /* bytes */
	CTL_YES_NO,
};

struct ctl_column {
	const char *key; /* name of the member; NULL ends the columns */
	const char *heading;
	enum ctl_kind kind;
};

/**
 * Prints @rows, an array of objects, with @columns; the last column is not padded. Text is escaped
 * for terminals.
 */
void ctl_table(struct json_object *rows, const struct ctl_column *columns);

/** Formats @ms as "350ms", "12.5s", "3h05m" or "12d03h". Returns @buffer. */
const char *ctl_duration(long long ms, char *buffer, size_t size);
