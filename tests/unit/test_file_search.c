/* links: cloister-files-core */
/* threads */
// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/rounds.h"
#include "tests/lib/scratch_fixture.h"
#include "worker/files/search/file_search.h"

#include "tests/lib/files_reply.h"
#include "tests/lib/unit.h"

static struct answer search(struct files_search request)
{
	struct root root = {
		.fd = scratch.fd, .proc_self_fd = -1, .visible = TEXT_LITERAL("/workspace")};
	struct answer answer = answer_new();

	if (request.path.len == 0)
		request.path = TEXT_LITERAL(".");
	file_search(&root, &request, answer.reply);
	answer_decode(&answer);
	return answer;
}

static void assert_finds(struct files_search request, const char *expected)
{
	answer_has(search(request), expected);
}

/* Checks what @pattern finds in a file "f" that holds @text. */
static void assert_scan(const char *pattern, const char *text, const char *expected)
{
	scratch_text(&scratch, "f", text);
	assert_finds((struct files_search){.pattern = text_from(pattern)}, expected);
}

FIXTURE(scratch_set_up, scratch_tear_down)

TEST(test_lines)
{
	assert_scan("o", "one\ntwo\nthree\nfoo o\n", "f:1:one\nf:2:two\nf:4:foo o\n");
	assert_scan("three", "one\ntwo\nthree", "f:3:three\n");
	assert_scan("^t.*e$", "one\ntwo\nthree\n", "f:3:three\n");
	assert_scan("$", "a\n\nb", "f:1:a\nf:2:\nf:3:b\n");
	assert_scan("^", "a\n", "f:1:a\n");
	assert_scan("x*", "a\n\n", "f:1:a\nf:2:\n");
	assert_scan("\\z", "a\n", "");
	assert_scan("a.b", "a\nb\n", "");
	assert_scan("", "", "");
	assert_scan("(?i)STRASSE|(a)(b)", "strasse\nab\n", "f:1:strasse\nf:2:ab\n");
	assert_scan("(?<=a\n)b", "a\nb\n", "f:2:b\n");
}

TEST(test_carriage_returns)
{
	assert_scan("two$", "one\r\ntwo\r\nthree\r\n", "f:2:two\n");
	assert_scan("^.*$", "one\r\n\r\n", "f:1:one\nf:2:\n");
	assert_scan("w", "two\r", "f:1:two\n");
	assert_scan("\\s$", "one\r\n\r\ntwo \r\n", "f:3:two \n");
	assert_scan("[^e]$", "one\r\ntwo\r\n\r\n", "f:2:two\n");
}

/* A line matches as if it were alone: lookaround ends at the line's ends. */
TEST(test_looks_around)
{
	assert_scan("foo(?!\\W)", "foo\nfoo \nfoox\nfoo", "f:1:foo\nf:3:foox\nf:4:foo\n");
	assert_scan("foo(?=\\s)", "foo\nfoo x\n", "f:2:foo x\n");
	assert_scan("(?<=\\s)foo", "x\nfoo\n foo\n", "f:3: foo\n");
	assert_scan("(?<!\\W)foo", "x\nfoo\n foo\n", "f:2:foo\n");
	assert_scan("(?=(?s:.*)b)a", "a\nab\nb\n", "f:2:ab\n");
	assert_scan("x\\s*+$", "x\ny\nx \n", "f:1:x\nf:3:x \n");
	assert_scan("(?>\\s*)$", "a\nb\n", "f:1:a\nf:2:b\n");
	/* A pattern that names a newline, or the file's ends, sees the whole file. */
	assert_scan("foo(?=\\nbar)", "foo\nfoo\nbar\n", "f:2:foo\n");
	assert_scan("foo(?!\\nbar)", "foo\nfoo\nbar\n", "f:1:foo\n");
	assert_scan("\\Afoo", "foo\nfoo\n", "f:1:foo\n");
	assert_scan("foo\\z", "foo\nfoo", "f:2:foo\n");
	/* Lookaround does not prevent a match over several lines. */
	assert_scan("a\\s+b(?!c)", "a\nbc\na\nbd\na bd\n", "f:3:a\nf:5:a bd\n");
}

