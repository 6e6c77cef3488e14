/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* The text of a file tool's result that a model reads: names, entries and matches that a hostile
 * workspace chose, the head of each result, and the sentence about what is left out (shown.h). */
#include "supervisor/call/result/model_text.h"

#include "supervisor/base/json_text.h"
#include "supervisor/call/keys/key_result.h"
#include "supervisor/call/request/notes.h"
#include "supervisor/call/result/observation.h"
#include "supervisor/call/result/shown.h"
#include "tests/lib/unit.h"

#include <event2/buffer.h>

static void check(struct evbuffer *buffer, const char *expected)
{
	size_t len = evbuffer_get_length(buffer);

	if (len != strlen(expected) ||
		(len > 0 && memcmp(evbuffer_pullup(buffer, -1), expected, len) != 0))
		fail_msg("expected %s\ngot      %.*s", expected, (int)len,
			(const char *)evbuffer_pullup(buffer, -1));
	evbuffer_free(buffer);
}

TEST(test_names)
{
	static const struct {
		const char *name, *text;
	} rows[] = {
		{"plain", "plain"},
		{"", ""},
		{"a b\xc3\xa9\xff", "a b\xc3\xa9\xff"},
		{"a\nb", "a\\nb"},
		{"\t", "\\t"},
		{"\x1b[1m\x7f", "\\x1b[1m\\x7f"},
		{"\r\n", "\\x0d\\n"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct evbuffer *out = evbuffer_new();

		assert_true(model_text_name(out, text_from(rows[i].name)));
		check(out, rows[i].text);
	}
}

TEST(test_entries)
{
	static const struct {
		struct files_entry entry;
		const char *text; /* with sizes */
	} rows[] = {
		{{.path = TEXT_LITERAL("f"), .type = FILES_TYPE_FILE}, "f\t0\n"},
		{{.path = TEXT_LITERAL("f"), .type = FILES_TYPE_FILE, .size = 1023}, "f\t1023\n"},
		{{.path = TEXT_LITERAL("f"), .type = FILES_TYPE_FILE, .size = 1024}, "f\t1.0K\n"},
		{{.path = TEXT_LITERAL("f"), .type = FILES_TYPE_FILE, .size = 10239}, "f\t9.9K\n"},
		{{.path = TEXT_LITERAL("f"), .type = FILES_TYPE_FILE, .size = 10240}, "f\t10K\n"},
		{{.path = TEXT_LITERAL("f"), .type = FILES_TYPE_FILE, .size = 5767168},
			"f\t5.5M\n"},
		{{.path = TEXT_LITERAL("f"), .type = FILES_TYPE_FILE, .size = UINT64_MAX},
			"f\t15E\n"},
		{{.path = TEXT_LITERAL("d\n"), .type = FILES_TYPE_DIRECTORY, .size = 9}, "d\\n/\n"},
		{{.path = TEXT_LITERAL("l"),
			 .type = FILES_TYPE_SYMLINK,
			 .target = TEXT_LITERAL("x\ny/\n")},
			"l -> x\\ny/\\n\n"},
		{{.path = TEXT_LITERAL("p"), .type = FILES_TYPE_FIFO}, "p (fifo)\n"},
		{{.path = TEXT_LITERAL("s"), .type = FILES_TYPE_SOCKET}, "s (socket)\n"},
		{{.path = TEXT_LITERAL("c"), .type = FILES_TYPE_CHARACTER_DEVICE},
			"c (character device)\n"},
		{{.path = TEXT_LITERAL("b"), .type = FILES_TYPE_BLOCK_DEVICE},
			"b (block device)\n"},
		{{.path = TEXT_LITERAL("u"), .type = FILES_TYPE_UNKNOWN}, "u\n"},
	};
	struct evbuffer *out = evbuffer_new();

	assert_true(model_text_entry(out, &rows[1].entry, false));
	check(out, "f\n");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		out = evbuffer_new();
		assert_true(model_text_entry(out, &rows[i].entry, true));
		check(out, rows[i].text);
	}
}

