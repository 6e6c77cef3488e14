// SPDX-License-Identifier: Apache-2.0
/* Runs in the files process. Pure functions on hostile bytes; edit_explain.h says what for. */
#include "worker/files/edit/edit_explain.h"

#include "common/cleanup.h"
#include "common/utf8.h"
#include "common/wire/wire_files.h"
#include "worker/files/search/text_encoding.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define QUOTED_BYTES 100 /* of a line in a sentence */
#define QUOTED_SIZE  (QUOTED_BYTES * 2 + 8)
#define LIKE_LINES   200 /* places at which one line of the old text is tried */
#define LATER_LINES  8   /* lines of the old text after its first that are looked for */
#define LATER_BYTES  4   /* of such a line at least: a brace is everywhere */
/* bytes of the old text that are compared at all of these places */
#define LIKE_BYTES (2 * LIMIT_EDIT_BYTES)

/* Lines of the file that are compared with the old text. */
struct window {
	const char *at;  /* where its first line begins; NULL: none */
	uint64_t line;   /* the number of that line */
	size_t equal;    /* lines that are equal but for white space */
	size_t alike;    /* bytes in common of the first line that is not equal */
	bool white_only; /* all lines are equal but for white space */
};

/* An old text that did not stand in the file, and where it was looked for. */
struct search {
	struct text file; /* at most LIMIT_EDIT_EXPLAINED bytes */
	struct text old_text, new_text;
	struct edit_explanation *explanation;
	struct window like; /* the lines that are most like the old text */
	bool compared;      /* like has been looked for */
};

static void __attribute__((format(printf, 3, 4)))
say(struct edit_explanation *explanation, const char *kind, const char *format, ...)
{
	va_list arguments;

	explanation->kind = kind;
	va_start(arguments, format);
	vsnprintf(explanation->sentence, sizeof(explanation->sentence), format, arguments);
	va_end(arguments);
}

static const char *find_text(struct text file, struct text text)
{
	return text.len > 0 && text.len <= file.len
		       ? memmem(file.data, file.len, text.data, text.len)
		       : NULL;
}

static void name_line(struct edit_explanation *explanation, uint64_t line)
{
	if (explanation->n_lines < LIMIT_EDIT_LINES)
		explanation->lines[explanation->n_lines++] = line;
}

/* Takes the next line of @rest, without its newline. */
static struct text take_text_line(struct text *rest)
{
	return text_take(rest, '\n');
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static struct text trim_start(struct text text)
{
	while (text.len > 0 && is_blank(text.data[0])) {
		text.data++;
		text.len--;
	}
	return text;
}

static struct text trim_end(struct text text)
{
	while (text.len > 0 && is_blank(text.data[text.len - 1]))
		text.len--;
	return text;
}

static struct text trim_line(struct text text)
{
	return trim_end(trim_start(text));
}

/* Writes the beginning of @line as a JSON string, from which a model can copy it. */
static const char *quote_line(struct text line, char *buffer)
{
	static const char escapes[][2] = {{'\t', 't'}, {'\r', 'r'}, {'"', '"'}, {'\\', '\\'}};
	size_t len = 0, used = line.len < QUOTED_BYTES ? line.len : QUOTED_BYTES;

	/* A character is not cut. */
	while (used < line.len && used > 0 && ((unsigned char)line.data[used] & 0xc0) == 0x80)
		used--;
	buffer[len++] = '"';
	for (size_t i = 0; i < used; i++) {
		char c = line.data[i];

		for (size_t e = 0; e < ARRAY_SIZE(escapes); e++)
			if (c == escapes[e][0]) {
				buffer[len++] = '\\';
				c = escapes[e][1];
				break;
			}
		buffer[len++] = c == '\0' ? '?' : c;
	}
	snprintf(buffer + len, QUOTED_SIZE - len, "\"%s", used < line.len ? "…" : "");
	return buffer;
}

/* Returns what follows the line number that read_file adds, or an empty text without data. */
static struct text after_number(struct text line)
{
	static const char *const separators[] = {"\t", "→", "|", ": "};
	struct text rest = trim_start(line);
	size_t digits = 0;

