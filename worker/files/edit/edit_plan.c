// SPDX-License-Identifier: Apache-2.0
/* Runs in the files process. Pure functions on hostile bytes; edit_plan.h has the rules. */
#include "worker/files/edit/edit_plan.h"

#include "common/cleanup.h"
#include "common/line_count.h"
#include "common/wire/wire.h"

#include <errno.h>
#include <stdlib.h>

int edit_plan_read(struct edit_plan *plan, struct text body)
{
	struct wire_reader reader = wire_reader(body.data, body.len);

	*plan = (struct edit_plan){0};
	while (reader.left > 0 && !reader.failed && plan->count < LIMIT_EDITS) {
		struct edit *edit = &plan->edits[plan->count++];

		edit->all = wire_get_bool(&reader);
		edit->old_text = wire_get_text(&reader, LIMIT_EDIT_BYTES);
		edit->new_text = wire_get_text(&reader, LIMIT_EDIT_BYTES);
		if (edit->old_text.len == 0)
			return -EBADMSG;
	}
	return plan->count > 0 ? wire_reader_end(&reader) : -EBADMSG;
}

uint64_t edit_line_of(struct text content, size_t at)
{
	return line_count(content.data, at) + 1;
}

bool edit_has_only_crlf(struct text text)
{
	size_t newlines = line_count(text.data, text.len), pairs = 0;
	const char *at = text.data, *end = text.data + text.len;

	while (newlines > 0 && (at = memmem(at, (size_t)(end - at), "\r\n", 2))) {
		pairs++;
		at += 2;
	}
	return newlines > 0 && pairs == newlines;
}

/* Makes a copy of @text whose lines end with CRLF. Returns false if memory is out. */
static bool to_crlf(struct text *text, char **ret_copy)
{
	size_t newlines = line_count(text->data, text->len), len = 0;
	char *copy;

	if (newlines == 0)
		return true;
	copy = malloc(text->len + newlines);
	if (!copy)
		return false;
	for (size_t i = 0; i < text->len; i++) {
		if (text->data[i] == '\n')
			copy[len++] = '\r';
		copy[len++] = text->data[i];
	}
	*text = (struct text){copy, len};
	*ret_copy = copy;
	return true;
}

static bool has_return(struct text text)
{
	return text.len > 0 && memchr(text.data, '\r', text.len);
}

static bool normalise(struct edit_plan *plan)
{
	if (!edit_has_only_crlf(plan->original))
		return true;
	for (size_t i = 0; i < plan->count; i++) {
		struct edit *edit = &plan->edits[i];

		if (has_return(edit->old_text) || has_return(edit->new_text))
			continue;
		if (!to_crlf(&edit->old_text, &plan->converted[2 * i]) ||
			!to_crlf(&edit->new_text, &plan->converted[2 * i + 1]))
			return false;
	}
	return true;
}

static bool add_place(
	struct edit_plan *plan, size_t *room, struct edit_place place, struct edit_failure *failure)
{
	failure->error = TOOL_FILE_TOO_LARGE;
	if (plan->n_places == LIMIT_EDIT_PLACES)
		return false;
	failure->error = TOOL_EXECUTION_ERROR;
	if (plan->n_places == *room) {
		size_t more = *room > 0 ? *room * 2 : LIMIT_EDITS;
		struct edit_place *places = reallocarray(plan->places, more, sizeof(*plan->places));

		if (!places)
			return false;
		plan->places = places;
		*room = more;
	}
	plan->places[plan->n_places++] = place;
	return true;
}

/*
 * Finds where @edit's old text stands. Occurrences that overlap each other count, because it is not
 * said which is meant; of those that are all replaced the first of two is taken, as sed(1) does.
 * Beyond the occurrences that are named none is looked for inside another: each search reads a
 * whole old text, so a long one in a file of equal bytes would be read once for each byte.
 */
static bool find_places(
	struct edit_plan *plan, size_t index, size_t *room, struct edit_failure *failure)
{
	const struct edit *edit = &plan->edits[index];
	const char *end = plan->original.data + plan->original.len, *at = plan->original.data;
	uint64_t count = 0, line = 1;
	size_t counted = 0; /* line is the number of this byte's line */

