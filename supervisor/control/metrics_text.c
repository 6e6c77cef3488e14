// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. A tenant's name in a label may be any text. */
#include "supervisor/control/metrics_text.h"

#include <stdarg.h>
#include <string.h>

void metrics_family(
	const struct metrics_text *out, const char *name, const char *type, const char *help)
{
	const char *end = out->prometheus && strcmp(type, "counter") == 0 ? "_total" : "";

	metrics_add(out, "# TYPE cloister_%s%s %s\n# HELP cloister_%s%s %s\n", name, end, type,
		name, end, help);
}

void metrics_gauge(
	const struct metrics_text *out, const char *name, uint64_t value, const char *help)
{
	metrics_family(out, name, "gauge", help);
	metrics_add(out, "cloister_%s %llu\n", name, (unsigned long long)value);
}

void metrics_counter(
	const struct metrics_text *out, const char *name, uint64_t value, const char *help)
{
	metrics_family(out, name, "counter", help);
	metrics_add(out, "cloister_%s_total %llu\n", name, (unsigned long long)value);
}

void metrics_label(const struct metrics_text *out, const char *value)
{
	evbuffer_add(out->buffer, "\"", 1);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			evbuffer_add(out->buffer, "\\", 1);
		evbuffer_add(out->buffer, *value == '\n' ? "\\n" : value, *value == '\n' ? 2 : 1);
	}
	evbuffer_add(out->buffer, "\"", 1);
}

void metrics_add(const struct metrics_text *out, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	evbuffer_add_vprintf(out->buffer, format, arguments);
	va_end(arguments);
}

void metrics_end(const struct metrics_text *out)
{
	if (!out->prometheus)
		metrics_add(out, "# EOF\n");
}