	while (digits < rest.len && rest.data[digits] >= '0' && rest.data[digits] <= '9')
		digits++;
	rest.data += digits;
	rest.len -= digits;
	for (size_t i = 0; digits > 0 && i < ARRAY_SIZE(separators); i++) {
		size_t len = strlen(separators[i]);

		if (rest.len >= len && memcmp(rest.data, separators[i], len) == 0)
			return (struct text){rest.data + len, rest.len - len};
	}
	return (struct text){NULL, 0};
}

/* Old text that was copied together with the numbers that read_file adds. */
static bool has_line_numbers(struct search *search)
{
	_cleanup_free_ char *plain = malloc(search->old_text.len + 1);
	struct text rest = search->old_text;
	const char *found;
	size_t len = 0;

	if (!plain)
		return false;
	while (rest.len > 0) {
		const char *begin = rest.data;
		struct text line = take_text_line(&rest), text = after_number(line);
		bool has_newline = rest.data > begin + line.len;

		if (!text.data)
			return false;
		memcpy(plain + len, text.data, text.len);
		len += text.len;
		if (has_newline)
			plain[len++] = '\n';
	}
	found = find_text(search->file, (struct text){plain, len});
	if (!found)
		return false;
	name_line(search->explanation,
		edit_line_of(search->file, (size_t)(found - search->file.data)));
	say(search->explanation, "line_numbers",
		"old begins with a line number, which read_file adds and the file does not have: "
		"leave the numbers and the tabs after them out");
	return true;
}

static bool is_made_already(struct search *search)
{
	const char *found = find_text(search->file, search->new_text);
	uint64_t line;

	if (!found || trim_line(search->new_text).len < 4)
		return false;
	line = edit_line_of(search->file, (size_t)(found - search->file.data));
	name_line(search->explanation, line);
	say(search->explanation, "already",
		"old is not in the file, but new is already at line %" PRIu64
		": this edit seems to have been made",
		line);
	return true;
}

/* Copies @text without carriage returns before newlines. */
static size_t drop_returns(struct text text, char *copy)
{
	size_t len = 0;

	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] != '\r' || i + 1 == text.len || text.data[i + 1] != '\n')
			copy[len++] = text.data[i];
	return len;
}

/* Returns the line at which @old stands in the file but for line ends, or 0. */
static uint64_t line_but_for_ends(struct text file, struct text old)
{
	_cleanup_free_ char *file_copy = malloc(file.len + 1), *old_copy = malloc(old.len + 1);
	const char *found;

	if (!file_copy || !old_copy)
		return 0;
	file = (struct text){file_copy, drop_returns(file, file_copy)};
	old = (struct text){old_copy, drop_returns(old, old_copy)};
	found = find_text(file, old);
	return found ? edit_line_of(file, (size_t)(found - file.data)) : 0;
}

static bool has_returns(struct text text)
{
	return memmem(text.data, text.len, "\r\n", 2);
}

static bool has_other_line_ends(struct search *search)
{
	uint64_t line = line_but_for_ends(search->file, search->old_text);

	if (line == 0)
		return false;
	name_line(search->explanation, line);
	say(search->explanation, "line_endings",
		"old is at line %" PRIu64 " but for its line ends: %s", line,
		has_returns(search->old_text)
			? "old has \\r\\n and the file has \\n there; write old with \\n"
			: "some lines of the file end with \\r\\n and some with \\n; write old "
			  "with "
			  "\\r\\n where the file has it, or edit one line at a time");
	return true;
}

/* Takes one level of JSON's or C's escapes away. */
static size_t unescape_line(struct text text, char *copy)
{
	static const char escapes[][2] = {
		{'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'"', '"'}, {'\'', '\''}, {'\\', '\\'}};
	size_t len = 0;

	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];

		for (size_t e = 0; c == '\\' && i + 1 < text.len && e < ARRAY_SIZE(escapes); e++)
			if (text.data[i + 1] == escapes[e][0]) {
				c = escapes[e][1];
				i++;
				break;
			}
		copy[len++] = c;
	}
	return len;
}

