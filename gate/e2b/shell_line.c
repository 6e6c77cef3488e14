// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate, which trusts no client. */

#include "gate/e2b/shell_line.h"

#include <errno.h>

/* Single quotes keep every byte but themselves, which are written as '\''. */
int shell_line_append(struct byte_queue *line, struct text word)
{
	int r = byte_queue_append(line, "'", 1);

	while (r == 0 && word.len > 0) {
		const char *quote = memchr(word.data, '\'', word.len);
		size_t n = quote ? (size_t)(quote - word.data) : word.len;

		r = byte_queue_append(line, word.data, n);
		if (r == 0 && quote)
			r = byte_queue_append(line, "'\\''", 4);
		n += quote ? 1 : 0;
		word.data += n;
		word.len -= n;
	}
	return r == 0 ? byte_queue_append(line, "' ", 2) : r;
}

int shell_line_take(struct text *line, struct byte_queue *ret_word)
{
	struct text rest = *line;

	while (rest.len > 0 && rest.data[0] == '\'') {
		struct text part;
		const char *end;

		rest.data++;
		rest.len--;
		end = memchr(rest.data, '\'', rest.len);
		if (end == NULL)
			return 0;
		part = (struct text){rest.data, (size_t)(end - rest.data)};
		rest.len -= part.len + 1;
		rest.data = end + 1;
		if (byte_queue_append(ret_word, part.data, part.len) < 0)
			return -ENOMEM;
		if (rest.len > 0 && rest.data[0] == ' ') {
			rest.data++;
			rest.len--;
			*line = rest;
			return 1;
		}
		if (rest.len < 3 || memcmp(rest.data, "\\''", 3) != 0)
			return 0;
		if (byte_queue_append(ret_word, "'", 1) < 0)
			return -ENOMEM;
		rest.data += 2;
		rest.len -= 2;
	}
	return 0;
}
