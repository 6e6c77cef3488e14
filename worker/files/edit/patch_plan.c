// SPDX-License-Identifier: Apache-2.0
/* Runs in the files process. Pure functions on hostile bytes; patch_plan.h has the rules. */
#include "worker/files/edit/patch_plan.h"

#include "common/cleanup.h"
#include "common/line_count.h"
#include "common/wire/wire_files.h"
#include "worker/files/edit/edit_plan.h"
#include "worker/files/edit/patch_explain.h"

#include <stdio.h>
#include <stdlib.h>

/* Old lines that are compared below anchors; with more, it is not known which place is meant. */
#define COMPARED_BYTES (256 * MIB)

/* A run of lines that is replaced. */
struct change {
	size_t start, len; /* in the file */
	struct text text;  /* to put there, as the patch has it */
	uint32_t hunk;     /* from 1 */
	size_t order;      /* of two of a hunk at one place */
	bool crlf;         /* it is written with CRLF */
};

struct plan {
	struct text file; /* the content; its last line has a newline */
	bool crlf;        /* all its lines end with CRLF */
	bool unended;     /* the newline of the last line was added */
	struct change *changes;
	size_t n_changes;
	struct patch_failure *failure;
};

static bool out_of_memory(struct plan *plan)
{
	plan->failure->error = TOOL_EXECUTION_ERROR;
	plan->failure->kind = "failed";
	snprintf(plan->failure->sentence, sizeof(plan->failure->sentence),
		"Out of memory; make a smaller patch");
	return false;
}

static size_t len_as(struct text text, bool crlf)
{
	return text.len + (crlf ? line_count(text.data, text.len) : 0);
}

/* Writes @text to @to, with CRLF if @crlf. Returns the length. */
static size_t write_as(char *to, struct text text, bool crlf)
{
	size_t len = 0;

	if (!crlf) {
		if (text.len > 0)
			memcpy(to, text.data, text.len);
		return text.len;
	}
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] == '\n')
			to[len++] = '\r';
		to[len++] = text.data[i];
	}
	return len;
}

/* Finds the parts of the hunk that begins at @parts. Returns their number. */
static size_t take_hunk(
	const struct plan *plan, const struct patch_part *parts, size_t n, struct patch_hunk *hunk)
{
	size_t at = 1;

	*hunk = (struct patch_hunk){.crlf = plan->crlf};
	hunk->anchors = parts + at;
	while (at < n && parts[at].type == PATCH_PART_ANCHOR)
		at++;
	hunk->n_anchors = at - 1;
	hunk->runs = parts + at;
	while (at < n && parts[at].type != PATCH_PART_HUNK && parts[at].type != PATCH_PART_AT_END) {
		if (memchr(parts[at].text.data, '\r', parts[at].text.len))
			hunk->crlf = false;
		at++;
	}
	hunk->n_runs = (size_t)(parts + at - hunk->runs);
	if (at < n && parts[at].type == PATCH_PART_AT_END) {
		hunk->at_end = true;
		at++;
	}
	return at;
}

/* Makes the lines before and after in one piece. Returns false if memory is out. */
static bool join_lines(struct patch_hunk *hunk)
{
	size_t old_len = 0, new_len = 0;
	char *old_lines, *new_lines;

	for (size_t i = 0; i < hunk->n_runs; i++) {
		size_t len = len_as(hunk->runs[i].text, hunk->crlf);

		old_len += hunk->runs[i].type != PATCH_PART_ADDED ? len : 0;
		new_len += hunk->runs[i].type != PATCH_PART_REMOVED ? len : 0;
	}
	/* A newline is before the old lines, so that they are looked for at beginnings of lines. */
	hunk->buffer = malloc(1 + old_len + new_len);
	if (!hunk->buffer)
		return false;
	hunk->buffer[0] = '\n';
	old_lines = hunk->buffer + 1;
	new_lines = old_lines + old_len;
	hunk->old_lines = (struct text){old_lines, old_len};
	hunk->new_lines = (struct text){new_lines, new_len};
	for (size_t i = 0; i < hunk->n_runs; i++) {
		const struct patch_part *run = &hunk->runs[i];

		if (run->type != PATCH_PART_ADDED)
			old_lines += write_as(old_lines, run->text, hunk->crlf);
		if (run->type != PATCH_PART_REMOVED)
			new_lines += write_as(new_lines, run->text, hunk->crlf);
	}
	return true;
}