static bool is_escaped_twice(struct search *search)
{
	_cleanup_free_ char *plain = malloc(search->old_text.len + 1);
	uint64_t line = 0;
	size_t len;

	if (!plain)
		return false;
	len = unescape_line(search->old_text, plain);
	if (len < search->old_text.len)
		line = line_but_for_ends(search->file, (struct text){plain, len});
	if (line == 0)
		return false;
	name_line(search->explanation, line);
	say(search->explanation, "escaped",
		"old is at line %" PRIu64 " but for its backslashes, which are written twice: give "
		"a new line, a tab or a quote itself, escaped once by JSON",
		line);
	return true;
}

/* Bytes that two lines have in common at their beginning and at their end. */
static size_t likeness(struct text a, struct text b)
{
	size_t least = a.len < b.len ? a.len : b.len, start = 0, end = 0;

	while (start < least && a.data[start] == b.data[start])
		start++;
	while (end < least - start && a.data[a.len - 1 - end] == b.data[b.len - 1 - end])
		end++;
	return start + end;
}

/* Compares the lines from @at on with the old text. Adds the bytes of it to @compared. */
static struct window compare_with_old_text(
	const struct search *search, const char *at, uint64_t line, size_t *compared)
{
	struct text file = {at, (size_t)(search->file.data + search->file.len - at)};
	struct text old = search->old_text;
	struct window window = {.at = at, .line = line, .white_only = true};

	while (old.len > 0) {
		struct text mine = trim_line(take_text_line(&old)), its;

		if (file.len == 0) {
			window.white_only = false;
			break;
		}
		its = trim_line(take_text_line(&file));
		if (text_equal(mine, its)) {
			window.equal += mine.len > 0;
			continue;
		}
		if (window.white_only)
			window.alike = likeness(mine, its);
		window.white_only = false;
	}
	*compared += search->old_text.len - old.len;
	return window;
}

static bool is_better(const struct window *a, const struct window *b)
{
	if (!b->at || a->equal != b->equal)
		return !b->at || a->equal > b->equal;
	return a->alike > b->alike;
}

/* The first line of the old text that is not blank, and how many lines are before it. */
static struct text first_line(struct text old, size_t *ret_before)
{
	struct text line = {NULL, 0};

	*ret_before = 0;
	while (old.len > 0) {
		line = trim_line(take_text_line(&old));
		if (line.len > 0)
			return line;
		++*ret_before;
	}
	return line;
}

/*
 * Finds the lines that are most like the old text: at each place where its first line stands but
 * for white space, or else at the line that has most in common with it.
 */
static struct window find_like(const struct search *search)
{
	size_t before, best_alike = 0, tried = 0, compared = 0;
	struct text first = first_line(search->old_text, &before), rest = search->file;
	struct window best = {NULL}, nearest = {NULL};
	uint64_t line = 0;

	/* The window begins at the first line that is not blank; those before it do not matter. */
	while (rest.len > 0 && first.len > 0 && tried < LIKE_LINES && compared < LIKE_BYTES) {
		const char *at = rest.data;
		struct text its = trim_line(take_text_line(&rest));
		size_t alike;

		line++;
		if (text_equal(its, first)) {
			struct window window = compare_with_old_text(search, at, line, &compared);

			if (before == 0 && is_better(&window, &best))
				best = window;
			tried++;
			continue;
		}
		alike = likeness(its, first);
		if (alike > best_alike && alike * 2 >= first.len) {
			best_alike = alike;
			nearest = (struct window){.at = at, .line = line, .alike = alike};
		}
	}
	return best.at ? best : nearest;
}

/* Returns where the line begins that is @lines before the one at @at, or NULL. */
static const char *lines_before(const struct search *search, const char *at, size_t lines)
{
	const char *begin = search->file.data;

	for (; lines > 0 && at > begin; lines--) {
		const char *newline = memrchr(begin, '\n', (size_t)(at - 1 - begin));

		at = newline ? newline + 1 : begin;
	}
	return lines == 0 ? at : NULL;
}

/* Lines of the old text after its first that are long enough to be told from others. */
struct later_lines {
	struct {
		struct text line;
		size_t before; /* lines of the old text before it */
	} entries[LATER_LINES];
	size_t count;
};

static struct later_lines later_lines(struct text old)
{
	struct later_lines later = {.count = 0};

