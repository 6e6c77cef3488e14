// SPDX-License-Identifier: Apache-2.0
#include "supervisor/call/result/content_cut.h"

#include "common/limits.h"
#include "common/utf8.h"
#include "supervisor/base/json_escape.h"
#include "supervisor/call/result/shown.h"

#include <stdio.h>

static struct text take_cut_content(struct text *part, size_t len)
{
	struct text taken = {part->data, len};

	part->data += len;
	part->len -= len;
	return taken;
}

static uint64_t forms(const struct content_cut *cut)
{
	return cut->both ? 2 : 1;
}

static void put_content(struct content_cut *cut, struct text piece)
{
	cut->bytes += piece.len;
	cut->sent += json_escaped_size(piece) * forms(cut);
	if (piece.len > 0)
		cut->put(cut->context, piece, false);
}

/* Returns whether one more line is shown. */
static bool begin_line(struct content_cut *cut)
{
	cut->over = cut->lines >= cut->lines_max || cut->bytes >= cut->bytes_max ||
		    (cut->sent_max > 0 && cut->sent >= cut->sent_max);
	if (cut->over)
		return false;
	cut->lines++;
	cut->line_bytes = cut->left_out = 0;
	cut->place = cut->numbered ? CONTENT_PADDING : CONTENT_LINE;
	return true;
}

static void skip_padding(struct content_cut *cut, struct text *part)
{
	size_t spaces = 0;

	while (spaces < part->len && part->data[spaces] == ' ')
		spaces++;
	if (spaces < part->len)
		cut->place = CONTENT_NUMBER;
	cut->sent += cut->both ? spaces : 0;
	if (spaces > 0)
		cut->put(cut->context, take_cut_content(part, spaces), true);
}

static void put_number(struct content_cut *cut, struct text *part)
{
	size_t digits = 0;

	while (digits < part->len && part->data[digits] >= '0' && part->data[digits] <= '9')
		digits++;
	/* The tab after it counts for the line. */
	if (digits < part->len)
		cut->place = CONTENT_LINE;
	put_content(cut, take_cut_content(part, digits));
}

static void tell_left_out(struct content_cut *cut)
{
	char mark[64], number[SHOWN_NUMBER_SIZE];

	if (cut->left_out == 0)
		return;
	snprintf(mark, sizeof(mark), " [… %s more bytes of this line]",
		shown_number(cut->left_out, number));
	put_content(cut, text_from(mark));
	cut->lines_cut = true;
	cut->left_out = 0;
}

/* Returns how much of @line is shown, which goes on after @cut->line_bytes. */
static size_t line_part(const struct content_cut *cut, struct text line)
{
	const uint64_t most = cut->sent_max + LIMIT_SHOWN_SLACK * forms(cut);
	uint64_t room = cut->line_max - cut->line_bytes, left;

	if (line.len > room) {
		line.len = (size_t)room;
		line.len -= utf8_incomplete_tail(line);
	}
	if (cut->sent_max == 0)
		return line.len;
	left = most > cut->sent ? (most - cut->sent) / forms(cut) : 0;
	return json_escape_fit(line, &left);
}

/* Puts the part of the line that @part has. */
static void put_line(struct content_cut *cut, struct text *part)
{
	const char *newline = memchr(part->data, '\n', part->len);
	struct text line =
		take_cut_content(part, newline ? (size_t)(newline - part->data) : part->len);
	struct text shown = line;

	shown.len = line_part(cut, line);
	put_content(cut, shown);
	cut->left_out += line.len - shown.len;
	/* After a cut nothing more of the line follows, not even one byte that would fit. */
	cut->line_bytes = cut->left_out > 0 ? cut->line_max : cut->line_bytes + shown.len;
	if (!newline)
		return;
	tell_left_out(cut);
	put_content(cut, take_cut_content(part, 1));
	cut->place = CONTENT_LINE_START;
}

void content_cut_add(struct content_cut *cut, struct text part)
{
	while (part.len > 0 && !cut->over) {
		if (cut->place == CONTENT_LINE_START && !begin_line(cut))
			return;
		if (cut->place == CONTENT_PADDING)
			skip_padding(cut, &part);
		else if (cut->place == CONTENT_NUMBER)
			put_number(cut, &part);
		else
			put_line(cut, &part);
	}
}

void content_cut_end(struct content_cut *cut)
{
	tell_left_out(cut);
}
