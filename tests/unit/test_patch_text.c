/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
#include "supervisor/call/request/patch_text.h"

#include "common/wire/wire_files.h"
#include "tests/lib/unit.h"

#define BEGIN   "*** Begin Patch\n"
#define END     "*** End Patch\n"
#define UPDATE  BEGIN "*** Update File: f\n"
#define VISIBLE TEXT_LITERAL("/work")

/* Each part in a line: its type and its text, with "|" for newlines. */
static char *show(const struct patch_text *read)
{
	struct wire_reader reader = wire_reader(read->parts, read->len);
	char *shown = NULL;
	size_t len;
	FILE *out = open_memstream(&shown, &len);

	while (reader.left > 0) {
		uint8_t type = wire_get_u8(&reader);
		struct text text = wire_get_text(&reader, LIMIT_PATCH_BYTES);

		fprintf(out, "%c", type);
		for (size_t i = 0; i < text.len; i++)
			fputc(text.data[i] == '\n' ? '|' : text.data[i], out);
		fputc('\n', out);
	}
	assert_int_equal(wire_reader_end(&reader), 0);
	fclose(out);
	return shown;
}

static void assert_parts(const char *patch, const char *parts)
{
	struct patch_text read;
	_cleanup_free_ char *shown = NULL;

	if (patch_text_read(VISIBLE, text_from(patch), &read) != TOOL_OK)
		fail_msg("%s\n%s", patch, read.message);
	shown = show(&read);
	assert_string_equal(shown, parts);
	assert_non_null(read.first);
	free(read.first);
	free(read.parts);
}