	(void)take_text_line(&old);
	for (size_t before = 1; old.len > 0 && before <= LATER_LINES; before++) {
		struct text line = trim_line(take_text_line(&old));

		if (line.len < LATER_BYTES)
			continue;
		later.entries[later.count].line = line;
		later.entries[later.count++].before = before;
	}
	return later;
}

/*
 * Finds the lines around those of the old text that follow its first, for an old text whose first
 * line is like none of the file's. The file is gone through once.
 */
static struct window find_like_later(const struct search *search)
{
	const struct later_lines later = later_lines(search->old_text);
	struct text rest = search->file;
	struct window best = {NULL};
	size_t tried = 0, compared = 0;
	uint64_t line = 0;

	while (rest.len > 0 && tried < LIKE_LINES && compared < LIKE_BYTES) {
		const char *at = rest.data;
		struct text its = trim_line(take_text_line(&rest));

		line++;
		for (size_t i = 0; i < later.count; i++) {
			size_t before = later.entries[i].before;
			const char *begin;
			struct window window;

			if (!text_equal(its, later.entries[i].line))
				continue;
			tried++;
			begin = lines_before(search, at, before);
			if (!begin)
				continue;
			window = compare_with_old_text(search, begin, line - before, &compared);
			if (is_better(&window, &best))
				best = window;
		}
	}
	return best;
}

/* Returns as many lines of the file, from @at on, as the old text has. */
static struct text lines_like_old(const struct search *search, const char *at)
{
	struct text old = search->old_text,
		    rest = {at, (size_t)(search->file.data + search->file.len - at)};
	size_t len;

	while (old.len > 0 && rest.len > 0) {
		(void)take_text_line(&old);
		(void)take_text_line(&rest);
	}
	len = (size_t)(rest.data - at);
	return (struct text){at, len < FILES_TROUBLE_CLOSEST ? len : FILES_TROUBLE_CLOSEST};
}

/* The first line that differs, beginning at @window. */
static void say_difference(struct search *search, const struct window *window)
{
	struct text old = search->old_text,
		    rest = {window->at,
			    (size_t)(search->file.data + search->file.len - window->at)};
	char quoted_old[QUOTED_SIZE], quoted_file[QUOTED_SIZE];
	uint64_t line = window->line;
	struct text mine = take_text_line(&old), its = take_text_line(&rest);

	while (old.len > 0 && rest.len > 0 && text_equal(mine, its)) {
		mine = take_text_line(&old);
		its = take_text_line(&rest);
		line++;
	}
	quote_line(mine, quoted_old);
	quote_line(its, quoted_file);
	if (!window->white_only) {
		say(search->explanation, "different",
			"old is not in the file; the closest lines begin at line %" PRIu64
			", and line %" PRIu64 " differs: the file has %s, old has %s",
			window->line, line, quoted_file, quoted_old);
		return;
	}
	say(search->explanation, "white_space",
		"old differs from line %" PRIu64 " only in %s white space: the file has %s, old "
		"has %s",
		line,
		!text_equal(trim_end(mine), trim_end(its)) &&
				text_equal(trim_start(mine), trim_start(its))
			? "leading"
		: text_equal(trim_end(mine), trim_end(its)) ? "trailing"
							    : "leading and trailing",
		quoted_file, quoted_old);
}

static bool tell_like(struct search *search, bool white_only)
{
	const struct window *window = &search->like;

	if (!search->compared)
		search->like = find_like(search);
	if (!search->compared && !window->at)
		search->like = find_like_later(search);
	search->compared = true;
	if (!window->at || (white_only && !window->white_only))
		return false;
	search->explanation->closest = lines_like_old(search, window->at);
	name_line(search->explanation, window->line);
	say_difference(search, window);
	return true;
}

static bool is_like_but_for_white_space(struct search *search)
{
	return tell_like(search, true);
}

static bool is_like(struct search *search)
{
	return tell_like(search, false);
}

static bool is_utf16(struct search *search)
{
	const char *encoding = text_encoding_utf16(search->file);

	if (!encoding)
		return false;
	say(search->explanation, "encoding",
		"The file is text in UTF-16, and old is compared as UTF-8: convert it with "
		"run_command, iconv -f %s -t UTF-8 FILE >NEW, edit NEW, and convert it back",
		encoding);
	return true;
}

