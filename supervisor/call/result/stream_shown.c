// SPDX-License-Identifier: Apache-2.0
#include "supervisor/call/result/stream_shown.h"

#include "common/cleanup.h"
#include "common/line_count.h"
#include "common/utf8.h"
#include "supervisor/base/json_escape.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/result/shown.h"

#include <stdio.h>

/* Shorter output is always shown, even if it is binary. */
#define BINARY_LEAST_BYTES 256
/* Output is binary if more than one byte in so many does not belong to text. */
#define BINARY_PORTION 8

#define HOW_TO_GET                                                                            \
	"to see more, run the command with its output in a file and read_file ranges of it, " \
	"or pass the output through grep, head or tail"

/* Returns how many bytes are neither part of a character nor control characters that text has. */
static size_t strange_bytes(struct text text)
{
	size_t strange = 0;

	while (text.len > 0) {
		unsigned char first = (unsigned char)text.data[0];
		struct utf8_sequence sequence = {1, 1};

		if (first >= 0x80)
			sequence = utf8_sequence(text);
		else if (first < 0x20 && !strchr("\t\n\r\f\b\a\x1b", first))
			strange++;
		else
			strange += first == '\0';
		if (sequence.have != sequence.need)
			strange += sequence.have;
		text.data += sequence.have;
		text.len -= sequence.have;
	}
	return strange;
}

static bool is_binary(const struct stream_pieces *kept)
{
	size_t len = kept->head.len + kept->tail[0].len + kept->tail[1].len;
	size_t strange = strange_bytes(kept->head) + strange_bytes(kept->tail[0]) +
			 strange_bytes(kept->tail[1]);

	return len >= BINARY_LEAST_BYTES && strange > len / BINARY_PORTION;
}

/*
 * Ends the head after its last whole line, or inside a line that would otherwise take half of it.
 */
static void end_head(struct text *head)
{
	const char *newline = head->len > 0 ? memrchr(head->data, '\n', head->len) : NULL;
	size_t whole = newline ? (size_t)(newline - head->data) + 1 : 0;

	if (whole >= head->len / 2)
		head->len = whole;
	else
		head->len -= utf8_incomplete_tail(*head);
}

static void drop_shown_stream(struct text tail[static 2], size_t len)
{
	for (size_t i = 0; i < 2; i++) {
		size_t n = len < tail[i].len ? len : tail[i].len;

		tail[i].data += n;
		tail[i].len -= n;
		len -= n;
	}
}

static char tail_byte(const struct text tail[static 2], size_t at)
{
	return at < tail[0].len ? tail[0].data[at] : tail[1].data[at - tail[0].len];
}

/* Begins the tail with its first whole line, or inside a line, but not inside a character. */
static void begin_tail(struct text tail[static 2])
{
	size_t len = tail[0].len + tail[1].len, at = 0;

	while (at < len / 2 && tail_byte(tail, at) != '\n')
		at++;
	if (at < len / 2) {
		drop_shown_stream(tail, at + 1);
		return;
	}
	at = 0;
	while (at < len && at < UTF8_SEQUENCE_MAX - 1 && (tail_byte(tail, at) & 0xc0) == 0x80)
		at++;
	drop_shown_stream(tail, at);
}

static uint64_t lines_in(struct text text)
{
	return text.len > 0 ? line_count(text.data, text.len) : 0;
}

/* The mark of left-out output begins on a line of its own. */
static const char *line_before(struct text head)
{
	return head.len > 0 && head.data[head.len - 1] != '\n' ? "\n" : "";
}

static void mark_cut(
	const struct stream_capture *capture, const char *how_to_get, struct stream_shown *shown)
{
	uint64_t bytes = capture->total - shown->head.len - shown->tail[0].len - shown->tail[1].len;
	uint64_t seen = lines_in(shown->head) + lines_in(shown->tail[0]) + lines_in(shown->tail[1]);
	uint64_t lines = capture->lines > seen ? capture->lines - seen : 0;
	char number[2][SHOWN_NUMBER_SIZE];

	snprintf(shown->mark, sizeof(shown->mark), "%s[… %s%s%s bytes left out; %s]\n",
		line_before(shown->head), lines > 0 ? shown_number(lines, number[0]) : "",
		lines == 1  ? " line, "
		: lines > 1 ? " lines, "
			    : "",
		shown_number(bytes, number[1]), how_to_get ? how_to_get : HOW_TO_GET);
}

static void mark_binary(const struct stream_capture *capture, struct stream_shown *shown)
{
	char number[SHOWN_NUMBER_SIZE];

	snprintf(shown->mark, sizeof(shown->mark),
		"[%s bytes that are not text are left out; to see some, pass the output through "
		"xxd, base64 or strings, or iconv if it is text of another encoding]\n",
		shown_number(capture->total, number));
}

