// SPDX-License-Identifier: Apache-2.0
/*
 * cloisterd, at start and on reload. The file is its administrator's and may still hold anything:
 * what a wrong command wrote over it must be refused as a whole, with every mistake named.
 *
 * inih says what on a line is a name, a comment or the continuation of the setting above. It sees a
 * line at a time from us, because it neither numbers lines for its handler nor reports more than
 * the first that it cannot read, and holds 200 bytes of one: so the value is taken from our own
 * copy, whole, and " ;" in it begins no comment.
 */
#include "common/cleanup.h"
#include "common/config/config_reader.h"
#include "common/limits.h"
#include "common/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>

struct source {
	struct config_reader *reader;
	struct text rest;
	char line[LIMIT_CONFIG_LINE_BYTES + 1];
	char *content;  /* of line, without white space around it */
	bool unread;    /* it ought to be a setting, and inih has not said that it is one */
	bool named;     /* there is a setting above that an indented line continues */
	bool continues; /* the line at hand does */
};

static struct text take_line(struct text *rest)
{
	const char *newline = memchr(rest->data, '\n', rest->len);
	struct text line = {rest->data, newline ? (size_t)(newline - rest->data) : rest->len};
	size_t taken = line.len + (newline ? 1 : 0);

	rest->data += taken;
	rest->len -= taken;
	if (line.len > 0 && line.data[line.len - 1] == '\r')
		line.len--;
	return line;
}

static bool has_control_character(struct text line)
{
	for (size_t i = 0; i < line.len; i++) {
		unsigned char byte = (unsigned char)line.data[i];

		if ((byte < ' ' && byte != '\t') || byte == 0x7f)
			return true;
	}
	return false;
}

/* Copies @line to where it can be worked on; an empty one in place of what is no text. */
static void copy_line(struct source *source, struct text line)
{
	source->line[0] = '\0';
	if (line.len > LIMIT_CONFIG_LINE_BYTES) {
		config_wrong(source->reader, "the line is longer than %d bytes",
			LIMIT_CONFIG_LINE_BYTES);
		return;
	}
	if (has_control_character(line) || !utf8_is_valid(line)) {
		config_wrong(source->reader,
			"the line holds bytes that are not UTF-8 text, or control characters");
		return;
	}
	memcpy(source->line, line.data, line.len);
	source->line[line.len] = '\0';
}

static char *strip(char *string)
{
	size_t len;

	while (isspace((unsigned char)*string))
		string++;
	len = strlen(string);
	while (len > 0 && isspace((unsigned char)string[len - 1]))
		string[--len] = '\0';
	return string;
}

static void begin_section(struct source *source, char *header)
{
	size_t len = strlen(header);

	source->named = false;
	if (header[len - 1] == ']') {
		header[len - 1] = '\0';
		source->reader->handler->section(source->reader, header + 1);
		return;
	}
	config_wrong(source->reader, "a section is written [name], alone on its line");
	source->reader->handler->section(source->reader, NULL);
}

/* An ini_reader: the next line for inih. */
static char *next_line(char *buffer, int size, void *context)
{
	struct source *source = context;
	bool indented;

	if (source->unread)
		config_wrong(source->reader, "not a setting: write name = value");
	source->unread = false;
	if (source->rest.len == 0)
		return NULL;
	source->reader->line++;
	copy_line(source, take_line(&source->rest));
	indented = source->line[0] == ' ' || source->line[0] == '\t';
	source->continues = indented && source->named;
	/* At most as much as inih can hold. */
	snprintf(buffer, (size_t)size, "%.*s\n", size - 2, source->line);
	source->content = strip(source->line);
	if (source->content[0] == '[' && !source->continues) {
		begin_section(source, source->content);
		snprintf(buffer, (size_t)size, "[x]\n"); /* any, and a whole one */
		return buffer;
	}
	source->unread = source->content[0] != '\0' && !strchr("#;", source->content[0]);
	return buffer;
}

/* An ini_handler. */
static int take_setting(void *context, const char *section, const char *name, const char *value)
{
	struct source *source = context;
	char *content = source->content;

	(void)section;
	(void)value; /* cut */
	source->unread = false;
	source->named = true;
	if (!source->continues)
		content = strip(content + strcspn(content, "=:") + 1);
	source->reader->handler->setting(source->reader, name, content);
	return 1;
}

int config_file_read(struct config_reader *reader, struct text text)
{
	_cleanup_free_ struct source *source = calloc(1, sizeof(*source));

	if (!source)
		return -ENOMEM;
	source->reader = reader;
	source->rest = text;
	reader->line = 0;
	reader->handler->file(reader);
	/* What it cannot read it says by line; next_line has noticed already. */
	return ini_parse_stream(next_line, source, take_setting, source) == -2 ? -ENOMEM : 0;
}