TEST(test_matches)
{
	static const struct {
		struct files_match match;
		const char *text;
	} rows[] = {
		{{TEXT_LITERAL("a"), 2, TEXT_LITERAL("line"), false, false}, "a:2:line\n"},
		{{TEXT_LITERAL("a\nb:1:x"), 2, TEXT_LITERAL("line"), true, false},
			"a\\nb:1:x:2:line […]\n"},
		{{TEXT_LITERAL("a"), UINT64_MAX, TEXT_LITERAL("line\r"), false, false},
			"a:18446744073709551615:line\n"},
		{{TEXT_LITERAL("a"), 1, TEXT_LITERAL(""), false, false}, "a:1:\n"},
		{{TEXT_LITERAL("a"), 3, TEXT_LITERAL("near"), false, true}, "a-3-near\n"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct evbuffer *out = evbuffer_new();

		assert_true(model_text_match(out, &rows[i].match));
		check(out, rows[i].text);
	}
}

/* Checks the string that a model is sent; @items is what came one by one. */
static void says(struct observation observation, const char *items, const char *expected)
{
	struct evbuffer *out = evbuffer_new(), *text = evbuffer_new();
	struct json_text json = json_text(out);
	static const struct tool_args args;

	evbuffer_add(text, items, strlen(items));
	observation.text = text;
	if (!observation.args)
		observation.args = &args;
	if (!observation.encoding)
		observation.encoding = "utf-8";
	model_text_write(&json, &observation);
	assert_int_equal(json_text_flush(&json), 0);
	evbuffer_free(text);
	check(out, expected);
}

static const struct shown shown = {.bytes = 1000, .line = 80};
static const struct shown numbered = {.bytes = 1000, .line = 80, .numbered = true, .images = true};

#define OF(tool_) .tool = TEXT_LITERAL(tool_), .shown = &shown

TEST(test_read_file)
{
	static const struct tool_args from_2 = {.start_line = 2},
				      to_5 = {.start_line = 2, .end_line = 5},
				      to_4 = {.start_line = 2, .end_line = 4},
				      to_99 = {.start_line = 2, .end_line = 99};
	static const struct files_end
		whole = {.path = TEXT_LITERAL("a\n"), .lines = 1, .total_lines = 1},
		empty = {.path = TEXT_LITERAL("a")},
		begun = {.path = TEXT_LITERAL("a"), .lines = 2},
		part = {.path = TEXT_LITERAL("a"), .lines = 2, .total_lines = 9},
		many = {.path = TEXT_LITERAL("a"), .lines = 1200, .total_lines = 1200};

	says((struct observation){OF("read_file"), .files = &whole}, "x\n",
		"\"a\\\\n (1 line)\\nx\\n\"");
	says((struct observation){OF("read_file"), .files = &empty}, "", "\"a (empty)\\n\"");
	says((struct observation){OF("read_file"), .files = &many}, "x", "\"a (1,200 lines)\\nx\"");
	says((struct observation){OF("read_file"), .files = &part, .args = &from_2}, "x\ny\n",
		"\"a (lines 2-3 of 9)\\nx\\ny\\n\"");
	says((struct observation){OF("read_file"), .files = &part, .encoding = "utf-8-replaced"},
		"x",
		"\"a (lines 1-2 of 9; bytes that are not UTF-8 are shown as \xef\xbf\xbd)\\nx\"");
	/* What is left out, and how to see it. */
	says((struct observation){OF("read_file"), .files = &part, .args = &from_2, .cut = true},
		"x\ny\n",
		"\"a (lines 2-3 of 9)\\nx\\ny\\n[Lines 4 to 9 are not shown; read_file with "
		"start_line=4 shows the next ones]\"");
	/* Nobody has counted them. */
	says((struct observation){OF("read_file"), .files = &begun, .args = &from_2, .cut = true},
		"x\ny\n",
		"\"a (lines 2-3)\\nx\\ny\\n[There are more lines; read_file with start_line=4 "
		"shows them]\"");
	says((struct observation){OF("read_file"), .files = &part, .args = &to_5, .cut = true}, "x",
		"\"a (lines 2-3 of 9)\\nx\\n[Lines 4 to 5 are not shown; read_file with "
		"start_line=4 shows the next ones]\"");
	says((struct observation){OF("read_file"), .files = &part, .args = &to_4, .cut = true}, "",
		"\"a (lines 2-3 of 9)\\n[Line 4 is not shown; read_file with start_line=4 shows "
		"it]\"");
	says((struct observation){OF("read_file"), .files = &part, .args = &to_99, .cut = true,
		     .lines_cut = true},
		"",
		"\"a (lines 2-3 of 9)\\n[Lines 4 to 9 are not shown; read_file with start_line=4 "
		"shows the next ones. Long lines are cut after 80 bytes; run_command with sed -n "
		"LINEp FILE | cut -c FROM-TO shows more of one]\"");
}

/* Of many lines the first one and every fifth keep their numbers. */
TEST(test_few_numbers)
{
	static const struct tool_args args = {.start_line = 3};
	static const struct files_end few = {.path = TEXT_LITERAL("a"),
					      .lines = 50,
					      .total_lines = 99},
				      many = {.path = TEXT_LITERAL("a"),
					      .lines = 51,
					      .total_lines = 99};
	const char *items = "3\tx\n4\t4\n5\tx\n6\ty\n";

	says((struct observation){.tool = TEXT_LITERAL("read_file"),
		     .shown = &numbered,
		     .files = &few,
		     .args = &args},
		items, "\"a (lines 3-52 of 99)\\n3\\tx\\n4\\t4\\n5\\tx\\n6\\ty\\n\"");
	says((struct observation){.tool = TEXT_LITERAL("read_file"),
		     .shown = &numbered,
		     .files = &many,
		     .args = &args},
		items,
		"\"a (lines 3-53 of 99; every fifth has its "
		"number)\\n3\\tx\\n\\t4\\n5\\tx\\n\\ty\\n\"");
}

TEST(test_binary_files)
{
	static const struct {
		const char *type, *hint;
	} rows[] = {
		{"application/zstd", "zstdcat FILE prints what it holds"},
		{"application/x-elf", "file, readelf -a, objdump -d or strings show parts of it"},
		{"video/mp4", "ffprobe FILE describes it"},
		{"image/png", "file FILE says its dimensions"},
		{"app\nlication", "file FILE and xxd FILE | head -n 20 tell more"},
	};
	struct files_end end = {.path = TEXT_LITERAL("a"), .binary = true, .size = 1};
	struct evbuffer *image = evbuffer_new();
	char expected[512];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		end.type = text_from(rows[i].type);
		snprintf(expected, sizeof(expected),
			"\"a (%s, 1 byte)\\n[Not text: with run_command, %s]\"",
			i == 4 ? "app\\\\nlication" : rows[i].type, rows[i].hint);
		says((struct observation){OF("read_file"), .files = &end}, "", expected);
	}
	/* A model that could be shown it, and one that is. */
	end.type = TEXT_LITERAL("image/png");
	end.size = 2000000;
	says(
		(struct observation){
			.tool = TEXT_LITERAL("read_file"), .shown = &numbered, .files = &end},
		"",
		"\"a (image/png, 2,000,000 bytes)\\n[Not text: with run_command, file FILE says "
		"its dimensions; read_file shows an image of at most 1 MiB, so make a smaller copy "
		"of it]\"");
	says((struct observation){.tool = TEXT_LITERAL("read_file"),
		     .shown = &numbered,
		     .files = &end,
		     .image = image},
		"", "\"a (image/png, 2,000,000 bytes)\\n\"");
	evbuffer_free(image);
}

