/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes metrics as text, in one of two formats that differ in few places: OpenMetrics 1.0 omits a
 * counter's "_total" in its type, and ends with "# EOF"; Prometheus's text format 0.0.4 names it as
 * its samples do, and does not end with a mark.
 */

#include "common/text.h"

#include <event2/buffer.h>
#include <stdbool.h>
#include <stdint.h>

struct metrics_text {
	struct evbuffer *buffer;
	bool prometheus;
};

/** Writes the name of a family of samples, without "cloister_" and "_total", and its type. */
void metrics_family(
	const struct metrics_text *out, const char *name, const char *type, const char *help);

/** Write a family of one sample without labels. */
void metrics_gauge(
	const struct metrics_text *out, const char *name, uint64_t value, const char *help);
void metrics_counter(
	const struct metrics_text *out, const char *name, uint64_t value, const char *help);

/** Writes a label's value that others chose, escaped and quoted. */
void metrics_label(const struct metrics_text *out, const char *value);

__attribute__((format(printf, 2, 3))) void metrics_add(
	const struct metrics_text *out, const char *format, ...);

void metrics_end(const struct metrics_text *out);