/* Finds where the first line that is @anchor ends, at or after @from; SIZE_MAX: nowhere. */
static size_t after_anchor(struct text file, size_t from, struct text anchor)
{
	while (from < file.len) {
		const char *found =
			memmem(file.data + from, file.len - from, anchor.data, anchor.len);
		const char *begin = found, *end;

		if (!found)
			break;
		while (begin > file.data + from && begin[-1] != '\n')
			begin--;
		end = memchr(found, '\n', (size_t)(file.data + file.len - found));
		if (text_equal(patch_trim((struct text){begin, (size_t)(end - begin)}), anchor))
			return (size_t)(end + 1 - file.data);
		from = (size_t)(end + 1 - file.data);
	}
	return SIZE_MAX;
}

/* Finds where the places below the anchors begin. Returns false if an anchor is not there. */
static bool find_anchors(struct plan *plan, struct patch_hunk *hunk)
{
	for (size_t i = 0; i < hunk->n_anchors; i++) {
		hunk->from =
			after_anchor(plan->file, hunk->from, patch_trim(hunk->anchors[i].text));
		if (hunk->from != SIZE_MAX)
			continue;
		patch_explain_anchor(plan->file, hunk, i, plan->failure);
		return false;
	}
	return true;
}

/* Returns the first place of the old lines at or after @from, or SIZE_MAX. */
static size_t next_place(struct text file, const struct patch_hunk *hunk, size_t from)
{
	const struct text needle = {hunk->buffer, hunk->old_lines.len + 1};
	const char *found;

	if (from == 0 && file.len >= hunk->old_lines.len &&
		memcmp(file.data, hunk->old_lines.data, hunk->old_lines.len) == 0)
		return 0;
	if (from > 0)
		from--; /* the newline before it */
	found = memmem(file.data + from, file.len - from, needle.data, needle.len);
	return found ? (size_t)(found + 1 - file.data) : SIZE_MAX;
}

/*
 * Counts the places directly below lines that are the last anchor, and takes the last one. A place
 * without old lines is one too. Stops at two.
 */
static size_t count_below_anchor(struct text file, const struct patch_hunk *hunk, size_t *ret_place)
{
	const struct text old_lines = hunk->old_lines;
	const struct text anchor = patch_trim(hunk->anchors[hunk->n_anchors - 1].text);
	size_t count = 0, compared = 0;

	for (size_t at = hunk->from; at != SIZE_MAX && count < 2;
		at = after_anchor(file, at, anchor)) {
		compared += old_lines.len;
		if (compared > COMPARED_BYTES)
			return 2;
		if (file.len - at < old_lines.len ||
			memcmp(file.data + at, old_lines.data, old_lines.len) != 0)
			continue;
		count++;
		*ret_place = at;
	}
	return count;
}

/* A hunk that only adds lines goes below its anchor, to the end, or into an empty file. */
static bool place_addition(struct plan *plan, struct patch_hunk *hunk)
{
	if (hunk->at_end || plan->file.len == 0) {
		hunk->place = plan->file.len;
		return true;
	}
	if (hunk->n_anchors > 0 && count_below_anchor(plan->file, hunk, &hunk->place) == 1)
		return true;
	patch_explain_addition(plan->file, hunk, plan->failure);
	return false;
}

static bool place_at_end(struct plan *plan, struct patch_hunk *hunk)
{
	const struct text file = plan->file, old_lines = hunk->old_lines;

	if (old_lines.len <= file.len) {
		hunk->place = file.len - old_lines.len;
		if (hunk->place >= hunk->from &&
			memcmp(file.data + hunk->place, old_lines.data, old_lines.len) == 0 &&
			(hunk->place == 0 || file.data[hunk->place - 1] == '\n'))
			return true;
	}
	patch_explain_absent(file, hunk, plan->failure);
	return false;
}

