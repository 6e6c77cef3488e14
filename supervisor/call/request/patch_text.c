// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd, on what a model wrote. Touches no file. */
#include "supervisor/call/request/patch_text.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/line_count.h"
#include "common/path_rules.h"
#include "common/utf8.h"
#include "common/wire/wire_files.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define BEGIN_PATCH TEXT_LITERAL("*** Begin Patch")
#define END_PATCH   TEXT_LITERAL("*** End Patch")
#define ADD_FILE    TEXT_LITERAL("*** Add File: ")
#define DELETE_FILE TEXT_LITERAL("*** Delete File: ")
#define UPDATE_FILE TEXT_LITERAL("*** Update File: ")
#define MOVE_TO     TEXT_LITERAL("*** Move to: ")
#define END_OF_FILE TEXT_LITERAL("*** End of File")
#define HEADERS                                                                            \
	"\"*** Add File: PATH\", \"*** Update File: PATH\", \"*** Delete File: PATH\" or " \
	"\"*** End Patch\""
#define SHOWN_BYTES 60 /* of a line of the patch, in a message */

struct patch_reader {
	struct text visible_root;
	struct text rest; /* lines that have not been read */
	struct text line; /* the present one, without its newline */
	size_t number;    /* of the present line, from 1 */
	bool has_line;    /* there is a present line */
	struct wire_writer parts;
	size_t n_parts, n_hunks, n_files;
	char *paths[2 * LIMIT_PATCH_FILES]; /* that the patch has named so far */
	size_t n_paths;
	enum tool_error error;
	char *message;
};

static bool __attribute__((format(printf, 3, 4)))
fail(struct patch_reader *reader, enum tool_error error, const char *format, ...)
{
	_cleanup_free_ char *sentence = NULL;
	va_list arguments;
	int r;

	reader->error = error;
	va_start(arguments, format);
	r = vasprintf(&sentence, format, arguments);
	va_end(arguments);
	if (r < 0 || asprintf(&reader->message, "apply_patch: line %zu of the patch: %s",
			     reader->number, sentence) < 0)
		reader->message = NULL;
	return false;
}

#define REFUSE(reader, ...) fail(reader, TOOL_INVALID_ARGUMENTS, __VA_ARGS__)

static bool begins_with(struct text text, struct text with)
{
	return text.len >= with.len && memcmp(text.data, with.data, with.len) == 0;
}

/* Writes as much of @line as a message shows. */
static const char *shown(struct text line, char buffer[SHOWN_BYTES + 4])
{
	struct text part = {line.data, line.len < SHOWN_BYTES ? line.len : SHOWN_BYTES};

	part.len = utf8_valid_prefix(part);
	snprintf(buffer, SHOWN_BYTES + 4, "%.*s%s", (int)part.len, part.len > 0 ? part.data : "",
		part.len < line.len ? "…" : "");
	return buffer;
}

/* Goes to the next line. */
static void advance(struct patch_reader *reader)
{
	reader->has_line = reader->rest.len > 0;
	reader->number++;
	reader->line = text_take(&reader->rest, '\n');
}

static bool is_header(struct text line)
{
	return begins_with(line, TEXT_LITERAL("***"));
}

/* Writes the part of @type, or adds the present line to the run of the same sign before it. */
static bool put_patch_part(
	struct patch_reader *reader, enum files_patch_part type, struct text text)
{
	if (++reader->n_parts > LIMIT_PATCH_PARTS)
		return REFUSE(reader,
			"the patch has more than %d parts: hunks, @@ lines and runs of lines with "
			"one sign; make several patches",
			LIMIT_PATCH_PARTS);
	wire_put_u8(&reader->parts, (uint8_t)type);
	wire_put_text(&reader->parts, text);
	return true;
}

/*
 * Puts the present line and those after it that have its sign as one part. Lines of a run are not
 * in one piece in the patch, so they are put one by one, and the part's length at the end.
 */
static bool put_run(struct patch_reader *reader, char sign)
{
	const size_t length_at = reader->parts.len + 1;
	size_t begin;
	uint32_t len;

	if (!put_patch_part(reader, (enum files_patch_part)sign, (struct text){"", 0}))
		return false;
	begin = reader->parts.len;
	while (reader->has_line && (reader->line.len > 0 ? reader->line.data[0] : ' ') == sign) {
		size_t skip = reader->line.len > 0;

		if (reader->parts.size - reader->parts.len <= reader->line.len)
			return false; /* the size was computed so that this cannot happen */
		memcpy(reader->parts.data + reader->parts.len, reader->line.data + skip,
			reader->line.len - skip);
		reader->parts.len += reader->line.len - skip;
		wire_put_u8(&reader->parts, '\n');
		advance(reader);
	}
	len = (uint32_t)(reader->parts.len - begin);
	memcpy(reader->parts.data + length_at, &len, sizeof(len));
	return true;
}

