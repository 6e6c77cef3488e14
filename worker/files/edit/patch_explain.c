// SPDX-License-Identifier: Apache-2.0
/* Runs in the files process. Pure functions on hostile bytes; patch_explain.h says what for. */
#include "worker/files/edit/patch_explain.h"

#include "common/wire/wire_files.h"
#include "worker/files/edit/edit_explain.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define SHOWN_BYTES 100 /* of a line, in a sentence */

static void __attribute__((format(printf, 4, 5)))
say(struct patch_failure *ret, enum tool_error error, const char *kind, const char *format, ...)
{
	va_list arguments;

	ret->error = error;
	ret->kind = kind;
	va_start(arguments, format);
	vsnprintf(ret->sentence, sizeof(ret->sentence), format, arguments);
	va_end(arguments);
}

static bool is_white(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

struct text patch_trim(struct text text)
{
	while (text.len > 0 && is_white(text.data[0])) {
		text.data++;
		text.len--;
	}
	while (text.len > 0 && is_white(text.data[text.len - 1]))
		text.len--;
	return text;
}

static int shown_len(struct text line)
{
	size_t len = line.len < SHOWN_BYTES ? line.len : SHOWN_BYTES;

	/* A character is not cut. */
	while (len < line.len && len > 0 && ((unsigned char)line.data[len] & 0xc0) == 0x80)
		len--;
	return (int)len;
}

void patch_explain_anchor(
	struct text file, const struct patch_hunk *hunk, size_t index, struct patch_failure *ret)
{
	const struct text anchor = patch_trim(hunk->anchors[index].text);

	(void)file;
	say(ret, TOOL_NO_MATCH, "anchor",
		"no line of the file%s is \"%.*s\", as its @@ line says; give a whole line of the "
		"file above the hunk, or \"@@\" alone",
		index > 0 ? ", below those of the @@ lines before," : "", shown_len(anchor),
		anchor.data);
}

/* Where the old lines stand in the whole file, or SIZE_MAX. */
static size_t find_anywhere(struct text file, const struct patch_hunk *hunk)
{
	const struct text needle = {hunk->buffer, hunk->old_lines.len + 1};
	const char *found;

	if (file.len >= hunk->old_lines.len &&
		memcmp(file.data, hunk->old_lines.data, hunk->old_lines.len) == 0)
		return 0;
	found = file.len > 0 ? memmem(file.data, file.len, needle.data, needle.len) : NULL;
	return found ? (size_t)(found + 1 - file.data) : SIZE_MAX;
}

/* Whether @old_lines would be in the file if the first of them could be a part of a line. */
static bool is_part_of_lines(struct text file, struct text old_lines, struct patch_failure *ret)
{
	const char *found =
		file.len > 0 ? memmem(file.data, file.len, old_lines.data, old_lines.len) : NULL;

	if (!found)
		return false;
	ret->lines[0] = edit_line_of(file, (size_t)(found - file.data));
	ret->n_lines = 1;
	say(ret, TOOL_NO_MATCH, "part",
		"its first line is only the end of line %" PRIu64
		"; give whole lines, with their white space",
		ret->lines[0]);
	return true;
}

static bool has_additions(const struct patch_hunk *hunk)
{
	for (size_t i = 0; i < hunk->n_runs; i++)
		if (hunk->runs[i].type == PATCH_PART_ADDED)
			return true;
	return false;
}

void patch_explain_absent(
	struct text file, const struct patch_hunk *hunk, struct patch_failure *ret)
{
	const size_t found = find_anywhere(file, hunk);
	struct edit_plan plan = {.original = file,
		.edits = {{.old_text = hunk->old_lines, .new_text = hunk->new_lines}},
		.count = 1};
	const struct edit_failure failure = {.error = TOOL_NO_MATCH, .edit = 1};
	struct edit_explanation why;

	if (found != SIZE_MAX) {
		ret->lines[0] = edit_line_of(file, found);
		ret->n_lines = 1;
		if (hunk->at_end)
			say(ret, TOOL_NO_MATCH, "end",
				"its lines are at line %" PRIu64
				", which is not the end of the file; leave \"*** End of File\" out",
				ret->lines[0]);
		else
			say(ret, TOOL_NO_MATCH, "anchor",
				"its lines are at line %" PRIu64
				", which is above its @@ line; give a line above them, or \"@@\" "
				"alone",
				ret->lines[0]);
		return;
	}
	if (is_part_of_lines(file, hunk->old_lines, ret))
		return;
	if (!has_additions(hunk)) /* what stays is in the file, and that says nothing */
		plan.edits[0].new_text = (struct text){NULL, 0};
	edit_explain(&plan, &failure, &why);
	say(ret, TOOL_NO_MATCH, why.kind,
		"%s (old: the hunk's lines with a space and with -; new: those with a space and "
		"with +)",
		why.sentence);
	ret->n_lines = why.n_lines;
	memcpy(ret->lines, why.lines, sizeof(ret->lines));
	ret->closest = why.closest;
}

void patch_explain_several(
	const struct patch_hunk *hunk, size_t count, struct patch_failure *failure)
{
	char lines[LIMIT_EDIT_LINES * 22 + 32];
	size_t len = 0;

	for (size_t i = 0; i < failure->n_lines && len < sizeof(lines); i++)
		len += (size_t)snprintf(lines + len, sizeof(lines) - len, "%s%" PRIu64,
			i > 0 ? ", " : "lines ", failure->lines[i]);
	say(failure, TOOL_AMBIGUOUS_MATCH, "several",
		"its lines are in the file %s%zu times%s: %s; add the lines around them%s",
		count > LIMIT_EDIT_LINES ? "more than " : "",
		count > LIMIT_EDIT_LINES ? (size_t)LIMIT_EDIT_LINES : count,
		hunk->n_anchors > 0 ? " below its @@ line" : "", lines,
		hunk->n_anchors > 0 ? "" : ", or \"@@ \" and a line above them");
}

void patch_explain_addition(
	struct text file, const struct patch_hunk *hunk, struct patch_failure *ret)
{
	(void)file;
	if (hunk->n_anchors > 0)
		say(ret, TOOL_AMBIGUOUS_MATCH, "no_lines",
			"it has only lines with +, and its @@ line is in the file several times; "
			"add the line above them, with a space before it");
	else
		say(ret, TOOL_AMBIGUOUS_MATCH, "no_lines",
			"it has only lines with +; add the line above them, with a space before "
			"it, or \"*** End of File\" below them to add them at the end");
}

void patch_explain_unchanged(struct patch_failure *ret)
{
	say(ret, TOOL_INVALID_ARGUMENTS, "unchanged",
		"its lines with - and with + are the same; leave it out");
}

void patch_explain_overlap(uint32_t one, uint32_t other, uint64_t line, struct patch_failure *ret)
{
	ret->lines[0] = line;
	ret->n_lines = 1;
	say(ret, TOOL_EDITS_OVERLAP, "overlap",
		"hunks %" PRIu32 " and %" PRIu32 " change the same place at line %" PRIu64
		"; make one hunk of them",
		one, other, line);
}

void patch_explain_too_large(struct patch_failure *ret)
{
	say(ret, TOOL_FILE_TOO_LARGE, "too_large",
		"the patch's files would have more than %llu bytes; make several patches",
		LIMIT_PATCH_BYTES);
}