TEST(test_changes)
{
	struct files_end end = {.path = TEXT_LITERAL("a"), .size = 1, .count = 1};

	says((struct observation){OF("write_file"), .files = &end}, "",
		"\"a (1 byte written, replaced)\\n\"");
	end.size = 1000;
	end.created = true;
	says((struct observation){OF("write_file"), .files = &end}, "",
		"\"a (1,000 bytes written, a new file)\\n\"");
	says((struct observation){OF("edit_file"), .files = &end}, "@@\n",
		"\"a (1 replacement)\\n@@\\n\"");
	end.count = 2;
	says((struct observation){OF("edit_file"), .files = &end}, "", "\"a (2 replacements)\\n\"");
	says((struct observation){OF("apply_patch"), .files = &end}, "add x (+1 -0)\n",
		"\"All of the patch was done:\\nadd x (+1 -0)\\n\"");
}

TEST(test_lists)
{
	struct files_end end = {.path = TEXT_LITERAL("."), .count = 1};
	static const struct files_end found = {.count = 1, .files_searched = 1},
				      some = {.count = 2,
					      .files_searched = 1500,
					      .files_skipped = 3,
					      .truncated = true};

	says((struct observation){OF("list_directory"), .files = &end, .total = 1}, "x\n",
		"\". (1 entry)\\nx\\n\"");
	end.count = 2;
	end.truncated = true;
	says((struct observation){OF("list_directory"), .files = &end, .total = 1002}, "x\n",
		"\". (2 entries shown)\\nx\\n[1,000 more entries are not shown; list a directory "
		"below, or give a pattern]\"");
	says((struct observation){OF("list_directory"), .files = &end, .total = 2, .more = true},
		"x\n",
		"\". (2 entries shown)\\nx\\n[At least 1 more entries are not shown; list a "
		"directory below, or give a pattern]\"");
	says((struct observation){OF("search_files"), .files = &found, .total = 1}, "a:1:x\n",
		"\"1 match, 1 file searched\\na:1:x\\n\"");
	says((struct observation){OF("search_files"), .files = &some, .total = 7}, "a:1:x\n",
		"\"2 matches shown, 1,500 files searched, 3 skipped (binary, too large or "
		"unreadable)\\na:1:x\\n[5 more matches are not shown; narrow pattern, path or "
		"file_pattern]\"");
	says((struct observation){OF("search_files"), .files = &some, .total = 2}, "",
		"\"2 matches shown, 1,500 files searched, 3 skipped (binary, too large or "
		"unreadable)\\n[At least 1 more matches are not shown; narrow pattern, path or "
		"file_pattern]\"");
	/* A program that is shown all is told of nothing left out. */
	says((struct observation){.tool = TEXT_LITERAL("search_files"), .files = &some, .total = 7},
		"",
		"\"2 matches shown, 1,500 files searched, 3 skipped (binary, too large or "
		"unreadable)\\n\"");
}