/* A carriage return within a line does not end it. */
TEST(test_lone_carriage_returns)
{
	assert_scan("a.b", "a\rb\n", "f:1:a\rb\n");
	assert_scan("^b", "a\rb\nb\n", "f:2:b\n");
	assert_scan("a$", "a\rb\na\r\n", "f:2:a\n");
	assert_scan("b$", "a\rb\r\n", "f:1:a\rb\n");
	assert_scan("^.*$", "a\r\rb\r\n", "f:1:a\r\rb\n");
	assert_scan("[ab]\\s+[ab]", "a\rb\na\r\nb\n", "f:1:a\rb\nf:2:a\n");
	assert_scan("a(?=\\s)", "a\rb\na\r\n", "f:1:a\rb\n");
}

/* A match over several lines counts for its first line, unless one of its lines matches alone. */
TEST(test_several_lines)
{
	assert_scan("one\ntwo", "zero\none\ntwo\n", "f:2:one\n");
	assert_scan("one\n", "one\none", "f:1:one\n");
	assert_scan("f\\(\\s*x", "f(\n  x)\nf(x)\n", "f:1:f(\nf:3:f(x)\n");
	assert_scan("^\\s*end", "a\n\n\n  end\nend\n", "f:4:  end\nf:5:end\n");
	assert_scan("\\s+b", "a\n  b\n", "f:2:  b\n");
	assert_scan("a[^x]*", "a\na\nb\na\n", "f:1:a\nf:2:a\nf:4:a\n");
	assert_scan("(?s)a.*c", "a\nb\nc\nac\n", "f:4:ac\n");
	assert_scan("a\n\n", "a\n\nb\n\n\n", "f:1:a\n");
	assert_scan("\n\nb", "a\n\nb\n\n\n", "f:3:b\n");
	/* The newline does not belong to the line's text. */
	assert_scan("\\s+$", "a\n\nb \n\n \n", "f:3:b \nf:5: \n");
	assert_scan("^\\W*$", "a\n*\n\n*\nb\n\n", "f:2:*\nf:3:\nf:4:*\nf:6:\n");
	assert_scan("[^;]$", "a;\n\n\nb\n", "f:4:b\n");
	assert_scan("\n\n", "a\n\nb\n", "");
}

TEST(test_unicode)
{
	assert_scan("^.$", "\xc3\xa9\n\xe2\x82\xac\nab\n", "f:1:\xc3\xa9\nf:2:\xe2\x82\xac\n");
	assert_scan("(?i)\xc3\x89", "\xc3\xa9t\xc3\xa9\n", "f:1:\xc3\xa9t\xc3\xa9\n");
	/* Bytes that are not UTF-8 do not hide the text around them. */
	assert_scan("ab", "\xff\xfe ab\n\xc3\nab \x80\n", "f:1:\xff\xfe ab\nf:3:ab \x80\n");
	assert_scan("^a",
		"\xef\xbb\xbf"
		"a\n",
		"f:1:a\n");
}

TEST(test_tree)
{
	struct answer answer;

	scratch_text(&scratch, ".gitignore", "*.o\nbuild/\n");
	scratch_text(&scratch, "a.c", "needle\n");
	scratch_text(&scratch, "a.o", "needle\n");
	scratch_text(&scratch, "build/x.c", "needle\n");
	scratch_text(&scratch, "src/b.c", "\nneedle\n");
	scratch_text(&scratch, "src/b.h", "needle\n");
	scratch_text(&scratch, "src/empty", "");
	scratch_text(&scratch, ".git/config", "needle\n");
	scratch_text(&scratch, ".cloister-0000000000000012", "needle\n");
	scratch_link(&scratch, "link", "a.c");
	scratch_link(&scratch, "src/loop", "..");
	assert_int_equal(mkfifoat(scratch.fd, "src/pipe", 0666), 0);
	assert_finds((struct files_search){.pattern = TEXT_LITERAL("needle"), .gitignore = true},
		"a.c:1:needle\nsrc/b.c:2:needle\nsrc/b.h:1:needle\n");
	assert_finds((struct files_search){.pattern = TEXT_LITERAL("needle"),
			     .file_pattern = TEXT_LITERAL("*.c")},
		"a.c:1:needle\nbuild/x.c:1:needle\nsrc/b.c:2:needle\n");
	assert_finds((struct files_search){.pattern = TEXT_LITERAL("needle"),
			     .path = TEXT_LITERAL("src"),
			     .file_pattern = TEXT_LITERAL("./*.h")},
		"src/b.h:1:needle\n");
	/* A path that is a file is always searched, and a path that is a link is followed. */
	assert_finds((struct files_search){.pattern = TEXT_LITERAL("needle"),
			     .path = TEXT_LITERAL("a.o"),
			     .file_pattern = TEXT_LITERAL("*.c"),
			     .gitignore = true},
		"a.o:1:needle\n");
	answer = search(
		(struct files_search){.pattern = TEXT_LITERAL("nothing"), .gitignore = true});
	assert_int_equal(answer.end.files_searched, 5);
	assert_int_equal(answer.end.files_skipped, 0);
	answer_done(&answer);
}

