/* links: cloister-files-core cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/*
 * apply_patch from its text to the new content: what cloisterd makes of any text is taken by the
 * files process, any bytes as parts do no harm, and hunks are made as a plain reference makes them,
 * which compares lines one by one, or are refused and explained.
 *
 * Input: two bytes, the length of the text; it; and the file. With the upper bit of the first byte
 * the text is taken as encoded parts.
 */
#include "common/wire/wire_files.h"
#include "supervisor/call/request/patch_text.h"
#include "tests/fuzz/fuzz.h"
#include "worker/files/edit/patch_explain.h"
#include "worker/files/edit/patch_plan.h"

#include <stdlib.h>

#define LINES_MAX 512

struct lines {
	struct text lines[LINES_MAX];
	size_t count;
	bool too_many;
};

static void add_lines(struct lines *lines, struct text text)
{
	while (text.len > 0) {
		struct text line = text_take(&text, '\n');

		if (lines->count == LINES_MAX)
			lines->too_many = true;
		else
			lines->lines[lines->count++] = line;
	}
}

/* A hunk of the reference: its lines with their signs. */
struct hunk {
	const struct patch_part *parts;
	size_t n_parts, n_anchors;
	bool at_end, crlf;
	struct lines old_lines;
};

static bool line_is(struct text line, struct text wanted, bool crlf)
{
	if (!crlf)
		return text_equal(line, wanted);
	return line.len > 0 && line.data[line.len - 1] == '\r' &&
	       text_equal((struct text){line.data, line.len - 1}, wanted);
}

static bool stands_at(const struct lines *file, size_t at, const struct hunk *hunk)
{
	if (file->count - at < hunk->old_lines.count ||
		(hunk->at_end && at + hunk->old_lines.count != file->count))
		return false;
	for (size_t i = 0; i < hunk->old_lines.count; i++)
		if (!line_is(file->lines[at + i], hunk->old_lines.lines[i], hunk->crlf))
			return false;
	return true;
}

/* Whether the anchors are above the line @at, in their order. */
static bool anchors_above(const struct lines *file, size_t at, const struct hunk *hunk)
{
	size_t found = 0;

	for (size_t i = 0; i < at && found < hunk->n_anchors; i++)
		found += text_equal(
			patch_trim(file->lines[i]), patch_trim(hunk->parts[1 + found].text));
	return found == hunk->n_anchors;
}

static bool anchor_directly_above(const struct lines *file, size_t at, const struct hunk *hunk)
{
	return at > 0 && hunk->n_anchors > 0 &&
	       text_equal(patch_trim(file->lines[at - 1]),
		       patch_trim(hunk->parts[hunk->n_anchors].text));
}

/* Returns the line at which the hunk is to be made, or SIZE_MAX. */
static size_t place_of(const struct lines *file, const struct hunk *hunk)
{
	size_t count = 0, direct = 0, place = SIZE_MAX, direct_place = SIZE_MAX;

	for (size_t at = 0; at <= file->count; at++) {
		if (!stands_at(file, at, hunk) || !anchors_above(file, at, hunk))
			continue;
		count++;
		place = at;
		if (anchor_directly_above(file, at, hunk)) {
			direct++;
			direct_place = at;
		}
	}
	/* Lines that are only added, below an anchor, never go anywhere but directly below. */
	if (hunk->old_lines.count == 0 && hunk->n_anchors > 0 && !hunk->at_end)
		count = count == 1 && direct == 1 ? 1 : 2;
	if (count == 1)
		return place;
	return direct == 1 ? direct_place : SIZE_MAX;
}

/* What happens to each line of the file, and before it. */
struct marks {
	bool removed[LINES_MAX + 1];
	int remover[LINES_MAX + 1], adder[LINES_MAX + 1]; /* the hunk, or 0 */
	struct text added[LINES_MAX + 1][8];
	bool crlf[LINES_MAX + 1];
	size_t n_added[LINES_MAX + 1];
};