TEST(test_parts)
{
	static const struct {
		const char *patch, *parts;
	} rows[] = {
		{BEGIN "*** Add File: a/b\n+one\n+\n+three\n" END, "Aa/b\n+one||three|\n"},
		{BEGIN "*** Add File: a\n" END, "Aa\n"},
		{BEGIN "*** Delete File: /work/a\n" END, "Da\n"},
		{UPDATE "*** Move to: g\n" END, "Uf\nMg\n"},
		{UPDATE "*** Move to: ./f\n@@\n+a\n" END, "Uf\nH\n+a|\n"},
		{UPDATE "-a\n+b\n" END, "Uf\nH\n-a|\n+b|\n"},
		{UPDATE "@@\n-a\n-b\n+c\n d\n\n e\n" END, "Uf\nH\n-a|b|\n+c|\n d||e|\n"},
		{UPDATE "@@ class A\n@@   def x\n-a\n" END, "Uf\nH\n@class A\n@def x\n-a|\n"},
		{UPDATE "@@ \n-a\n" END, "Uf\nH\n-a|\n"},
		{UPDATE "@@\n-a\n*** End of File\n@@\n-b\n" END, "Uf\nH\n-a|\nE\nH\n-b|\n"},
		{UPDATE "*** Move to: g h\n@@\n+a\n" END, "Uf\nMg h\nH\n+a|\n"},
		{UPDATE "--- a\n+b\n" END, "Uf\nH\n--- a|\n+b|\n"}, /* a line "-- a" that goes */
		{UPDATE " *** End Patch\n-@@\n+***\n" END, "Uf\nH\n *** End Patch|\n-@@|\n+***|\n"},
		{"\n  \n" UPDATE "-a\n*** End Patch", "Uf\nH\n-a|\n"},
		{UPDATE "-a\n" END "\n \t\r\n\n", "Uf\nH\n-a|\n"},
		{UPDATE "-a\r\n+b\r\n" END, "Uf\nH\n-a\r|\n+b\r|\n"},
		{BEGIN "*** Add File: a\n+x\n*** Delete File: b\n*** Update File: c\n*** Move to: "
		       "d\n*** Update File: e\n+z\n" END,
			"Aa\n+x|\nDb\nUc\nMd\nUe\nH\n+z|\n"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_parts(rows[i].patch, rows[i].parts);
}

/* What is no patch, the line that is wrong, and words of what the message says about it. */
static const struct {
	const char *patch;
	int line;
	const char *words;
} malformed[] = {
	{"", 1, "does not begin with"},
	{"\n\n", 3, "does not begin with"},
	{"fix it", 1, "does not begin with the line \"*** Begin Patch\""},
	{"*** Update File: f\n-a\n" END, 1, "does not begin with"},
	{"*** begin patch\n", 1, "does not begin with"},
	{"** Begin Patch\n", 1, "does not begin with"},
	{" *** Begin Patch\n", 1, "does not begin with"},
	{"*** Begin Patch: f\n", 1, "does not begin with"},
	{"*** Begin Patch \n", 1, "leave white space after"},
	{"*** Begin Patch\r\n*** Update File: f\r\n", 1, "end with \\r\\n; end them with \\n"},
	{"*** Begin Patch\\n*** Update File: f\\n-a\\n*** End Patch", 1, "one line with \"\\n\""},
	{"```\n" UPDATE, 1, "fence"},
	{"```diff\n" UPDATE, 1, "fence"},
	{"apply_patch <<'EOF'\n" UPDATE, 1, "leave the command apply_patch out"},
	{"diff --git a/f b/f\n", 1, "unified diff"},
	{"--- a/f\n+++ b/f\n@@ -1 +1 @@\n", 1, "unified diff"},
	{"*** Begin Patch", 2, "ends without"},
	{BEGIN, 2, "ends without"},
	{BEGIN END, 2, "has no file"},
	{UPDATE "-a\n", 4, "ends without"},
	{UPDATE "-a", 4, "ends without"},
	{UPDATE, 3, "has no hunk"},
	{UPDATE "-a\n*** End of Patch\n", 4, "\"*** End of Patch\" is not known here"},
	{UPDATE "-a\n*** End Patch \n", 4, "is not known here"},
	{UPDATE "-a\n" END "more\n", 5, "nothing may follow"},
	{UPDATE "-a\n" END "```\n", 5, "nothing may follow"},
	{UPDATE "-a\n" END BEGIN, 5, "nothing may follow"},
	{UPDATE "-a\n" BEGIN END, 4, "stands once"},
	{BEGIN "\n*** Update File: f\n-a\n" END, 2, "an empty line stands here"},
	{BEGIN "f\n-a\n" END, 2, "\"f\" is not known here; expected \"*** Add File: PATH\""},
	{BEGIN "-a\n+b\n" END, 2, "\"-a\" is not known here"},
	{BEGIN "@@\n-a\n" END, 2, "\"@@\" is not known here"},
	{BEGIN "*** Modify File: f\n" END, 2, "is not known here"},
	{BEGIN "*** Create File: f\n" END, 2, "is not known here"},
	{BEGIN "*** update file: f\n" END, 2, "is not known here"},
	{BEGIN "***Update File: f\n" END, 2, "is not known here"},
	{BEGIN "*** Rename File: f\n" END, 2, "\"*** Move to: PATH\""},
	{BEGIN "*** Update File:\n-a\n" END, 2, "has no path"},
	{BEGIN "*** Update File: \n-a\n" END, 2, "has no path"},
	{BEGIN "*** Update File:f\n-a\n" END, 2, "is not known here"},
	{BEGIN "*** Add File:  a\n+a\n" END, 2, "begins or ends with white space"},
	{BEGIN "*** Add File: a \n+a\n" END, 2, "begins or ends with white space"},
	{BEGIN "*** Add File: a\r\n+a\n" END, 2, "begins or ends with white space"},
	{BEGIN "*** Move to: g\n" END, 2, "is not known here"},
	{BEGIN "*** Add File: a\nx\n" END, 3, "begins with +"},
	{BEGIN "*** Add File: a\n x\n" END, 3, "begins with +"},
	{BEGIN "*** Add File: a\n+x\n\n+y\n" END, 4, "also an empty one"},
	{BEGIN "*** Add File: a\n@@\n+x\n" END, 3, "begins with +"},
	{BEGIN "*** Add File: a\n+x\n-y\n" END, 4, "begins with +"},
	{BEGIN "*** Add File: a\n*** Move to: b\n+x\n" END, 3, "lines with + only"},
	{BEGIN "*** Add File: a\n+x\n*** End of File\n" END, 4, "lines with + only"},
	{BEGIN "*** Delete File: a\n-x\n" END, 3, "has no lines"},
	{BEGIN "*** Delete File: a\n\n" END, 3, "has no lines"},
	{BEGIN "*** Delete File: a\n*** Move to: b\n" END, 3, "has no lines"},
	{BEGIN "*** Delete File: a\n*** End of File\n" END, 3, "has no lines"},
	{UPDATE END, 3, "has no hunk"},
	{UPDATE "*** Update File: g\n-a\n" END, 3, "has no hunk"},
	{UPDATE "-a\n*** Move to: g\n" END, 4, "directly below"},
	{UPDATE "*** Move to: g\n*** Move to: h\n" END, 4, "stands once"},
	{UPDATE "*** Move to: \n-a\n" END, 3, "has no path"},
	{UPDATE "*** Move to:g\n-a\n" END, 3, "directly below"},
	{UPDATE "*** End of File\n" END, 3, "below a hunk's lines"},
	{UPDATE "@@\n*** End of File\n" END, 4, "has no lines"},
	{UPDATE "-a\n*** End of File\n*** End of File\n" END, 5, "below a hunk's lines"},
	{UPDATE "-a\n*** End of File\n b\n" END, 5, "a hunk with @@, or the next file"},
	{UPDATE "@@\n" END, 4, "has no lines"},
	{UPDATE "@@\n-a\n@@\n" END, 6, "has no lines"},
	{UPDATE "@@\n a\n b\n" END, 6, "no line with - or +"},
	{UPDATE " a\n@@\n-b\n" END, 4, "no line with - or +"},
	{UPDATE "\n" END, 4, "no line with - or +"},
	{UPDATE "a\n" END, 3, "begins with a space, - or +, and this is \"a\""},
	{UPDATE "@@\n-a\nb\n+c\n" END, 5, "and this is \"b\""},
	{UPDATE "@@\n\ta\n" END, 4, "begins with a space, - or +"},
	{UPDATE "@@\n1: a\n" END, 4, "begins with a space, - or +"},
	{UPDATE "-a\n\\ No newline at end of file\n" END, 4, "No newline at end of file"},
	{UPDATE "@@ -1,3 +1,4 @@\n-a\n" END, 3, "line numbers are not used"},
	{UPDATE "@@ -1 +1 @@ int main\n-a\n" END, 3, "line numbers are not used"},
	{UPDATE "@@ def a(): @@\n-a\n" END, 3, "leave \" @@\" at the end"},
	{UPDATE "@@def a():\n-a\n" END, 3, "write \"@@\" alone"},
	{UPDATE "@@@\n-a\n" END, 3, "write \"@@\" alone"},
	{UPDATE "--- a/f\n+++ b/f\n-a\n" END, 3, "leave the lines --- and +++"},
	{UPDATE "@@\n--- a/f\n+++ b/f\n-a\n" END, 4, "leave the lines --- and +++"},
	{UPDATE "@@ a\n@@ a\n@@ a\n@@ a\n@@ a\n@@ a\n@@ a\n@@ a\n@@ a\n-a\n" END, 11,
		"at most 8 lines with @@"},
	{UPDATE "-a\n*** Update File: f\n-b\n" END, 4, "names \"f\" twice"},
	{UPDATE "-a\n*** Delete File: ./f\n" END, 4, "names \"f\" twice"},
	{UPDATE "-a\n*** Add File: /work//f\n" END, 4, "names \"f\" twice"},
	{UPDATE "*** Move to: f\n" END, 4, "has no hunk"},
	{UPDATE "*** Move to: g\n*** Add File: g\n" END, 4, "names \"g\" twice"},
};

static void assert_refused(struct text patch, enum tool_error error, int line, const char *words)
{
	char begin[64];
	struct patch_text read;

	snprintf(begin, sizeof(begin), "apply_patch: line %d of the patch: ", line);
	assert_string_equal(
		tool_error_name(patch_text_read(VISIBLE, patch, &read)), tool_error_name(error));
	assert_null(read.parts);
	assert_null(read.first);
	assert_non_null(read.message);
	if (strncmp(read.message, begin, strlen(begin)) != 0 || !strstr(read.message, words))
		fail_msg("%.*s\nsays: %s\nnot: %s…%s", (int)(patch.len < 200 ? patch.len : 200),
			patch.data, read.message, begin, words);
	free(read.message);
}

TEST(test_malformed)
{
	assert_true(ARRAY_SIZE(malformed) >= 60);
	for (size_t i = 0; i < ARRAY_SIZE(malformed); i++)
		assert_refused(text_from(malformed[i].patch), TOOL_INVALID_ARGUMENTS,
			malformed[i].line, malformed[i].words);
}

/* A patch that is cut anywhere is refused, and nothing else happens. */
TEST(test_every_beginning)
{
	static const char whole[] =
		BEGIN "*** Add File: a\n+x\n*** Update File: b\n*** Move to: c\n"
		      "@@ d\n-e\n\n+f\n*** End of File\n*** Delete File: g\n"
		      "*** End Patch";

	for (size_t len = 0; len <= sizeof(whole) - 1; len++) {
		_cleanup_free_ char *copy = malloc(len + 1);
		struct patch_text read;
		enum tool_error error;

		memcpy(copy, whole, len);
		error = patch_text_read(VISIBLE, (struct text){copy, len}, &read);
		assert_int_equal(
			error, len == sizeof(whole) - 1 ? TOOL_OK : TOOL_INVALID_ARGUMENTS);
		free(read.parts);
		free(read.first);
		free(read.message);
	}
}

TEST(test_paths)
{
	assert_refused(TEXT_LITERAL(BEGIN "*** Add File: ../a\n" END), TOOL_PATH_OUTSIDE_WORKSPACE,
		2, "outside");
	assert_refused(TEXT_LITERAL(UPDATE "*** Move to: /etc/a\n" END),
		TOOL_PATH_OUTSIDE_WORKSPACE, 3, "outside");
	assert_refused(TEXT_LITERAL(BEGIN "*** Delete File: C:\\a\n" END),
		TOOL_PATH_OUTSIDE_WORKSPACE, 2, "outside");
	assert_parts(BEGIN "*** Delete File: a\\b\n" END, "Da/b\n");
}

/* Repeats @line, or a file if it is NULL, as often as a patch may have it, and once more. */
static void assert_bound(
	const char *begin, const char *line, size_t most, enum tool_error error, const char *words)
{
	for (size_t more = 0; more < 2; more++) {
		_cleanup_free_ char *patch = NULL;
		struct patch_text read;
		size_t len;
		FILE *out = open_memstream(&patch, &len);

		fputs(begin, out);
		for (size_t i = 0; i < most + more; i++)
			if (line)
				fputs(line, out);
			else
				fprintf(out, "*** Delete File: %zu\n", i);
		fputs(END, out);
		fclose(out);
		assert_int_equal(patch_text_read(VISIBLE, (struct text){patch, len}, &read),
			more == 0 ? TOOL_OK : error);
		if (more)
			assert_non_null(strstr(read.message, words));
		free(read.parts);
		free(read.first);
		free(read.message);
	}
}

TEST(test_bounds)
{
	assert_bound(BEGIN, NULL, LIMIT_PATCH_FILES, TOOL_INVALID_ARGUMENTS, "64 files");
	assert_bound(UPDATE, "@@\n-a\n", LIMIT_PATCH_HUNKS, TOOL_INVALID_ARGUMENTS, "1024 hunks");
	/* The file and the hunk are parts too. */
	assert_bound(UPDATE, "-a\n+b\n", LIMIT_PATCH_PARTS / 2 - 1, TOOL_INVALID_ARGUMENTS,
		"100000 parts");
}