/* Makes a file of newlines, then a hole, and "end" where it is @size bytes long. */
static void put_sparse(const char *name, const char *lines, size_t size)
{
	int fd;

	scratch_write(&scratch, name, lines, LIMIT_BINARY_PROBE_BYTES);
	fd = openat(scratch.fd, name, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "\nend", 4, (off_t)size - 4), 4);
	close(fd);
}

TEST(test_skipped)
{
	char lines[LIMIT_BINARY_PROBE_BYTES + 10];
	struct answer answer;

	memset(lines, '\n', sizeof(lines));
	put_sparse("above", lines, LIMIT_SEARCH_FILE_BYTES + 1);
	scratch_write(&scratch, "binary", "end\0", 4);
	put_sparse("limit", lines, rounds(MIB, LIMIT_SEARCH_FILE_BYTES));
	/* A NUL behind the probed part does not make a file binary. */
	memcpy(lines, "end", 3);
	lines[LIMIT_BINARY_PROBE_BYTES - 1] = '\0';
	scratch_write(&scratch, "nul-in", lines, sizeof(lines));
	lines[LIMIT_BINARY_PROBE_BYTES - 1] = '\n';
	lines[LIMIT_BINARY_PROBE_BYTES] = '\0';
	scratch_write(&scratch, "nul-out", lines, sizeof(lines));
	answer = search((struct files_search){.pattern = TEXT_LITERAL("end")});
	assert_int_equal(answer.end.error, TOOL_OK);
	assert_string_equal(answer.lines, "limit:8194:end\nnul-out:1:end\n");
	assert_int_equal(answer.end.files_searched, 2);
	assert_int_equal(answer.end.files_skipped, 3);
	answer_done(&answer);
}

/* A file that is read in parts, and the patterns of each engine: the first is looked for as a
 * literal, the others by an automaton, which is made because "before" is long. */
#define PART        ((size_t)256 * 1024) /* search_batch.c */
#define LARGE_BYTES (3 * PART + 1000)

static const char *const large_patterns[] = {"needle", "(needle|noodle)", "^(needle|noodle)$"};

/* Writes the file "f" of lines of dots with @text, a line or more, at offset @at. */
static void write_large(const char *text, size_t at)
{
	char *bytes = malloc(LARGE_BYTES);

	memset(bytes, '.', LARGE_BYTES);
	for (size_t i = 63; i < LARGE_BYTES; i += 64)
		bytes[i] = '\n';
	if (at > 0)
		bytes[at - 1] = '\n';
	memcpy(bytes + at, text, strlen(text));
	if (at + strlen(text) < LARGE_BYTES)
		bytes[at + strlen(text)] = '\n';
	scratch_write(&scratch, "f", bytes, LARGE_BYTES);
	free(bytes);
}

static void write_before(void)
{
	char *bytes = malloc(6 * PART);

	memset(bytes, '\n', 6 * PART);
	scratch_write(&scratch, "before", bytes, 6 * PART);
	free(bytes);
}

static void assert_found_in_large(size_t pattern, bool found)
{
	struct answer answer =
		search((struct files_search){.pattern = text_from(large_patterns[pattern])});

	assert_int_equal(answer.end.error, TOOL_OK);
	assert_int_equal(answer.end.files_searched, 2);
	assert_int_equal(answer.end.count, found ? 1 : 0);
	answer_done(&answer);
}