	failure->edit = (uint32_t)index + 1;
	failure->n_lines = 0;
	while (plan->original.len > 0 &&
		(at = memmem(at, (size_t)(end - at), edit->old_text.data, edit->old_text.len))) {
		size_t start = (size_t)(at - plan->original.data);

		if (!edit->all && failure->n_lines < LIMIT_EDIT_LINES) {
			line += line_count(plan->original.data + counted, start - counted);
			counted = start;
			failure->lines[failure->n_lines++] = line;
		}
		failure->count = ++count;
		if (!edit->all && count > LIMIT_EDIT_PLACES)
			break;
		if ((edit->all || count == 1) &&
			!add_place(plan, room,
				(struct edit_place){start, edit->old_text.len, (uint32_t)index},
				failure))
			return false;
		at += edit->all || count > LIMIT_EDIT_LINES ? edit->old_text.len : 1;
	}
	if (count > 0 && (count == 1 || edit->all))
		return true;
	failure->error = count == 0 ? TOOL_NO_MATCH : TOOL_AMBIGUOUS_MATCH;
	return false;
}

static int compare_places(const void *left, const void *right)
{
	const struct edit_place *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->edit < b->edit ? -1 : a->edit > b->edit;
}

/* Sorts the places. Returns false if two overlap. */
static bool order_places(struct edit_plan *plan, struct edit_failure *failure)
{
	qsort(plan->places, plan->n_places, sizeof(*plan->places), compare_places);
	for (size_t i = 1; i < plan->n_places; i++) {
		const struct edit_place *before = &plan->places[i - 1], *place = &plan->places[i];

		if (before->start + before->len <= place->start)
			continue;
		failure->error = TOOL_EDITS_OVERLAP;
		failure->edit = before->edit + 1;
		failure->other = place->edit + 1;
		failure->lines[0] = edit_line_of(plan->original, place->start);
		failure->n_lines = 1;
		return false;
	}
	return true;
}

static void append_to_plan(struct edit_plan *plan, struct text text)
{
	if (text.len > 0)
		memcpy(plan->content + plan->len, text.data, text.len);
	plan->len += text.len;
}

static bool make_content(struct edit_plan *plan, struct edit_failure *failure)
{
	size_t len = plan->original.len, at = 0;

	for (size_t i = 0; i < plan->n_places; i++) {
		len += plan->edits[plan->places[i].edit].new_text.len;
		len -= plan->places[i].len;
		failure->edit = plan->places[i].edit + 1;
		failure->error = TOOL_FILE_TOO_LARGE;
		failure->count = 0; /* it is the file that would be too large */
		if (len > LIMIT_CONTENT_BYTES + plan->original.len)
			return false;
	}
	if (len > LIMIT_CONTENT_BYTES)
		return false;
	plan->content = malloc(len + 1);
	failure->error = TOOL_EXECUTION_ERROR;
	if (!plan->content)
		return false;
	for (size_t i = 0; i < plan->n_places; i++) {
		const struct edit_place *place = &plan->places[i];

		append_to_plan(plan, (struct text){plan->original.data + at, place->start - at});
		append_to_plan(plan, plan->edits[place->edit].new_text);
		at = place->start + place->len;
	}
	append_to_plan(plan, (struct text){plan->original.data + at, plan->original.len - at});
	return true;
}

bool edit_plan_make(struct edit_plan *plan, struct text original, struct edit_failure *ret_failure)
{
	size_t room = 0;

	*ret_failure = (struct edit_failure){.error = TOOL_EXECUTION_ERROR, .edit = 1};
	plan->original = original;
	if (!normalise(plan))
		return false;
	for (size_t i = 0; i < plan->count; i++)
		if (!find_places(plan, i, &room, ret_failure))
			return false;
	return order_places(plan, ret_failure) && make_content(plan, ret_failure);
}

void edit_plan_done(struct edit_plan *plan)
{
	for (size_t i = 0; i < ARRAY_SIZE(plan->converted); i++)
		free(plan->converted[i]);
	free(plan->places);
	free(plan->content);
	*plan = (struct edit_plan){0};
}
