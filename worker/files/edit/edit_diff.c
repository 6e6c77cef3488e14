// SPDX-License-Identifier: Apache-2.0
/* Runs in the files process. Pure functions on hostile bytes. */
#include "worker/files/edit/edit_diff.h"

#include "common/line_count.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define CONTEXT_LINES 2
#define LEFT_OUT_SIZE 64 /* the sentence about hunks that are left out */

struct out {
	char *data;
	size_t len, size;
	bool full;
};

/* Lines of the file that one or more places touch. */
struct hunk {
	size_t first, last;   /* indices of its places, both inclusive */
	size_t start, end;    /* the whole lines around them, in the original */
	size_t before, after; /* where its context begins and ends */
};

static void put_diff_text(struct out *out, struct text text)
{
	if (out->full || text.len > out->size - out->len) {
		out->full = true;
		return;
	}
	if (text.len > 0)
		memcpy(out->data + out->len, text.data, text.len);
	out->len += text.len;
}

static void __attribute__((format(printf, 2, 3)))
put_format(struct out *out, const char *format, ...)
{
	char buffer[128];
	va_list arguments;
	int len;

	va_start(arguments, format);
	len = vsnprintf(buffer, sizeof(buffer), format, arguments);
	va_end(arguments);
	put_diff_text(out, (struct text){buffer, (size_t)len});
}

static size_t line_start(struct text text, size_t at)
{
	const char *newline = at > 0 ? memrchr(text.data, '\n', at) : NULL;

	return newline ? (size_t)(newline - text.data) + 1 : 0;
}

/* Where the line that holds the byte @at ends, behind its newline. */
static size_t line_end(struct text text, size_t at)
{
	const char *newline = at < text.len ? memchr(text.data + at, '\n', text.len - at) : NULL;

	return newline ? (size_t)(newline - text.data) + 1 : text.len;
}

/*
 * The end of the last line that @place touches; a newline that is lost joins the next line. Where a
 * line ends at @end, no line before it is looked through again.
 */
static size_t end_of_place(const struct edit_plan *plan, const struct edit_place *place, size_t end)
{
	struct text text = plan->original, now = plan->edits[place->edit].new_text;
	size_t last = place->start + place->len - 1;
	bool begins_line = place->start == 0 || text.data[place->start - 1] == '\n';
	bool ends_line = now.len > 0 ? now.data[now.len - 1] == '\n' : begins_line;

	if (text.data[last] == '\n' && !ends_line)
		last++;
	return last < end ? end : line_end(text, last);
}

/* Whether the line that holds the byte @at begins at @end, where a line ends, or before. */
static bool follows(struct text text, size_t end, size_t at)
{
	return at < end || !memchr(text.data + end, '\n', at - end);
}

/* Finds the hunk that begins with the place @first: those whose lines follow each other. */
static struct hunk find_hunk(const struct edit_plan *plan, size_t first, size_t least)
{
	struct text text = plan->original;
	struct hunk hunk = {.first = first, .last = first};
	size_t next;

	hunk.start = line_start(text, plan->places[first].start);
	hunk.end = end_of_place(plan, &plan->places[first], 0);
	while (hunk.last + 1 < plan->n_places &&
		follows(text, hunk.end, plan->places[hunk.last + 1].start)) {
		hunk.last++;
		hunk.end = end_of_place(plan, &plan->places[hunk.last], hunk.end);
	}
	hunk.before = hunk.start;
	for (int i = 0; i < CONTEXT_LINES && hunk.before > least; i++)
		hunk.before = line_start(text, hunk.before - 1);
	if (hunk.before < least)
		hunk.before = least;
	next = hunk.last + 1 < plan->n_places ? line_start(text, plan->places[hunk.last + 1].start)
					      : text.len;
	hunk.after = hunk.end;
	for (int i = 0; i < CONTEXT_LINES && hunk.after < next; i++)
		hunk.after = line_end(text, hunk.after);
	return hunk;
}

/* Puts the lines of @text, each behind @mark. */
static void put_lines(struct out *out, char mark, struct text text)
{
	while (text.len > 0 && !out->full) {
		size_t len = line_end(text, 0);

		put_diff_text(out, (struct text){&mark, 1});
		put_diff_text(out, (struct text){text.data, len});
		if (text.data[len - 1] != '\n')
			put_diff_text(out, TEXT_LITERAL("\n"));
		text.data += len;
		text.len -= len;
	}
}

static size_t count_lines(struct text text)
{
	return line_count(text.data, text.len) + (text.len > 0 && text.data[text.len - 1] != '\n');
}

/* Where the next hunk is, counted from the last one: each byte is counted once. */
struct lines {
	size_t at;     /* counted up to here, in the original */
	uint64_t line; /* of that byte, from 1 */
	int64_t shift; /* lines that the new content has more up to there */
};

static void put_hunk(struct out *out, const struct edit_plan *plan, const struct hunk *hunk,
	struct lines *lines, size_t new_start, size_t new_end)
{
	const char *old = plan->original.data;
	struct text before = {old + hunk->before, hunk->start - hunk->before},
		    was = {old + hunk->start, hunk->end - hunk->start},
		    is = {plan->content + new_start, new_end - new_start},
		    after = {old + hunk->end, hunk->after - hunk->end};
	size_t context = count_lines(before) + count_lines(after);

	lines->line += line_count(old + lines->at, hunk->before - lines->at);
	lines->at = hunk->before;
	put_format(out, "@@ -%" PRIu64 ",%zu +%" PRIu64 ",%zu @@\n", lines->line,
		context + count_lines(was), lines->line + (uint64_t)lines->shift,
		context + count_lines(is));
	lines->shift +=
		(int64_t)line_count(is.data, is.len) - (int64_t)line_count(was.data, was.len);
	put_lines(out, ' ', before);
	put_lines(out, '-', was);
	put_lines(out, '+', is);
	put_lines(out, ' ', after);
}

size_t edit_diff(const struct edit_plan *plan, char *buffer, size_t size)
{
	struct out out = {.data = buffer, .size = size > LEFT_OUT_SIZE ? size - LEFT_OUT_SIZE : 0};
	struct lines lines = {.line = 1};
	size_t least = 0, left_out = 0, shown = 0;
	ptrdiff_t shift = 0; /* of the new content against the old */

	for (size_t i = 0; i < plan->n_places;) {
		struct hunk hunk = find_hunk(plan, i, least);
		size_t whole = out.len, new_start = hunk.start + (size_t)shift;

		for (; i <= hunk.last; i++)
			shift += (ptrdiff_t)plan->edits[plan->places[i].edit].new_text.len -
				 (ptrdiff_t)plan->places[i].len;
		if (left_out == 0)
			put_hunk(&out, plan, &hunk, &lines, new_start, hunk.end + (size_t)shift);
		left_out += out.full;
		shown += !out.full;
		if (out.full)
			out.len = whole;
		least = hunk.after;
	}
	if (left_out == 0)
		return out.len;
	out.size = size;
	out.full = false;
	put_format(&out, "%zu %s change%s not shown\n", left_out, shown > 0 ? "more" : "large",
		left_out == 1 ? " is" : "s are");
	return out.len;
}