TEST(test_large)
{
	const size_t places[] = {1, PART - 7, PART - 6, PART - 5, PART - 1, PART, PART + 1,
		2 * PART - 12, 2 * PART - 3, 3 * PART - 2, LARGE_BYTES - 6};

	write_before();
	for (size_t i = 0; i < ARRAY_SIZE(large_patterns); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(places); j += rounds(i == 0 ? 1 : 3, 1)) {
			write_large("needle", places[j]);
			assert_found_in_large(i, true);
			write_large("nee\nle", places[j]);
			assert_found_in_large(i, false);
		}
		/* Marks and ends of lines that only the whole file shows. */
		write_large("\xef\xbb\xbfneedle", 0);
		assert_found_in_large(i, true);
		write_large("needle\r", 2 * PART + 5);
		assert_found_in_large(i, true);
	}
}

/* The line of a match is numbered and shown whole wherever a part ends. */
TEST(test_line_in_large)
{
	char *line = malloc(LARGE_BYTES);
	struct answer answer;

	write_before();
	for (size_t i = 0; i < 2; i++) {
		write_large("the needle in it", 2 * PART - 8);
		answer_has(search((struct files_search){.pattern = text_from(large_patterns[i])}),
			"f:8193:the needle in it\n");
		/* One line alone is longer than a part. */
		memset(line, '.', LARGE_BYTES);
		memcpy(line + LARGE_BYTES - 10, "needle", 6);
		scratch_write(&scratch, "f", line, LARGE_BYTES);
		answer = search((struct files_search){.pattern = text_from(large_patterns[i])});
		assert_int_equal(answer.end.count, 1);
		answer_done(&answer);
	}
	free(line);
}

/* Several lines, of which one is in each part, match together. */
TEST(test_lines_in_large)
{
	write_before();
	write_large("the\nneedle", PART - 4);
	assert_finds((struct files_search){.pattern = TEXT_LITERAL("the\nneedle")}, "f:4097:the\n");
	assert_finds((struct files_search){.pattern = TEXT_LITERAL("[t]he\\s(needle|noodle)")},
		"f:4097:the\n");
}

TEST(test_unreadable)
{
	struct answer answer;

	scratch_text(&scratch, "closed/x", "end");
	scratch_text(&scratch, "secret", "end");
	scratch_text(&scratch, "a/closed/x", "end");
	scratch_text(&scratch, "a/b/c/x", "none");
	assert_int_equal(fchmodat(scratch.fd, "closed", 0, 0), 0);
	assert_int_equal(fchmodat(scratch.fd, "a/closed", 0, 0), 0);
	assert_int_equal(fchmodat(scratch.fd, "secret", 0, 0), 0);
	if (faccessat(scratch.fd, "secret", R_OK, 0) == 0) {
		print_message("skipped: this user may read everything\n");
		assert_int_equal(fchmodat(scratch.fd, "closed", 0777, 0), 0);
		assert_int_equal(fchmodat(scratch.fd, "a/closed", 0777, 0), 0);
		skip();
	}
	answer = search((struct files_search){.pattern = TEXT_LITERAL("end")});
	assert_int_equal(answer.end.error, TOOL_OK);
	assert_int_equal(answer.end.files_searched, 1);
	assert_int_equal(answer.end.files_skipped, 3); /* near or not, each once */
	answer_done(&answer);
	assert_int_equal(fchmodat(scratch.fd, "a/closed", 0777, 0), 0);
	assert_int_equal(fchmodat(scratch.fd, "closed", 0777, 0), 0);
}

TEST(test_cap)
{
	struct files_search request = {.pattern = TEXT_LITERAL("x"), .max_results = 3};
	struct answer answer;

	scratch_text(&scratch, "a", "x\nx\n");
	scratch_text(&scratch, "b", "x\n");
	answer = search(request);
	assert_int_equal(answer.end.count, 3);
	assert_false(answer.end.truncated);
	answer_done(&answer);
	scratch_text(&scratch, "c", "x\n");
	answer = search(request);
	assert_string_equal(answer.lines, "a:1:x\na:2:x\nb:1:x\n");
	assert_true(answer.end.truncated);
	answer_done(&answer);
	for (char name[] = "d"; *name <= 'z'; ++*name)
		scratch_text(&scratch, name, "x\nx\nx\n");
	request.max_results = 0;
	answer = search(request);
	assert_int_equal(answer.end.count, LIMIT_SEARCH_RESULTS);
	assert_true(answer.end.truncated);
	answer_done(&answer);
	request.max_results = UINT32_MAX;
	answer = search(request);
	assert_int_equal(answer.end.count, 73);
	assert_false(answer.end.truncated);
	answer_done(&answer);
}

