// SPDX-License-Identifier: Apache-2.0
/* Runs in a job of the files process. Pure functions on hostile bytes. */
#include "worker/files/edit/line_diff.h"

#include "common/array.h"
#include "common/cleanup.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define CONTEXT_LINES 3
/* Lines that may be deleted and added, and comparisons, until the shortest way is given up. */
#define MOST_EDITS 1000
#define MOST_LOOKS 20000000

struct line {
	const char *data;
	size_t len; /* with its newline, which the last line may lack */
	uint64_t hash;
};

struct lines {
	struct line *lines;
	size_t n, size;
};

/* Lines of the one text that are replaced by lines of the other; either may be none. */
struct run {
	size_t before, n_before, after, n_after;
};

struct comparison {
	struct lines before, after;
	size_t first;             /* equal lines at the beginning */
	size_t n_before, n_after; /* lines between those and the equal ones at the end */
	struct run *runs;         /* in order */
	size_t n_runs, runs_size;
};

void diff_text_put(struct diff_text *out, struct text text)
{
	if (out->failed || text.len == 0)
		return;
	if (text.len > out->max - out->len ||
		array_reserve(&out->data, &out->size, out->len + text.len, 1) < 0) {
		out->failed = true;
		return;
	}
	memcpy(out->data + out->len, text.data, text.len);
	out->len += text.len;
}

void diff_text_format(struct diff_text *out, const char *format, ...)
{
	char buffer[128];
	va_list arguments;
	int len;

	va_start(arguments, format);
	len = vsnprintf(buffer, sizeof(buffer), format, arguments);
	va_end(arguments);
	diff_text_put(out, (struct text){buffer, (size_t)len});
}

static int split_lines(struct text text, struct lines *ret)
{
	while (text.len > 0) {
		const char *newline = memchr(text.data, '\n', text.len);
		size_t len = newline ? (size_t)(newline - text.data) + 1 : text.len;
		struct line line = {text.data, len, 14695981039346656037ULL};

		for (size_t i = 0; i < len; i++) /* FNV-1a; equal hashes are compared */
			line.hash = (line.hash ^ (unsigned char)text.data[i]) * 1099511628211ULL;
		if (array_reserve(&ret->lines, &ret->size, ret->n + 1, sizeof(line)) < 0)
			return -ENOMEM;
		ret->lines[ret->n++] = line;
		text.data += len;
		text.len -= len;
	}
	return 0;
}

