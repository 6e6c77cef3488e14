// SPDX-License-Identifier: Apache-2.0
/* Runs in the client. */
#include "client/shell_words.h"

#include "common/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Appends @word to @line, quoted so that sh(1) reads it as one word. */
static char *quote_word(char *out, const char *word)
{
	*out++ = '\'';
	for (; *word; word++) {
		if (*word == '\'')
			out = stpcpy(out, "'\\'");
		*out++ = *word;
	}
	*out++ = '\'';
	return out;
}

char *shell_line(int argc, char **argv)
{
	size_t size = 1;
	char *line;
	char *out;

	if (argc == 1)
		return strdup(argv[0]);
	for (int i = 0; i < argc; i++)
		/* worst case: each byte quoted, two quotes, a space */
		size += 4 * strlen(argv[i]) + 3;
	line = malloc(size);
	if (!line)
		return NULL;
	out = line;
	for (int i = 0; i < argc; i++) {
		if (i > 0)
			*out++ = ' ';
		out = quote_word(out, argv[i]);
	}
	*out = '\0';
	return line;
}

char *shell_assignment(const char *name, const char *value)
{
	size_t size = 3 * strlen(name) + 4 * strlen(value) + 32;
	char *line = malloc(size);
	char *out;

	if (!line)
		return NULL;
	if (utf8_valid_prefix(text_from(value)) == strlen(value)) {
		out = line + sprintf(line, "%s=", name);
		out = quote_word(out, value);
		memcpy(out, ";", 2);
		return line;
	}
	/* "$(...)" would remove trailing newlines. */
	out = line + sprintf(line, "%s=$(printf '", name);
	for (; *value; value++)
		out += sprintf(out, "\\%03o", (unsigned char)*value);
	sprintf(out, "_');%s=${%s%%_};", name, name);
	return line;
}