/* Of too many matches those near the searched directory are told, in order of names. */
TEST(test_near_first)
{
	struct files_search request = {.pattern = TEXT_LITERAL("x"), .max_results = 4};
	struct answer answer;

	scratch_text(&scratch, "a/b/c/far", "x\n");
	scratch_text(&scratch, "a/b/far", "x\n");
	scratch_text(&scratch, "a/b.c", "x\n");
	scratch_text(&scratch, "a/z", "x\nx\n");
	scratch_text(&scratch, "a.b", "x\n");
	scratch_text(&scratch, "z/z/z", "x\n");
	answer = search(request);
	assert_string_equal(answer.lines, "a/b.c:1:x\na/z:1:x\na/z:2:x\na.b:1:x\n");
	assert_true(answer.end.truncated);
	assert_int_equal(answer.end.count, 4);
	assert_int_equal(answer.end.files_searched, 4);
	answer_done(&answer);
	request.max_results = 6;
	answer = search(request);
	assert_string_equal(answer.lines, "a/b/c/far:1:x\na/b/far:1:x\na/b.c:1:x\na/z:1:x\n"
					  "a/z:2:x\na.b:1:x\n");
	assert_true(answer.end.truncated);
	answer_done(&answer);
	request.max_results = 7;
	answer = search(request);
	assert_string_equal(answer.lines, "a/b/c/far:1:x\na/b/far:1:x\na/b.c:1:x\na/z:1:x\n"
					  "a/z:2:x\na.b:1:x\nz/z/z:1:x\n");
	assert_false(answer.end.truncated);
	assert_int_equal(answer.end.files_searched, 6);
	answer_done(&answer);
	/* The directory that is searched is what they are near to. */
	request.path = TEXT_LITERAL("a/b");
	request.max_results = 1;
	answer = search(request);
	assert_string_equal(answer.lines, "a/b/c/far:1:x\n");
	answer_done(&answer);
}

/* Searches a line of 3n bytes of "é, x" with "needle" at byte @at. The shown part must hold the
 * needle and whole characters. */
static void check_cut(size_t at)
{
	const size_t len = 9000;
	char *line = malloc(len + 1);
	struct answer answer;
	char *shown;
	size_t shown_len;

	for (size_t i = 0; i < len; i++)
		line[i] = "\xc3\xa9x"[i % 3];
	line[len] = '\0';
	memcpy(line + at, "needle", 6);
	scratch_text(&scratch, "f", line);
	answer = search((struct files_search){.pattern = TEXT_LITERAL("needle")});
	assert_int_equal(answer.end.count, 1);
	shown = answer.lines + strlen("f:1:");
	shown_len = strlen(shown) - strlen(" (cut)\n");
	assert_string_equal(shown + shown_len, " (cut)\n");
	assert_true(shown_len <= LIMIT_SEARCH_LINE_BYTES);
	assert_true(shown_len > LIMIT_SEARCH_LINE_BYTES - 4);
	assert_non_null(memmem(shown, shown_len, "needle", 6));
	assert_int_not_equal((unsigned char)shown[0] & 0xc0, 0x80);
	assert_int_not_equal((unsigned char)shown[shown_len - 1], 0xc3);
	answer_done(&answer);
	free(line);
}

TEST(test_cut)
{
	char whole[LIMIT_SEARCH_LINE_BYTES + 2], expected[LIMIT_SEARCH_LINE_BYTES + 16];
	struct answer answer;

	check_cut(0);
	check_cut(3000);
	check_cut(4500);
	check_cut(8994);
	memset(whole, 'x', LIMIT_SEARCH_LINE_BYTES + 1);
	whole[LIMIT_SEARCH_LINE_BYTES] = '\0';
	snprintf(expected, sizeof(expected), "f:1:%s\n", whole);
	assert_scan("x+", whole, expected);
	/* Of a match longer than the limit, the beginning is shown. */
	whole[LIMIT_SEARCH_LINE_BYTES] = 'x';
	whole[LIMIT_SEARCH_LINE_BYTES + 1] = '\0';
	scratch_text(&scratch, "f", whole);
	answer = search((struct files_search){.pattern = TEXT_LITERAL("x+")});
	assert_int_equal(strlen(answer.lines), strlen("f:1: (cut)\n") + LIMIT_SEARCH_LINE_BYTES);
	answer_done(&answer);
}