static bool is_equal(const struct line *a, const struct line *b)
{
	return a->hash == b->hash && a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

/* Leaves the equal lines at both ends out. */
static void trim_equal_ends(struct comparison *comparison)
{
	const struct lines *before = &comparison->before, *after = &comparison->after;
	size_t first = 0, least = before->n < after->n ? before->n : after->n, last = 0;

	while (first < least && is_equal(&before->lines[first], &after->lines[first]))
		first++;
	while (last < least - first &&
		is_equal(&before->lines[before->n - 1 - last], &after->lines[after->n - 1 - last]))
		last++;
	comparison->first = first;
	comparison->n_before = before->n - first - last;
	comparison->n_after = after->n - first - last;
}

static int add_run(struct comparison *comparison, struct run run)
{
	if (array_reserve(&comparison->runs, &comparison->runs_size, comparison->n_runs + 1,
		    sizeof(run)) < 0)
		return -ENOMEM;
	comparison->runs[comparison->n_runs++] = run;
	return 0;
}

/*
 * How far each diagonal is reached with so many edits: for d edits the diagonals -d to d, one after
 * the other from d * d on.
 */
struct reach {
	int32_t *furthest;
	size_t size;
	size_t looks;
};

static int32_t *reached_place(const struct reach *reach, int32_t edits, int32_t diagonal)
{
	return &reach->furthest[(size_t)edits * (size_t)edits + (size_t)(diagonal + edits)];
}

/* Where the diagonal is entered with one edit more: by an added line, or by a deleted one. */
static bool comes_by_added(const struct reach *reach, int32_t edits, int32_t diagonal)
{
	return diagonal == -edits ||
	       (diagonal != edits && *reached_place(reach, edits - 1, diagonal - 1) <
					     *reached_place(reach, edits - 1, diagonal + 1));
}

static int32_t enter_diagonal(const struct reach *reach, int32_t edits, int32_t diagonal)
{
	if (edits == 0)
		return 0;
	return comes_by_added(reach, edits, diagonal)
		       ? *reached_place(reach, edits - 1, diagonal + 1)
		       : *reached_place(reach, edits - 1, diagonal - 1) + 1;
}

/* Finds the least number of edits. Returns it, or -1 if it is not found or memory is out. */
static int32_t find_edits(const struct comparison *comparison, struct reach *reach)
{
	const struct line *before = comparison->before.lines + comparison->first;
	const struct line *after = comparison->after.lines + comparison->first;
	int64_t n = (int64_t)comparison->n_before, m = (int64_t)comparison->n_after;

	for (int32_t edits = 0; edits <= MOST_EDITS && reach->looks < MOST_LOOKS; edits++) {
		size_t need = ((size_t)edits + 1) * ((size_t)edits + 1);

		if (array_reserve(&reach->furthest, &reach->size, need, sizeof(int32_t)) < 0)
			return -1;
		for (int32_t diagonal = -edits; diagonal <= edits; diagonal += 2) {
			int64_t x = enter_diagonal(reach, edits, diagonal), y = x - diagonal;

			while (x < n && y < m && is_equal(&before[x], &after[y])) {
				x++;
				y++;
				reach->looks++;
			}
			*reached_place(reach, edits, diagonal) = (int32_t)x;
			if (x >= n && y >= m)
				return edits;
		}
	}
	return -1;
}

/* Walks back from the end; the runs are found from the last to the first. */
static int trace_back(struct comparison *comparison, const struct reach *reach, int32_t edits)
{
	int32_t x = (int32_t)comparison->n_before;
	int32_t diagonal = x - (int32_t)comparison->n_after;

	for (; edits > 0; edits--) {
		bool added = comes_by_added(reach, edits, diagonal);
		int32_t entered = enter_diagonal(reach, edits, diagonal), y = entered - diagonal;
		struct run *last =
			comparison->n_runs > 0 ? &comparison->runs[comparison->n_runs - 1] : NULL;
		/* Where the edited line is, counted from the first line that differs. */
		struct run run = {.before = (size_t)entered - !added,
			.n_before = !added,
			.after = (size_t)y - added,
			.n_after = added};

		if (last && run.before + run.n_before == last->before &&
			run.after + run.n_after == last->after) {
			last->before = run.before;
			last->after = run.after;
			last->n_before += run.n_before;
			last->n_after += run.n_after;
		} else if (add_run(comparison, run) < 0) {
			return -ENOMEM;
		}
		diagonal += added ? 1 : -1;
	}
	for (size_t i = 0; i < comparison->n_runs / 2; i++) {
		struct run *mirror = &comparison->runs[comparison->n_runs - 1 - i];
		struct run first = comparison->runs[i];

		comparison->runs[i] = *mirror;
		*mirror = first;
	}
	return 0;
}

static int find_runs(struct comparison *comparison)
{
	struct reach reach = {0};
	int32_t edits;
	int r;

	trim_equal_ends(comparison);
	if (comparison->n_before == 0 && comparison->n_after == 0)
		return 0;
	edits = comparison->n_before == 0 || comparison->n_after == 0
			? -1
			: find_edits(comparison, &reach);
	if (edits >= 0)
		r = trace_back(comparison, &reach, edits);
	else
		r = add_run(comparison, (struct run){.n_before = comparison->n_before,
						.n_after = comparison->n_after});
	free(reach.furthest);
	for (size_t i = 0; i < comparison->n_runs; i++) {
		comparison->runs[i].before += comparison->first;
		comparison->runs[i].after += comparison->first;
	}
	return r;
}

static void put_lines(struct diff_text *out, char mark, const struct line *lines, size_t n)
{
	for (size_t i = 0; i < n && !out->failed; i++) {
		diff_text_put(out, (struct text){&mark, 1});
		diff_text_put(out, (struct text){lines[i].data, lines[i].len});
		if (lines[i].data[lines[i].len - 1] != '\n')
			diff_text_put(out, TEXT_LITERAL("\n\\ No newline at end of file\n"));
	}
}

static void put_range(struct diff_text *out, char mark, size_t from, size_t n)
{
	/* No lines stand behind the line that they would follow. */
	diff_text_format(out, "%c%zu", mark, n > 0 ? from + 1 : from);
	if (n != 1)
		diff_text_format(out, ",%zu", n);
}

/* Puts the runs from @first to before @end, whose contexts meet. */
static void put_hunk(
	struct diff_text *out, const struct comparison *comparison, size_t first, size_t end)
{
	const struct run *runs = comparison->runs;
	const struct line *before = comparison->before.lines;
	size_t lead = runs[first].before < CONTEXT_LINES ? runs[first].before : CONTEXT_LINES;
	size_t from = runs[first].before - lead, to = runs[end - 1].before + runs[end - 1].n_before;
	size_t rest = comparison->before.n - to, at = from;
	size_t after_from = runs[first].after - lead;
	size_t after_to = runs[end - 1].after + runs[end - 1].n_after;

	if (rest > CONTEXT_LINES)
		rest = CONTEXT_LINES;
	diff_text_put(out, TEXT_LITERAL("@@ "));
	put_range(out, '-', from, to + rest - from);
	diff_text_put(out, TEXT_LITERAL(" "));
	put_range(out, '+', after_from, after_to + rest - after_from);
	diff_text_put(out, TEXT_LITERAL(" @@\n"));
	for (size_t i = first; i < end; i++) {
		put_lines(out, ' ', before + at, runs[i].before - at);
		put_lines(out, '-', before + runs[i].before, runs[i].n_before);
		put_lines(out, '+', comparison->after.lines + runs[i].after, runs[i].n_after);
		at = runs[i].before + runs[i].n_before;
	}
	put_lines(out, ' ', before + at, rest);
}

static void put_hunks(struct diff_text *out, const struct comparison *comparison)
{
	const struct run *runs = comparison->runs;
	size_t end;

	for (size_t first = 0; first < comparison->n_runs; first = end) {
		end = first + 1;
		while (end < comparison->n_runs &&
			runs[end].before - (runs[end - 1].before + runs[end - 1].n_before) <=
				2UL * CONTEXT_LINES)
			end++;
		put_hunk(out, comparison, first, end);
	}
}

void line_diff(struct text before, struct text after, struct diff_text *out)
{
	struct comparison comparison = {0};

	if (split_lines(before, &comparison.before) < 0 ||
		split_lines(after, &comparison.after) < 0 || find_runs(&comparison) < 0)
		out->failed = true;
	else
		put_hunks(out, &comparison);
	free(comparison.before.lines);
	free(comparison.after.lines);
	free(comparison.runs);
}