static uint64_t kept_size(const struct stream_pieces *kept)
{
	return json_escaped_size(kept->head) + json_escaped_size(kept->tail[0]) +
	       json_escaped_size(kept->tail[1]);
}

static uint64_t kept_lines(const struct stream_pieces *kept)
{
	return lines_in(kept->head) + lines_in(kept->tail[0]) + lines_in(kept->tail[1]);
}

struct stream_room stream_shown_need(const struct stream_capture *capture)
{
	const struct stream_pieces kept = stream_capture_pieces(capture);

	if (is_binary(&kept))
		return (struct stream_room){0};
	return (struct stream_room){kept_size(&kept), kept_lines(&kept)};
}

static void divide(
	uint64_t room, uint64_t first, uint64_t second, uint64_t *ret_first, uint64_t *ret_second)
{
	*ret_first = *ret_second = room / 2;
	if (first < room / 2)
		*ret_second = room - first;
	else if (second < room / 2)
		*ret_first = room - second;
}

void stream_shown_divide(struct stream_room room, const struct stream_room needs[static 2],
	struct stream_room ret[static 2])
{
	ret[0] = ret[1] = room;
	if (room.sent == UINT64_MAX)
		return;
	divide(room.sent, needs[0].sent, needs[1].sent, &ret[0].sent, &ret[1].sent);
	divide(room.lines, needs[0].lines, needs[1].lines, &ret[0].lines, &ret[1].lines);
}

/* Returns where the first @lines lines of @text end. */
static size_t first_lines(struct text text, uint64_t lines)
{
	size_t at = 0;

	while (at < text.len && lines > 0)
		lines -= text.data[at++] == '\n';
	return at;
}

/* Removes so many lines, and what takes so many bytes more, from the beginning of @tail. */
static void shorten_tail(struct text tail[static 2], uint64_t lines, uint64_t room)
{
	uint64_t excess;

	for (size_t i = 0; i < 2 && lines > 0; i++) {
		const size_t n = first_lines(tail[i], lines);

		lines -= lines_in((struct text){tail[i].data, n});
		tail[i] = (struct text){tail[i].data + n, tail[i].len - n};
	}
	excess = json_escaped_size(tail[0]) + json_escaped_size(tail[1]);
	excess = excess > room ? excess - room : 0;
	for (size_t i = 0; i < 2 && excess > 0; i++) {
		size_t n = json_escape_fit(tail[i], &excess);

		if (n < tail[i].len) {
			n++;
			excess = 0;
		}
		tail[i] = (struct text){tail[i].data + n, tail[i].len - n};
	}
}

/* Reduces @kept to its beginning and its end, of half the room each. Returns whether it did. */
static bool fit(struct stream_pieces *kept, struct stream_room room)
{
	uint64_t lines = kept_lines(kept), half = room.sent / 2;

	if (room.sent == UINT64_MAX || (kept_size(kept) <= room.sent && lines <= room.lines))
		return false;
	if (kept->tail[0].len + kept->tail[1].len == 0) {
		const size_t middle = kept->head.len / 2;

		kept->tail[0] = (struct text){kept->head.data + middle, kept->head.len - middle};
		kept->head.len = middle;
	}
	kept->head.len = first_lines(kept->head, room.lines / 2);
	kept->head.len = json_escape_fit(kept->head, &half);
	lines = lines_in(kept->tail[0]) + lines_in(kept->tail[1]);
	shorten_tail(
		kept->tail, lines > room.lines / 2 ? lines - room.lines / 2 : 0, room.sent / 2);
	return true;
}

void stream_shown_make(const struct stream_capture *capture, struct stream_room room,
	const char *how_to_get, struct stream_shown *ret)
{
	struct stream_pieces kept = stream_capture_pieces(capture);

	*ret = (struct stream_shown){.cut = true};
	if (is_binary(&kept)) {
		mark_binary(capture, ret);
		return;
	}
	ret->cut = fit(&kept, room) || stream_capture_truncated(capture);
	ret->head = kept.head;
	if (!ret->cut)
		return;
	memcpy(ret->tail, kept.tail, sizeof(ret->tail));
	end_head(&ret->head);
	begin_tail(ret->tail);
	mark_cut(capture, how_to_get, ret);
}

void stream_shown_write(const struct stream_shown *shown, struct json_text *json)
{
	json_text_string_begin(json);
	json_text_string_part(json, shown->head);
	json_text_string_part(json, text_from(shown->mark));
	json_text_string_part(json, shown->tail[0]);
	json_text_string_part(json, shown->tail[1]);
	json_text_string_end(json);
}