TEST(test_failures_and_notes)
{
	struct notes notes = {0};
	static const struct files_end end = {
		.path = TEXT_LITERAL("a"), .lines = 1, .total_lines = 1};
	static const struct key_result model = {
		.json = TEXT_LITERAL("{}"), .model = TEXT_LITERAL("\"kept\"")};

	notes_add(&notes, "one\nline");
	notes_add(&notes, "two");
	says((struct observation){OF("read_file"), .files = &end, .notes = &notes}, "x",
		"\"a (1 line)\\nx\\n[one\\\\nline]\\n[two]\"");
	says((struct observation){OF("read_file"), .error = TOOL_BUSY,
		     .message = TEXT_LITERAL("later"), .retry_after_ms = 50, .notes = &notes},
		"", "\"BUSY: later (try again after 50 ms)\\n[one\\\\nline]\\n[two]\"");
	/* A tool that there is none of. */
	says((struct observation){OF("fly"), .error = TOOL_UNKNOWN_TOOL,
		     .message = TEXT_LITERAL("no")},
		"", "\"UNKNOWN_TOOL: no\\n\"");
	/* The result of an earlier call. */
	says((struct observation){OF("read_file"), .kept = &model, .notes = &notes}, "",
		"\"kept\"");
	notes_done(&notes);
}

/* Whoever writes a text asks first. */
TEST(test_what_has_a_text)
{
	static const struct key_result both = {.json = TEXT_LITERAL("{}"),
					       .model = TEXT_LITERAL("\"\"")},
				       json = {.json = TEXT_LITERAL("{}")};
	static const struct shown part = {.bytes = 4}, text = {.bytes = 4, .text = true};
	const struct {
		const struct shown *shown;
		const struct key_result *kept;
		enum tool_error error;
		bool base64, has;
	} rows[] = {
		{.shown = &text, .has = true},
		{.shown = &text, .error = TOOL_NOT_FOUND, .has = true},
		{.shown = &part, .base64 = true},
		{.shown = &part, .base64 = true, .error = TOOL_NOT_FOUND},
		{.has = false}, /* a program gets everything */
		{.base64 = true},
		/* Refused before anything was known of its reader. */
		{.error = TOOL_BUSY, .has = true},
		{.error = TOOL_BUSY, .base64 = true},
		{.kept = &both, .has = true},
		{.kept = &json},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct observation observation = {.shown = rows[i].shown,
			.kept = rows[i].kept,
			.error = rows[i].error,
			.base64 = rows[i].base64};

		assert_int_equal(model_text_exists(&observation), rows[i].has);
	}
}