/* Decodes the first character of @text and removes it. An invalid byte is its own value. */
static uint32_t take_character(struct text *text)
{
	const struct utf8_sequence sequence = utf8_sequence(*text);
	uint32_t character = (unsigned char)text->data[0];
	size_t len = 1;

	if (sequence.have == sequence.need && sequence.need > 1) {
		len = sequence.need;
		character &= 0x7fu >> len;
		for (size_t i = 1; i < len; i++)
			character = character << 6 | ((unsigned char)text->data[i] & 0x3f);
	}
	*text = (struct text){text->data + len, text->len - len};
	return character;
}

/* Returns the character of ASCII that looks like @character, or itself. */
static uint32_t plain_character(uint32_t character)
{
	if ((character >= 0x2018 && character <= 0x201b) || character == 0x2032)
		return '\'';
	if ((character >= 0x201c && character <= 0x201f) || character == 0x2033)
		return '"';
	if ((character >= 0x2010 && character <= 0x2015) || character == 0x2212)
		return '-';
	if (character == 0xa0 || (character >= 0x2000 && character <= 0x200a) ||
		character == 0x202f || character == 0x3000)
		return ' ';
	if (character >= 0xff01 && character <= 0xff5e)
		return character - 0xff01 + '!';
	return character;
}

/* Copies @text with characters of ASCII in place of those that look like them. */
static size_t make_plain(struct text text, char *copy)
{
	size_t len = 0;

	while (text.len > 0) {
		const char *at = text.data;
		const uint32_t plain = plain_character(take_character(&text));

		if (plain < 0x80)
			copy[len++] = (char)plain;
		else
			while (at < text.data)
				copy[len++] = *at++;
	}
	return len;
}

#define PAIRS_TOLD 3
#define PAIR_SIZE  sizeof("U+10FFFF where old has U+10FFFF, ")

/* Writes the first different characters of @its and @mine, which look alike: "U+2019 where …". */
static void list_pairs(struct text its, struct text mine, char buffer[PAIRS_TOLD * PAIR_SIZE])
{
	uint32_t told[PAIRS_TOLD];
	size_t count = 0, len = 0;

	while (its.len > 0 && mine.len > 0 && count < PAIRS_TOLD) {
		const uint32_t of_file = take_character(&its), of_old = take_character(&mine);
		size_t i = 0;

		while (i < count && told[i] != of_file)
			i++;
		if (of_file == of_old || i < count)
			continue;
		told[count++] = of_file;
		len += (size_t)snprintf(buffer + len, PAIRS_TOLD * PAIR_SIZE - len,
			"%sU+%04X where old has U+%04X", len > 0 ? ", " : "", of_file, of_old);
	}
}

/* Returns where line @number of @file begins. */
static struct text from_line(struct text file, uint64_t number)
{
	while (--number > 0)
		(void)take_text_line(&file);
	return file;
}

/* Returns @file from the place on where @old begins but for characters that look alike. */
static struct text from_alike(struct text file, struct text old)
{
	for (struct text rest = file; rest.len > 0; (void)take_character(&rest)) {
		struct text its = rest, mine = old;

		while (its.len > 0 && mine.len > 0 &&
			plain_character(take_character(&its)) ==
				plain_character(take_character(&mine)))
			if (mine.len == 0)
				return rest;
	}
	return file;
}

static bool has_characters_that_look_alike(struct search *search)
{
	_cleanup_free_ char *file_copy = malloc(search->file.len + 1),
			    *old_copy = malloc(search->old_text.len + 1);
	char pairs[PAIRS_TOLD * PAIR_SIZE] = "";
	struct text file, old;
	const char *found;
	uint64_t line;

	if (!file_copy || !old_copy)
		return false;
	file = (struct text){file_copy, make_plain(search->file, file_copy)};
	old = (struct text){old_copy, make_plain(search->old_text, old_copy)};
	found = find_text(file, old);
	if (!found)
		return false;
	line = edit_line_of(file, (size_t)(found - file.data));
	file = from_line(search->file, line);
	search->explanation->closest = lines_like_old(search, file.data);
	/* What is compared is no longer than the old text and the line that it begins in. */
	list_pairs(from_alike(file, search->old_text), search->old_text, pairs);
	name_line(search->explanation, line);
	say(search->explanation, "look_alike",
		"old is at line %" PRIu64
		" but for characters that look alike: the file has %s; copy them from the file",
		line, pairs);
	return true;
}