/* Finds the one place of the hunk. */
static bool place_hunk(struct plan *plan, struct patch_hunk *hunk)
{
	struct patch_failure *failure = plan->failure;
	size_t count = 0, counted = 0;
	uint64_t line = 1;

	if (!find_anchors(plan, hunk))
		return false;
	if (hunk->old_lines.len == 0)
		return place_addition(plan, hunk);
	if (hunk->at_end)
		return place_at_end(plan, hunk);
	for (size_t at = next_place(plan->file, hunk, hunk->from);
		at != SIZE_MAX && count <= LIMIT_EDIT_LINES;
		at = next_place(plan->file, hunk, at + 1)) {
		if (count == 0)
			hunk->place = at;
		line += line_count(plan->file.data + counted, at - counted);
		counted = at;
		if (count++ < LIMIT_EDIT_LINES)
			failure->lines[failure->n_lines++] = line;
	}
	if (count == 1 || (count > 1 && hunk->n_anchors > 0 &&
				  count_below_anchor(plan->file, hunk, &hunk->place) == 1)) {
		failure->n_lines = 0;
		return true;
	}
	if (count == 0)
		patch_explain_absent(plan->file, hunk, failure);
	else
		patch_explain_several(hunk, count, failure);
	return false;
}

/* Adds what @hunk changes at its place, each run of lines with - and + as one change. */
static void add_changes(struct plan *plan, const struct patch_hunk *hunk, uint32_t number)
{
	struct change *open = NULL;
	size_t at = hunk->place;

	for (size_t i = 0; i < hunk->n_runs; i++) {
		const struct patch_part *run = &hunk->runs[i];
		const size_t len = len_as(run->text, hunk->crlf);

		if (run->type == PATCH_PART_CONTEXT) {
			at += len;
			open = NULL;
			continue;
		}
		/* Of + lines that follow + lines there are none, so a change has one text. */
		if (!open || (run->type == PATCH_PART_ADDED && open->text.len > 0)) {
			open = &plan->changes[plan->n_changes];
			*open = (struct change){.start = at,
				.text = {"", 0},
				.hunk = number,
				.order = plan->n_changes++,
				.crlf = hunk->crlf};
		}
		if (run->type == PATCH_PART_ADDED) {
			open->text = run->text;
		} else {
			open->len += len;
			at += len;
		}
	}
}

static bool plan_hunk(
	struct plan *plan, struct patch_hunk *hunk, uint32_t number, struct patch_outcome *outcome)
{
	bool placed = false;

	plan->failure->hunk = number;
	if (!join_lines(hunk))
		return out_of_memory(plan);
	if (text_equal(hunk->old_lines, hunk->new_lines))
		patch_explain_unchanged(plan->failure);
	else
		placed = place_hunk(plan, hunk);
	if (placed)
		add_changes(plan, hunk, number);
	for (size_t i = 0; placed && i < hunk->n_runs; i++) {
		const struct patch_part *run = &hunk->runs[i];
		uint64_t lines = line_count(run->text.data, run->text.len);

		outcome->added += run->type == PATCH_PART_ADDED ? lines : 0;
		outcome->removed += run->type == PATCH_PART_REMOVED ? lines : 0;
	}
	return placed;
}

static int compare_changes(const void *left, const void *right)
{
	const struct change *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->hunk != b->hunk)
		return a->hunk < b->hunk ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* Sorts the changes. Returns false if two hunks change the same lines, or add at the same place. */
static bool order_changes(struct plan *plan)
{
	qsort(plan->changes, plan->n_changes, sizeof(*plan->changes), compare_changes);
	for (size_t i = 1; i < plan->n_changes; i++) {
		const struct change *before = &plan->changes[i - 1], *change = &plan->changes[i];

		if (before->start + before->len <= change->start &&
			(before->start != change->start || before->hunk == change->hunk))
			continue;
		plan->failure->hunk = before->hunk < change->hunk ? change->hunk : before->hunk;
		patch_explain_overlap(before->hunk < change->hunk ? before->hunk : change->hunk,
			plan->failure->hunk, edit_line_of(plan->file, change->start),
			plan->failure);
		return false;
	}
	return true;
}