/* Remembers that the patch names @path. Takes it. */
static bool note_path(struct patch_reader *reader, char *path)
{
	path_rules_normalise(path);
	for (size_t i = 0; i < reader->n_paths; i++)
		if (strcmp(reader->paths[i], path) == 0) {
			char buffer[SHOWN_BYTES + 4];

			(void)REFUSE(reader,
				"the patch names \"%s\" twice; put all hunks of a file below one "
				"header",
				shown(text_from(path), buffer));
			free(path);
			return false;
		}
	reader->paths[reader->n_paths++] = path;
	return true;
}

/* Puts the path that the present line has after @header, and goes to the next line. */
static bool put_path(struct patch_reader *reader, enum files_patch_part type, struct text header)
{
	struct text path = {reader->line.data + header.len, reader->line.len - header.len};
	char *relative = NULL;
	enum tool_error error;

	if (path.len == 0)
		return REFUSE(reader, "the header has no path");
	if (path.data[0] == ' ' || path.data[path.len - 1] == ' ' ||
		path.data[path.len - 1] == '\r')
		return REFUSE(
			reader, "the path begins or ends with white space; give it without that");
	error = path_rules_check(reader->visible_root, path, false, &relative);
	if (error != TOOL_OK)
		return fail(reader, error, "%s", path_rules_sentence(error, path));
	if (!put_patch_part(reader, type, text_from(relative))) {
		free(relative);
		return false;
	}
	if (!note_path(reader, relative))
		return false;
	advance(reader);
	return true;
}

static bool read_add(struct patch_reader *reader)
{
	if (!put_path(reader, PATCH_PART_ADD, ADD_FILE))
		return false;
	if (reader->has_line && reader->line.len > 0 && reader->line.data[0] == '+' &&
		!put_run(reader, '+'))
		return false;
	if (!reader->has_line || (is_header(reader->line) &&
					 !begins_with(reader->line, TEXT_LITERAL("*** Move to:")) &&
					 !text_equal(reader->line, END_OF_FILE)))
		return true;
	if (is_header(reader->line))
		return REFUSE(reader, "a file that is added has lines with + only");
	return REFUSE(reader, "each line of a file that is added begins with +, also an empty one");
}

