// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/session/until.h"

#include <assert.h>

/* Sets next[i] to the length of the longest part, shorter than i + 1 bytes, that both begins the
 * bytes and ends their first i + 1. */
static void make_next(struct until *until)
{
	size_t matched = 0;

	until->next[0] = 0;
	for (size_t i = 1; i < until->len; i++) {
		while (matched > 0 && until->bytes[i] != until->bytes[matched])
			matched = until->next[matched - 1];
		if (until->bytes[i] == until->bytes[matched])
			matched++;
		until->next[i] = (uint16_t)matched;
	}
}

void until_contains(struct until *until, struct text bytes)
{
	assert(bytes.len > 0 && bytes.len <= LIMIT_SESSION_UNTIL_BYTES);
	*until = (struct until){.kind = UNTIL_CONTAINS, .len = bytes.len};
	memcpy(until->bytes, bytes.data, bytes.len);
	make_next(until);
}

bool until_feed(struct until *until, unsigned stream, struct text output)
{
	size_t matched = until->matched[stream];

	if (until->kind != UNTIL_CONTAINS)
		return false;
	for (size_t i = 0; i < output.len; i++) {
		if (matched == 0) {
			const char *first =
				memchr(output.data + i, until->bytes[0], output.len - i);

			if (!first)
				break;
			i = (size_t)(first - output.data);
		}
		while (matched > 0 && until->bytes[matched] != output.data[i])
			matched = until->next[matched - 1];
		if (until->bytes[matched] == output.data[i])
			matched++;
		if (matched == until->len)
			return true;
	}
	until->matched[stream] = matched;
	return false;
}
