// SPDX-License-Identifier: Apache-2.0
/*
 * Used by cloisterd and the spawner, at start and on reload. The file belongs to the administrator
 * and may still hold anything. If a wrong command has overwritten it, it is refused as a whole and
 * every mistake in it is reported.
 *
 * inih decides which part of a line is a name, a comment or the continuation of the setting above.
 * It gets one line at a time from here, because it does not number lines for its handler, reports
 * only the first line that it cannot read, and holds only 200 bytes of a line. The value is
 * therefore taken from our own copy of the line, and " ;" in it begins no comment.
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
	char *content;  /* the line without white space around it */
	bool unread;    /* the line must be a setting, and inih has not yet reported it as one */
	bool named;     /* there is a setting that an indented line would continue */
	bool continues; /* the current line continues it */
};

static struct text take_config_line(struct text *rest)
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

/*
 * Copies @line into source->line. A line that is not valid text becomes an empty line, with a
 * complaint.
 */
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
			"the line contains control characters, or bytes that are not UTF-8");
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

static void begin_source_section(struct source *source, char *header)
{
	size_t len = strlen(header);

	source->named = false;
	if (header[len - 1] == ']') {
		header[len - 1] = '\0';
		source->reader->handler->section(source->reader, header + 1);
		return;
	}
	config_wrong(source->reader, "not a section: write [name] alone on its line");
	source->reader->handler->section(source->reader, NULL);
}

/* The ini_reader callback: gives inih the next line. */
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
	copy_line(source, take_config_line(&source->rest));
	indented = source->line[0] == ' ' || source->line[0] == '\t';
	source->continues = indented && source->named;
	/* inih's buffer bounds what it gets. */
	snprintf(buffer, (size_t)size, "%.*s\n", size - 2, source->line);
	source->content = strip(source->line);
	if (source->content[0] == '[' && !source->continues) {
		begin_source_section(source, source->content);
		/* any complete header will do: begin_source_section() has read the name */
		snprintf(buffer, (size_t)size, "[x]\n");
		return buffer;
	}
	source->unread = source->content[0] != '\0' && !strchr("#;", source->content[0]);
	return buffer;
}

/* The ini_handler callback. */
static int take_source_setting(
	void *context, const char *section, const char *name, const char *value)
{
	struct source *source = context;
	char *content = source->content;

	(void)section;
	(void)value; /* may be truncated */
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
	/*
	 * next_line() reports the lines that inih cannot read, so its result matters only for
	 * memory.
	 */
	return ini_parse_stream(next_line, source, take_source_setting, source) == -2 ? -ENOMEM : 0;
}