static void assert_refused(struct files_search request, enum tool_error error, const char *message)
{
	struct answer answer = search(request);

	assert_int_equal(answer.end.error, error);
	if (message) {
		_cleanup_free_ char *said =
			strndup(answer.end.message.data, answer.end.message.len);

		assert_string_equal(said, message);
	}
	answer_done(&answer);
}

TEST(test_refused)
{
	assert_int_equal(mkfifoat(scratch.fd, "pipe", 0666), 0);
	assert_refused((struct files_search){.pattern = TEXT_LITERAL("a(b")}, TOOL_INVALID_PATTERN,
		"The pattern is not valid at offset 3: missing closing parenthesis; correct it "
		"there");
	assert_refused(
		(struct files_search){.pattern = TEXT_LITERAL("\xff")}, TOOL_INVALID_PATTERN, NULL);
	assert_refused((struct files_search){.pattern = TEXT_LITERAL("a\\Cb")},
		TOOL_INVALID_PATTERN, NULL);
	assert_refused((struct files_search){.pattern = TEXT_LITERAL("a"),
			       .file_pattern = TEXT_LITERAL("*.{c,h")},
		TOOL_INVALID_PATTERN,
		"file_pattern: The pattern is not valid; write a backslash before characters that "
		"stand for themselves");
	assert_refused(
		(struct files_search){.pattern = TEXT_LITERAL("a"), .path = TEXT_LITERAL("x")},
		TOOL_NOT_FOUND, NULL);
	assert_refused(
		(struct files_search){.pattern = TEXT_LITERAL("a"), .path = TEXT_LITERAL("pipe")},
		TOOL_NOT_A_REGULAR_FILE, NULL);
	assert_refused(
		(struct files_search){.pattern = TEXT_LITERAL("a"), .path = TEXT_LITERAL("..")},
		TOOL_PATH_OUTSIDE_WORKSPACE, NULL);
}

/* Reaching a limit is an error, unless an automaton can scan all lines instead. */
TEST(test_too_complex)
{
	char text[4096];

	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 2] = '!';
	text[sizeof(text) - 1] = '\0';
	scratch_text(&scratch, "f", text);
	assert_finds((struct files_search){.pattern = TEXT_LITERAL("(a+)+$")}, "");
	assert_refused((struct files_search){.pattern = TEXT_LITERAL("(?!b)(a+)+$")},
		TOOL_PATTERN_TOO_COMPLEX, NULL);
	assert_finds((struct files_search){.pattern = TEXT_LITERAL("(a+\\s?)+b")}, "");
	assert_refused((struct files_search){.pattern = TEXT_LITERAL("(*NO_JIT)(a+)+$")},
		TOOL_PATTERN_TOO_COMPLEX, NULL);
	assert_refused((struct files_search){.pattern = TEXT_LITERAL(
						     "(*LIMIT_HEAP=0)(*NO_JIT)(?:(a)|b)*$")},
		TOOL_PATTERN_TOO_COMPLEX, NULL);
	/* The automaton's result is enough within a line, and the text is cut around the line's
	 * start. A pattern that may match over several lines has no such alternative, unless the
	 * automaton finds nothing at all. */
	memset(text, 'a', 30);
	memcpy(text + 30, "!a\n", 4);
	scratch_text(&scratch, "f", text);
	assert_finds((struct files_search){.pattern = TEXT_LITERAL("(a+)+$")},
		"f:1:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!a\n");
	assert_refused((struct files_search){.pattern = TEXT_LITERAL("(a+)+\\s?$")},
		TOOL_PATTERN_TOO_COMPLEX, NULL);
	assert_refused((struct files_search){.pattern = TEXT_LITERAL("(?=a)(a+)+$")},
		TOOL_PATTERN_TOO_COMPLEX, NULL);
	/* A line that the automaton and PCRE2 read differently has no alternative either. */
	memcpy(text + 30, "!\ra\n", 5);
	scratch_text(&scratch, "f", text);
	assert_refused((struct files_search){.pattern = TEXT_LITERAL("(a+)+$")},
		TOOL_PATTERN_TOO_COMPLEX, NULL);
}

/* The same results without JIT, as where executable memory is denied. */
TEST(test_interpreted)
{
	assert_scan("(*NO_JIT)^\\s*end", "a\n\n\n  end\n\xff end\nend\n", "f:4:  end\nf:6:end\n");
}