static void explain_no_match(struct search *search)
{
	static bool (*const reasons[])(struct search *) = {
		is_utf16,
		has_line_numbers,
		has_characters_that_look_alike,
		is_escaped_twice,
		has_other_line_ends,
		is_like_but_for_white_space,
		is_made_already,
		is_like,
	};

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i](search))
			return;
	say(search->explanation, "absent",
		"old is not in the file, nor are lines like its first ones; read the file again, "
		"or look for the text with search_files");
}

/* Writes "lines 10, 58 and more". */
static void list_lines(const struct edit_failure *failure, char *buffer, size_t size)
{
	size_t len = 0;

	for (size_t i = 0; i < failure->n_lines && len < size; i++)
		len += (size_t)snprintf(buffer + len, size - len, "%s%" PRIu64,
			i > 0 ? ", " : "lines ", failure->lines[i]);
	if (failure->count > failure->n_lines && len < size)
		snprintf(buffer + len, size - len, " and more");
}

static void explain_several(
	const struct edit_failure *failure, struct edit_explanation *explanation)
{
	char lines[LIMIT_EDIT_LINES * 22 + 32];

	list_lines(failure, lines, sizeof(lines));
	memcpy(explanation->lines, failure->lines, sizeof(explanation->lines));
	explanation->n_lines = failure->n_lines;
	say(explanation, "several",
		"old is in the file %s%" PRIu64
		" times: %s; add lines around it, or give \"all\":true to replace each",
		failure->count > LIMIT_EDIT_PLACES ? "more than " : "",
		failure->count > LIMIT_EDIT_PLACES ? (uint64_t)LIMIT_EDIT_PLACES : failure->count,
		lines);
}

static void explain_too_large(
	const struct edit_failure *failure, struct edit_explanation *explanation)
{
	if (failure->count > 0)
		say(explanation, "too_large",
			"The edits would replace more than %d occurrences; replace them with "
			"run_command, for example by sed -i",
			LIMIT_EDIT_PLACES);
	else
		say(explanation, "too_large",
			"The file would have more than %llu bytes; make a smaller edit",
			LIMIT_CONTENT_BYTES);
}

/* Puts "edit 2: " before the sentence where there are several edits. */
static void name_edit(
	const struct edit_plan *plan, uint32_t edit, struct edit_explanation *explanation)
{
	char copy[EDIT_SENTENCE_SIZE];

	if (plan->count < 2)
		return;
	memcpy(copy, explanation->sentence, sizeof(copy));
	/* The longest sentence, with two lines of the file, has room for it. */
	if (snprintf(explanation->sentence, sizeof(explanation->sentence), "edit %" PRIu32 ": %s",
		    edit, copy) >= (int)sizeof(explanation->sentence))
		memcpy(explanation->sentence, copy, sizeof(copy));
}

void edit_explain(const struct edit_plan *plan, const struct edit_failure *failure,
	struct edit_explanation *ret)
{
	const struct edit *edit = &plan->edits[failure->edit - 1];
	struct search search = {.file = plan->original,
		.old_text = edit->old_text,
		.new_text = edit->new_text,
		.explanation = ret};

	*ret = (struct edit_explanation){0};
	if (search.file.len > LIMIT_EDIT_EXPLAINED)
		search.file.len = LIMIT_EDIT_EXPLAINED;
	switch (failure->error) {
	case TOOL_NO_MATCH:
		explain_no_match(&search);
		break;
	case TOOL_AMBIGUOUS_MATCH:
		explain_several(failure, ret);
		break;
	case TOOL_EDITS_OVERLAP:
		name_line(ret, failure->lines[0]);
		say(ret, "overlap",
			"edits %" PRIu32 " and %" PRIu32 " change the same text at line %" PRIu64
			"; make one edit of them",
			failure->edit, failure->other, failure->lines[0]);
		return;
	case TOOL_FILE_TOO_LARGE:
		explain_too_large(failure, ret);
		break;
	default:
		say(ret, "failed", "Out of memory; make fewer or smaller edits at once");
		break;
	}
	name_edit(plan, failure->edit, ret);
}