/* Marks what the hunk changes. Returns false for what the reference does not judge. */
static bool mark(struct marks *marks, const struct hunk *hunk, size_t at, int number, bool *overlap)
{
	size_t run_start = at;

	for (size_t i = 1 + hunk->n_anchors; i < hunk->n_parts; i++) {
		const struct patch_part *part = &hunk->parts[i];
		struct lines lines = {.count = 0};

		add_lines(&lines, part->text);
		if (part->type == PATCH_PART_CONTEXT) {
			at += lines.count;
			run_start = at;
		} else if (part->type == PATCH_PART_REMOVED) {
			for (size_t l = 0; l < lines.count; l++, at++) {
				*overlap |= marks->removed[at];
				marks->removed[at] = true;
				marks->remover[at] = number;
			}
		} else if (part->type == PATCH_PART_ADDED) {
			if (marks->n_added[run_start] == 8)
				return false;
			*overlap |= marks->adder[run_start] && marks->adder[run_start] != number;
			marks->adder[run_start] = number;
			marks->crlf[run_start] = hunk->crlf;
			marks->added[run_start][marks->n_added[run_start]++] = part->text;
		}
	}
	return true;
}

/*
 * Two hunks also meet where one adds lines at the place of lines that the other one removes, or
 * between them.
 */
static bool meet(const struct marks *marks, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (marks->adder[i] && marks->remover[i] && marks->adder[i] != marks->remover[i])
			return true;
	return false;
}

static size_t put(char *to, struct text text, bool crlf)
{
	size_t len = 0;

	for (size_t i = 0; i < text.len; i++) {
		if (crlf && text.data[i] == '\n')
			to[len++] = '\r';
		to[len++] = text.data[i];
	}
	return len;
}

static size_t write_marked(
	char *to, const struct lines *file, const struct marks *marks, bool unended, bool crlf)
{
	size_t len = 0;

	for (size_t i = 0; i <= file->count; i++) {
		for (size_t a = 0; a < marks->n_added[i]; a++)
			len += put(to + len, marks->added[i][a], marks->crlf[i]);
		if (i == file->count || marks->removed[i])
			continue;
		len += put(to + len, file->lines[i], false);
		to[len++] = '\n';
	}
	if (unended && len > 0 && to[len - 1] == '\n') {
		len--;
		if (crlf && len > 0 && to[len - 1] == '\r')
			len--;
	}
	return len;
}

static bool has_only_crlf(const char *data, size_t len)
{
	size_t newlines = 0;

	for (size_t i = 0; i < len; i++) {
		if (data[i] != '\n')
			continue;
		if (i == 0 || data[i - 1] != '\r')
			return false;
		newlines++;
	}
	return newlines > 0;
}

/* Splits off the hunk at @parts. Returns the number of its parts. */
static size_t split_hunk(const struct patch_part *parts, size_t n, bool crlf, struct hunk *hunk)
{
	*hunk = (struct hunk){.parts = parts, .n_parts = 1, .crlf = crlf};
	while (hunk->n_parts < n && parts[hunk->n_parts].type != PATCH_PART_HUNK) {
		const struct patch_part *part = &parts[hunk->n_parts++];

		hunk->n_anchors += part->type == PATCH_PART_ANCHOR;
		hunk->at_end |= part->type == PATCH_PART_AT_END;
		if (part->type == PATCH_PART_CONTEXT || part->type == PATCH_PART_REMOVED)
			add_lines(&hunk->old_lines, part->text);
		if (part->type != PATCH_PART_ANCHOR && part->text.len > 0 &&
			memchr(part->text.data, '\r', part->text.len))
			hunk->crlf = false;
	}
	return hunk->n_parts;
}

enum verdict { REFUSED, MADE, NOT_JUDGED };