static bool read_delete(struct patch_reader *reader)
{
	if (!put_path(reader, PATCH_PART_DELETE, DELETE_FILE))
		return false;
	if (!reader->has_line || (is_header(reader->line) &&
					 !begins_with(reader->line, TEXT_LITERAL("*** Move to:")) &&
					 !text_equal(reader->line, END_OF_FILE)))
		return true;
	return REFUSE(
		reader, "a file that is deleted has no lines; after its header comes " HEADERS);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Puts the anchor of the present line, which begins with @@, if it has one. */
static bool put_anchor(struct patch_reader *reader, size_t *count)
{
	struct text anchor = {reader->line.data + 2, reader->line.len - 2};

	if (anchor.len > 0 && anchor.data[0] != ' ')
		return REFUSE(reader,
			"write \"@@\" alone, or \"@@ \" and a line of the file above the hunk");
	if (anchor.len > 2 && (anchor.data[1] == '-' || anchor.data[1] == '+') &&
		is_digit(anchor.data[2]))
		return REFUSE(reader, "line numbers are not used: write \"@@\" alone, or \"@@ \" "
				      "and a line of the file above the hunk");
	if (anchor.len > 3 && memcmp(anchor.data + anchor.len - 3, " @@", 3) == 0)
		return REFUSE(reader, "leave \" @@\" at the end of the line out");
	while (anchor.len > 0 && (*anchor.data == ' ' || *anchor.data == '\t')) {
		anchor.data++;
		anchor.len--;
	}
	if (anchor.len == 0)
		return true;
	if (++*count > LIMIT_PATCH_ANCHORS)
		return REFUSE(reader, "a hunk has at most %d lines with @@", LIMIT_PATCH_ANCHORS);
	return put_patch_part(reader, PATCH_PART_ANCHOR, anchor);
}

static bool is_sign(char c)
{
	return c == ' ' || c == '-' || c == '+';
}

/* Whether the present line can be one of a hunk. */
static bool is_hunk_line(const struct patch_reader *reader)
{
	return reader->has_line && (reader->line.len == 0 || is_sign(reader->line.data[0]));
}

static bool refuse_hunk_line(struct patch_reader *reader)
{
	struct text line = reader->line;
	char buffer[SHOWN_BYTES + 4];

	if (!reader->has_line)
		return REFUSE(reader, "the patch ends without \"*** End Patch\"");
	if (line.data[0] == '\\')
		return REFUSE(reader, "\"\\ No newline at end of file\" is not used: whether the "
				      "last line has a newline stays as it is");
	return REFUSE(reader,
		"a hunk's line begins with a space, - or +, and this is \"%s\"; a line of the file "
		"that stays begins with a space",
		shown(line, buffer));
}

/* The two lines that diff(1) writes before hunks would be read as lines of the file. */
static bool is_diff_header(const struct patch_reader *reader)
{
	return begins_with(reader->line, TEXT_LITERAL("--- ")) &&
	       begins_with(reader->rest, TEXT_LITERAL("+++ "));
}

static bool read_hunk_lines(struct patch_reader *reader)
{
	bool changes = false;

	if (is_diff_header(reader))
		return REFUSE(reader, "leave the lines --- and +++ of a unified diff out");
	while (is_hunk_line(reader)) {
		char sign = ' ';

		if (reader->line.len > 0)
			sign = reader->line.data[0];
		changes |= sign != ' ';
		if (!put_run(reader, sign))
			return false;
	}
	if (!changes)
		return REFUSE(reader, "the hunk before this line has no line with - or +");
	if (reader->has_line && text_equal(reader->line, END_OF_FILE)) {
		if (!put_patch_part(reader, PATCH_PART_AT_END, (struct text){"", 0}))
			return false;
		advance(reader);
		if (is_hunk_line(reader))
			return REFUSE(reader,
				"after \"*** End of File\" comes a hunk with @@, or the next file");
	}
	return true;
}

static bool read_hunk(struct patch_reader *reader)
{
	size_t anchors = 0;

	if (++reader->n_hunks > LIMIT_PATCH_HUNKS)
		return REFUSE(reader, "the patch has more than %d hunks; make several patches",
			LIMIT_PATCH_HUNKS);
	if (!put_patch_part(reader, PATCH_PART_HUNK, (struct text){"", 0}))
		return false;
	while (reader->has_line && begins_with(reader->line, TEXT_LITERAL("@@"))) {
		if (!put_anchor(reader, &anchors))
			return false;
		advance(reader);
	}
	if (!is_hunk_line(reader) && reader->has_line && is_header(reader->line))
		return REFUSE(reader, "the hunk before this line has no lines");
	if (!is_hunk_line(reader))
		return refuse_hunk_line(reader);
	return read_hunk_lines(reader);
}

/* Returns the path behind @header, without what does not change it. */
static struct text path_in(struct text line, struct text header)
{
	struct text path = {line.data + header.len, line.len - header.len};

	while (begins_with(path, TEXT_LITERAL("./")))
		path = (struct text){path.data + 2, path.len - 2};
	return path;
}

static bool read_update(struct patch_reader *reader)
{
	const struct text from = path_in(reader->line, UPDATE_FILE);
	const size_t hunks = reader->n_hunks;
	bool moves;

	if (!put_path(reader, PATCH_PART_UPDATE, UPDATE_FILE))
		return false;
	moves = reader->has_line && begins_with(reader->line, MOVE_TO);
	/* A move to the same path is none. */
	if (moves && text_equal(path_in(reader->line, MOVE_TO), from)) {
		moves = false;
		advance(reader);
	}
	if (moves && !put_path(reader, PATCH_PART_MOVE, MOVE_TO))
		return false;
	while (reader->has_line && !is_header(reader->line)) {
		if (!begins_with(reader->line, TEXT_LITERAL("@@")) && !is_hunk_line(reader))
			return refuse_hunk_line(reader);
		if (!read_hunk(reader))
			return false;
	}
	if (reader->has_line && begins_with(reader->line, TEXT_LITERAL("*** Move to:")))
		return REFUSE(reader, "\"*** Move to: PATH\" stands once, directly below \"*** "
				      "Update File: PATH\"");
	if (reader->has_line && text_equal(reader->line, END_OF_FILE))
		return REFUSE(reader, "\"*** End of File\" stands once, below a hunk's lines");
	if (!moves && reader->n_hunks == hunks)
		return REFUSE(reader, "the update before this line has no hunk");
	return true;
}

/* A line where a file's header should be. */
static bool refuse_header(struct patch_reader *reader)
{
	char buffer[SHOWN_BYTES + 4];

	if (text_equal(reader->line, BEGIN_PATCH))
		return REFUSE(
			reader, "\"*** Begin Patch\" stands once; put all files into one patch");
	if (begins_with(reader->line, TEXT_LITERAL("*** Rename")))
		return REFUSE(reader, "a file is renamed by \"*** Update File: PATH\" and, below "
				      "it, \"*** Move to: PATH\"");
	if (begins_with(reader->line, TEXT_LITERAL("*** ")) && reader->line.len > 0 &&
		reader->line.data[reader->line.len - 1] == ':')
		return REFUSE(reader, "the header has no path");
	if (reader->line.len == 0)
		return REFUSE(reader, "an empty line stands here; expected " HEADERS);
	return REFUSE(
		reader, "\"%s\" is not known here; expected " HEADERS, shown(reader->line, buffer));
}

static bool read_patched_file(struct patch_reader *reader)
{
	static const struct {
		struct text header;
		bool (*read)(struct patch_reader *reader);
	} kinds[] = {
		{{"*** Add File: ", 14}, read_add},
		{{"*** Delete File: ", 17}, read_delete},
		{{"*** Update File: ", 17}, read_update},
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (!begins_with(reader->line, kinds[i].header))
			continue;
		if (++reader->n_files > LIMIT_PATCH_FILES)
			return REFUSE(reader,
				"the patch has more than %d files; make several patches",
				LIMIT_PATCH_FILES);
		return kinds[i].read(reader);
	}
	return refuse_header(reader);
}

/* What models send instead of a patch. */
static bool refuse_begin(struct patch_reader *reader)
{
	static const struct {
		struct text begin;
		const char *sentence;
	} others[] = {
		{{"*** Begin Patch\\n", 17}, "the patch is one line with \"\\n\" in it: give new "
					     "lines themselves, escaped once by JSON"},
		{{"*** Begin Patch\r", 16}, "lines of the patch end with \\r\\n; end them with "
					    "\\n, also for a file whose lines end with \\r\\n"},
		{{"*** Begin Patch ", 16}, "leave white space after \"*** Begin Patch\" out"},
		{{"```", 3}, "leave the fence ``` out"},
		{{"apply_patch", 11}, "leave the command apply_patch out and give its patch alone"},
		{{"diff ", 5}, "this is a unified diff; give a patch of the form \"*** Begin "
			       "Patch\", \"*** Update File: PATH\", hunks, \"*** End Patch\""},
		{{"--- ", 4}, "this is a unified diff; give a patch of the form \"*** Begin "
			      "Patch\", \"*** Update File: PATH\", hunks, \"*** End Patch\""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (begins_with(reader->line, others[i].begin))
			return REFUSE(reader, "%s", others[i].sentence);
	return REFUSE(reader, "the patch does not begin with the line \"*** Begin Patch\"");
}

static bool is_white(struct text line)
{
	for (size_t i = 0; i < line.len; i++)
		if (line.data[i] != ' ' && line.data[i] != '\t' && line.data[i] != '\r')
			return false;
	return true;
}

static bool read_patch(struct patch_reader *reader)
{
	do
		advance(reader);
	while (reader->has_line && is_white(reader->line));
	if (!text_equal(reader->line, BEGIN_PATCH))
		return refuse_begin(reader);
	advance(reader);
	while (reader->has_line && !text_equal(reader->line, END_PATCH))
		if (!read_patched_file(reader))
			return false;
	if (!reader->has_line)
		return REFUSE(reader, "the patch ends without \"*** End Patch\"");
	if (reader->n_files == 0)
		return REFUSE(reader, "the patch has no file; expected " HEADERS);
	advance(reader);
	while (reader->has_line) {
		if (!is_white(reader->line))
			return REFUSE(reader, "nothing may follow \"*** End Patch\"");
		advance(reader);
	}
	return true;
}

enum tool_error patch_text_read(struct text visible_root, struct text patch, struct patch_text *ret)
{
	/* A line is at most two parts, and its sign is no part of it. */
	const size_t lines = patch.len > 0 ? line_count(patch.data, patch.len) + 1 : 1;
	const size_t parts = 2 * lines < LIMIT_PATCH_PARTS ? 2 * lines : LIMIT_PATCH_PARTS;
	const size_t size =
		patch.len + parts * FILES_PATCH_OVERHEAD + (size_t)2 * LIMIT_PATCH_FILES + 2;
	struct patch_reader reader = {.visible_root = visible_root, .rest = patch};
	char *buffer = malloc(size);
	bool read;

	*ret = (struct patch_text){0};
	if (!buffer)
		return TOOL_BUSY;
	reader.parts = wire_writer(buffer, size);
	read = read_patch(&reader);
	if (read && wire_writer_ok(&reader.parts)) {
		ret->parts = buffer;
		ret->len = reader.parts.len;
		ret->first = TAKE_PTR(reader.paths[0]);
	}
	for (size_t i = 0; i < reader.n_paths; i++)
		free(reader.paths[i]);
	if (ret->parts)
		return TOOL_OK;
	free(buffer);
	ret->message = reader.message;
	return reader.error != TOOL_OK ? reader.error : TOOL_BUSY;
}