/* Bytes of the newline that was added to the last line. */
static size_t added_newline(const struct plan *plan)
{
	return plan->unended ? (plan->crlf ? 2 : 1) : 0;
}

/* Removes the newline that was added to the last line. */
static void end_as_before(const struct plan *plan, struct patch_outcome *outcome)
{
	if (!plan->unended || outcome->len == 0 || outcome->content[outcome->len - 1] != '\n')
		return;
	outcome->len--;
	if (plan->crlf && outcome->len > 0 && outcome->content[outcome->len - 1] == '\r')
		outcome->len--;
}

static bool make_content(struct plan *plan, size_t room, struct patch_outcome *outcome)
{
	size_t len = plan->file.len, at = 0;

	for (size_t i = 0; i < plan->n_changes; i++)
		len += len_as(plan->changes[i].text, plan->changes[i].crlf) - plan->changes[i].len;
	if (len > room + added_newline(plan)) {
		plan->failure->hunk = 0;
		patch_explain_too_large(plan->failure);
		return false;
	}
	outcome->content = malloc(len + 1);
	if (!outcome->content)
		return out_of_memory(plan);
	for (size_t i = 0; i < plan->n_changes; i++) {
		const struct change *change = &plan->changes[i];

		outcome->len += write_as(outcome->content + outcome->len,
			(struct text){plan->file.data + at, change->start - at}, false);
		outcome->len +=
			write_as(outcome->content + outcome->len, change->text, change->crlf);
		at = change->start + change->len;
	}
	outcome->len += write_as(outcome->content + outcome->len,
		(struct text){plan->file.data + at, plan->file.len - at}, false);
	end_as_before(plan, outcome);
	return true;
}

/* Returns a copy of @original whose last line has a newline, or NULL: no memory. */
static char *end_last_line(struct plan *plan, struct text original)
{
	char *copy = malloc(original.len + 2);
	size_t len = original.len;

	if (!copy)
		return NULL;
	memcpy(copy, original.data, len);
	if (plan->crlf)
		copy[len++] = '\r';
	copy[len++] = '\n';
	plan->file = (struct text){copy, len};
	plan->unended = true;
	return copy;
}

static bool plan_file(const struct patch_file *file, struct plan *plan, struct patch_outcome *ret)
{
	uint32_t number = 0;

	for (size_t at = 0; at < file->n_parts;) {
		struct patch_hunk hunk;
		bool planned;

		at += take_hunk(plan, file->parts + at, file->n_parts - at, &hunk);
		planned = plan_hunk(plan, &hunk, ++number, ret);
		free(hunk.buffer);
		if (!planned)
			return false;
	}
	return order_changes(plan);
}

bool patch_apply(const struct patch_file *file, struct text original, size_t room,
	struct patch_outcome *ret, struct patch_failure *ret_failure)
{
	struct plan plan = {.file = original, .failure = ret_failure};
	_cleanup_free_ char *ended = NULL;
	bool made;

	*ret = (struct patch_outcome){0};
	*ret_failure = (struct patch_failure){0};
	plan.crlf = edit_has_only_crlf(original);
	if (original.len > 0 && original.data[original.len - 1] != '\n') {
		ended = end_last_line(&plan, original);
		if (!ended)
			return out_of_memory(&plan);
	}
	plan.changes = calloc(file->n_parts + 1, sizeof(*plan.changes));
	if (!plan.changes)
		return out_of_memory(&plan);
	made = plan_file(file, &plan, ret) && make_content(&plan, room, ret);
	free(plan.changes);
	/* The lines to copy stay the same but for the newline that was added. */
	if (!made && ended && ret_failure->closest.len > 0) {
		const size_t start = (size_t)(ret_failure->closest.data - ended);

		ret_failure->closest.data = original.data + start;
		if (start + ret_failure->closest.len > original.len)
			ret_failure->closest.len = original.len - start;
	}
	return made;
}