/* Makes the hunks of @patched line by line. @to has room enough. */
static enum verdict reference(
	const struct patch_file *patched, const char *data, size_t len, char *to, size_t *ret_len)
{
	static struct marks marks;
	static struct lines file;
	static struct hunk hunk;
	const bool crlf = has_only_crlf(data, len);
	const bool unended = len > 0 && data[len - 1] != '\n';
	char *whole = malloc(len + 3);
	enum verdict verdict = MADE;
	bool overlap = false;
	int number = 0;

	memcpy(whole, data, len);
	*ret_len = len;
	if (unended && crlf)
		whole[len++] = '\r';
	if (unended)
		whole[len++] = '\n';
	file = (struct lines){.count = 0};
	marks = (struct marks){.n_added = {0}};
	add_lines(&file, (struct text){whole, len});
	if (file.too_many)
		verdict = NOT_JUDGED;
	for (size_t at = 0; at < patched->n_parts && verdict == MADE;) {
		size_t place;

		at += split_hunk(patched->parts + at, patched->n_parts - at, crlf, &hunk);
		place = place_of(&file, &hunk);
		if (!hunk.old_lines.too_many && place == SIZE_MAX)
			verdict = REFUSED;
		else if (hunk.old_lines.too_many || !mark(&marks, &hunk, place, ++number, &overlap))
			verdict = NOT_JUDGED;
	}
	if (verdict == MADE && (overlap || meet(&marks, file.count)))
		verdict = REFUSED;
	if (verdict == MADE)
		*ret_len = write_marked(to, &file, &marks, unended, crlf);
	free(whole);
	return verdict;
}

static void check_failure(const struct patch_failure *failure, const char *file, size_t len)
{
	CHECK(failure->error != TOOL_OK && failure->kind && failure->sentence[0]);
	CHECK(failure->n_lines <= LIMIT_EDIT_LINES);
	CHECK(failure->closest.len <= FILES_TROUBLE_CLOSEST);
	CHECK(failure->closest.len == 0 ||
		(failure->closest.data >= file &&
			failure->closest.data + failure->closest.len <= file + len));
}

static void check_file(const struct patch_file *patched, const char *file, size_t len, size_t room)
{
	char *expected = malloc(len + 2 * room + 16);
	struct patch_outcome outcome;
	struct patch_failure failure;
	size_t expected_len;
	enum verdict verdict = reference(patched, file, len, expected, &expected_len);

	if (patch_apply(patched, (struct text){file, len}, LIMIT_PATCH_BYTES, &outcome, &failure)) {
		CHECK(verdict != REFUSED);
		CHECK(verdict == NOT_JUDGED ||
			(outcome.len == expected_len &&
				memcmp(outcome.content, expected, expected_len) == 0));
	} else {
		check_failure(&failure, file, len);
		/* A hunk that changes nothing has its place, and is refused all the same. */
		CHECK(verdict != MADE || failure.error == TOOL_INVALID_ARGUMENTS);
	}
	free(outcome.content);
	free(expected);
}

static void check_parts(struct text parts, bool ours, const char *file, size_t len)
{
	struct patch patch;
	int r = patch_read(&patch, parts);

	CHECK(!ours || r == 0);
	if (r < 0)
		return;
	for (size_t i = 0; i < patch.n_files; i++)
		if (patch.files[i].n_parts > 0)
			check_file(&patch.files[i], file, len, parts.len);
	patch_done(&patch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t len = size > 1 ? (size_t)(data[0] & 0x7f) << 8 | data[1] : 0;
	struct patch_text read = {0};
	struct text text;
	char *file;

	if (size < 2 || len > size - 2)
		return 0;
	file = malloc(size - 1 - len);
	if (size - 2 - len > 0)
		memcpy(file, data + 2 + len, size - 2 - len);
	text = (struct text){(const char *)data + 2, len};
	if (data[0] & 0x80)
		check_parts(text, false, file, size - 2 - len);
	else if (patch_text_read(TEXT_LITERAL("/work"), text, &read) == TOOL_OK)
		check_parts((struct text){read.parts, read.len}, true, file, size - 2 - len);
	free(read.parts);
	free(read.first);
	free(read.message);
	free(file);
	return 0;
}
