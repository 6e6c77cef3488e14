// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/call/result/shown.h"

#include "common/limits.h"
#include "supervisor/base/json_escape.h"
#include "supervisor/call/request/args_decode.h"
#include "supervisor/call/request/notes.h"
#include "supervisor/config/tenant.h"

#include <inttypes.h>
#include <stdio.h>

struct shown shown_to(
	enum reader reader, const struct call_options *options, const struct tenant_limits *limits)
{
	struct shown shown = {.sent = UINT64_MAX, .lines = UINT64_MAX};

	if (options->max_output > 0) {
		shown.bytes = (uint64_t)options->max_output;
		shown.entries = UINT64_MAX;
	} else if (reader != READER_PROGRAM && !options->base64) {
		const uint64_t quarter = limits->output_shown_bytes / 4;

		shown.bytes = limits->output_shown_bytes;
		shown.sent = shown.bytes -
			     (quarter < LIMIT_SHOWN_REST_BYTES ? quarter : LIMIT_SHOWN_REST_BYTES);
		shown.lines = LIMIT_SHOWN_LINES;
		shown.entries = LIMIT_SHOWN_ENTRIES;
	}
	shown.line = shown.bytes < LIMIT_SHOWN_LINE_BYTES ? shown.bytes : LIMIT_SHOWN_LINE_BYTES;
	shown.numbered = options->line_numbers && !options->base64;
	shown.text = shown.bytes > 0 && !options->base64;
	shown.both = reader == READER_MODEL_BOTH;
	shown.images = reader >= READER_MODEL_IMAGES && !options->base64;
	return shown;
}

uint64_t shown_cost(const struct shown *shown, struct text text)
{
	return json_escaped_size(text) * (shown->both ? 2 : 1);
}

uint64_t shown_left(const struct shown *shown, const struct notes *notes)
{
	uint64_t left = shown->sent;

	for (size_t i = 0; left < UINT64_MAX && notes && i < notes->count; i++) {
		const uint64_t cost = shown_cost(shown, text_from(notes->texts[i]));

		left = left > cost ? left - cost : 0;
	}
	return left;
}

const char *shown_number(uint64_t number, char buffer[static SHOWN_NUMBER_SIZE])
{
	char *at = &buffer[SHOWN_NUMBER_SIZE - 1];
	unsigned digits = 0;

	*at = '\0';
	do {
		if (digits > 0 && digits % 3 == 0)
			*--at = ',';
		*--at = (char)('0' + number % 10);
		digits++;
		number /= 10;
	} while (number > 0);
	return at;
}
