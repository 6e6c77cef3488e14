/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
#include "worker/files/file_read.h"

#include "tests/lib/files_fixture.h"
#include "tests/lib/rounds.h"
#include "tests/lib/unit.h"

#define CALL 42

static void run(
	const struct fixture *fixture, const struct files_read *request, struct answer *answer)
{
	answer_begin(answer, CALL);
	file_read(&fixture->root, request, answer->reply);
	answer_parse(answer, CALL);
}

struct range_case {
	const char *content;
	uint64_t start, end;
	bool numbered;
	enum tool_error error;
	const char *expected; /* content, or sentence if it failed */
	uint64_t lines, total_lines;
};

static const struct range_case cases[] = {
	{"a\nb\nc\n", 0, 0, false, TOOL_OK, "a\nb\nc\n", 3, 3},
	{"a\nb\nc", 0, 0, false, TOOL_OK, "a\nb\nc", 3, 3},
	{"a\nb\nc\n", 0, 0, true, TOOL_OK, "     1\ta\n     2\tb\n     3\tc\n", 3, 3},
	{"a\nb", 0, 0, true, TOOL_OK, "     1\ta\n     2\tb", 2, 2},
	{"a\nb\nc\n", 2, 2, true, TOOL_OK, "     2\tb\n", 1, 3},
	{"a\nb\nc\n", 2, 0, false, TOOL_OK, "b\nc\n", 2, 3},
	{"a\nb\nc\n", 0, 2, false, TOOL_OK, "a\nb\n", 2, 3},
	{"a\nb\nc", 3, 3, false, TOOL_OK, "c", 1, 3},
	{"a\nb\nc\n", 3, 99, false, TOOL_OK, "c\n", 1, 3},
	{"a\nb\nc\n", 1, UINT64_MAX, false, TOOL_OK, "a\nb\nc\n", 3, 3},
	{"a\nb\nc\n", 4, 0, false, TOOL_INVALID_ARGUMENTS,
		"start_line 4 is past the end; give a smaller one, the file has 3 lines", 0, 0},
	{"a", UINT64_MAX, UINT64_MAX, false, TOOL_INVALID_ARGUMENTS,
		"start_line 18446744073709551615 is greater than end_line 18446744073709551615", 0,
		0},
	{"a", 2, 0, false, TOOL_INVALID_ARGUMENTS,
		"start_line 2 is past the end; give a smaller one, the file has 1 line", 0, 0},
	{"a\n", 3, 2, false, TOOL_INVALID_ARGUMENTS, "start_line 3 is greater than end_line 2", 0,
		0},
	{"", 0, 0, true, TOOL_OK, "", 0, 0},
	{"", 1, 100, true, TOOL_OK, "", 0, 0},
	{"", 2, 0, false, TOOL_INVALID_ARGUMENTS,
		"start_line 2 is past the end; give a smaller one, the file has 0 lines", 0, 0},
	{"\n", 0, 0, true, TOOL_OK, "     1\t\n", 1, 1},
	{"\n\n\n", 2, 3, true, TOOL_OK, "     2\t\n     3\t\n", 2, 3},
	{"a\r\nb\r\n", 0, 0, false, TOOL_OK, "a\r\nb\r\n", 2, 2},
	{"a\r\nb\r\n", 2, 2, true, TOOL_OK, "     2\tb\r\n", 1, 2},
	{"\xff\xfe latin\n", 0, 0, false, TOOL_OK, "\xff\xfe latin\n", 1, 1},
};

GROUP_FIXTURE(fixture_leave_root, NULL)

FIXTURE(fixture_setup, fixture_teardown)

TEST(test_ranges)
{
	const struct fixture *fixture = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct range_case *expected = &cases[i];
		const struct files_read request = {TEXT_LITERAL("./f"), expected->start,
			expected->end, expected->numbered, false, false, false};
		struct answer answer;

		put_file(fixture->ws, "f", expected->content);
		run(fixture, &request, &answer);
		assert_error(&answer, expected->error);
		if (expected->error != TOOL_OK) {
			assert_text(answer.end.message, expected->expected);
		} else {
			assert_string_equal(answer.data, expected->expected);
			assert_text(answer.end.path, "f");
			assert_int_equal(answer.end.size, strlen(expected->content));
			assert_int_equal(answer.end.lines, expected->lines);
			assert_int_equal(answer.end.total_lines, expected->total_lines);
			assert_false(answer.end.binary || answer.end.truncated);
		}
		answer_done(&answer);
	}
}

struct type_case {
	struct text content;
	const char *type;
};

TEST(test_binary)
{
	static const struct type_case types[] = {
		{TEXT_LITERAL("\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), "image/png"},
		{TEXT_LITERAL("\xff\xd8\xff\xe0\0\x10JFIF"), "image/jpeg"},
		{TEXT_LITERAL("\x7f"
			      "ELF\2\1\1\0"),
			"application/x-elf"},
		{TEXT_LITERAL("SQLite format 3\0"), "application/vnd.sqlite3"},
		{TEXT_LITERAL("PK\3\4\n\0"), "application/zip"},
		{TEXT_LITERAL("RIFF\1\0\0\0WEBP"), "image/webp"},
		{TEXT_LITERAL("text\0text"), "application/octet-stream"},
		{TEXT_LITERAL("\0"), "application/octet-stream"},
	};
	const struct fixture *fixture = *state;

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct files_read request = {TEXT_LITERAL("b"), 0, 0, true, false, false, false};
		_cleanup_close_ int fd =
			openat(fixture->ws, "b", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		struct text content = types[i].content;
		struct answer answer;

		assert_int_equal(write(fd, content.data, content.len), content.len);
		run(fixture, &request, &answer);
		assert_error(&answer, TOOL_OK);
		assert_true(answer.end.binary);
		assert_text(answer.end.type, types[i].type);
		assert_int_equal(answer.end.size, content.len);
		assert_int_equal(answer.data_len, 0);
		answer_done(&answer);

		request.raw = true;
		run(fixture, &request, &answer);
		assert_error(&answer, TOOL_OK);
		assert_false(answer.end.binary);
		assert_int_equal(answer.data_len, content.len);
		assert_memory_equal(answer.data, content.data, content.len);
		answer_done(&answer);
	}
}

/* The bytes of a small image are sent to a reader that asked for them. */
TEST(test_images)
{
	static const struct {
		size_t size;
		bool images, by_type, sent;
	} cases_of_images[] = {
		{100, true, true, true},
		{100, true, false, true},
		{100, false, true, false},
		{200000, true, true, true},
		{LIMIT_IMAGE_BYTES, true, true, true},
		{LIMIT_IMAGE_BYTES + 1, true, true, false},
	};
	static char content[LIMIT_IMAGE_BYTES + 1] = "\x89PNG\r\n\x1a\n";
	const struct fixture *fixture = *state;

	for (size_t at = 8; at < sizeof(content); at++)
		content[at] = (char)(at * 7 >> 8);
	for (size_t i = 0; i < ARRAY_SIZE(cases_of_images); i++) {
		const size_t size = cases_of_images[i].size;
		_cleanup_close_ int fd =
			openat(fixture->ws, "b", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		struct answer answer;

		assert_int_equal(write(fd, content, size), size);
		run(fixture,
			&(struct files_read){.path = TEXT_LITERAL("b"),
				.start_line = 2,
				.numbered = true,
				.images = cases_of_images[i].images,
				.by_type = cases_of_images[i].by_type},
			&answer);
		assert_error(&answer, TOOL_OK);
		assert_true(answer.end.binary);
		assert_text(answer.end.type, "image/png");
		assert_int_equal(answer.end.size, size);
		assert_int_equal(answer.data_frames, 0);
		assert_int_equal(answer.data_len, cases_of_images[i].sent ? size : 0);
		assert_memory_equal(answer.data, content, answer.data_len);
		answer_done(&answer);
	}
}

/* Formats that may come without a NUL are text unless the reader wants to be told of them. */
TEST(test_binary_by_type)
{
	static const struct {
		const char *content, *type;
	} files[] = {{"%PDF-1.4\n", "application/pdf"}, {"GIF89a\1\1", "image/gif"},
		{"ID3 is text", NULL}};
	const struct fixture *fixture = *state;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		for (unsigned by_type = 0; by_type < 2; by_type++) {
			struct answer answer;

			put_file(fixture->ws, "b", files[i].content);
			run(fixture,
				&(struct files_read){.path = TEXT_LITERAL("b"), .by_type = by_type},
				&answer);
			assert_error(&answer, TOOL_OK);
			assert_int_equal(answer.end.binary, by_type && files[i].type);
			if (answer.end.binary)
				assert_text(answer.end.type, files[i].type);
			answer_done(&answer);
		}
}

/* A NUL behind the probed part does not make a file binary. */
TEST(test_late_nul)
{
	const struct fixture *fixture = *state;
	static char content[LIMIT_BINARY_PROBE_BYTES + 1];
	_cleanup_close_ int fd = openat(fixture->ws, "b", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct answer answer;

	for (int shift = 0; shift <= 1; shift++) {
		memset(content, 'x', sizeof(content));
		content[LIMIT_BINARY_PROBE_BYTES - shift] = '\0';
		assert_int_equal(pwrite(fd, content, sizeof(content), 0), sizeof(content));
		run(fixture, &(struct files_read){.path = TEXT_LITERAL("b")}, &answer);
		assert_error(&answer, TOOL_OK);
		assert_int_equal(answer.end.binary, shift);
		answer_done(&answer);
	}
}

/* Writes @count lines "0000001\n" and so on, eight bytes each. */
static void put_lines(const struct fixture *fixture, const char *name, uint64_t count)
{
	FILE *file;
	int fd = openat(fixture->ws, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	file = fdopen(fd, "w");
	assert_non_null(file);
	for (uint64_t i = 1; i <= count; i++)
		fprintf(file, "%07d\n", (int)i);
	assert_int_equal(fclose(file), 0);
}

TEST(test_largest)
{
	const struct fixture *fixture = *state;
	struct files_read request = {.path = TEXT_LITERAL("large")};
	const uint64_t fits = LIMIT_READ_BYTES / 8;
	struct answer answer;

	put_lines(fixture, "large", fits);
	run(fixture, &request, &answer);
	assert_error(&answer, TOOL_OK);
	assert_int_equal(answer.data_len, LIMIT_READ_BYTES);
	assert_int_equal(answer.end.lines, fits);
	assert_int_equal(answer.end.total_lines, fits);
	answer_done(&answer);

	request.numbered = true; /* line numbers do not count as content */
	run(fixture, &request, &answer);
	assert_error(&answer, TOOL_OK);
	assert_int_equal(answer.data_len, LIMIT_READ_BYTES + fits * 7);
	assert_string_equal(answer.data + answer.data_len - 15, "131072\t0131072\n");
	answer_done(&answer);

	put_lines(fixture, "large", fits + 1);
	run(fixture, &request, &answer);
	assert_error(&answer, TOOL_FILE_TOO_LARGE);
	assert_text(answer.end.message,
		"The file has 1048584 bytes and one answer holds 1048576; use start_line and "
		"end_line to read a smaller part of it");
	assert_int_equal(answer.data_len, 0);
	answer_done(&answer);
}

/* For a line that is too long by itself, the message does not advise a smaller range. */
TEST(test_a_line_that_is_too_long)
{
	static const uint64_t ranges[][2] = {{2, 2}, {2, 3}, {2, 0}};
	const struct fixture *fixture = *state;
	int fd = openat(fixture->ws, "long", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FILE *file = fdopen(fd, "w");
	struct answer answer;

	assert_non_null(file);
	fprintf(file, "a\n%0*d\nb\n", (int)LIMIT_READ_BYTES, 0);
	assert_int_equal(fclose(file), 0);
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
		struct files_read request = {.path = TEXT_LITERAL("long"),
			.start_line = ranges[i][0],
			.end_line = ranges[i][1],
			.numbered = i == 1};

		run(fixture, &request, &answer);
		assert_error(&answer, TOOL_FILE_TOO_LARGE);
		if (i == 0)
			assert_text(answer.end.message,
				"Line 2 is longer than the 1048576 bytes that one answer holds; "
				"read a part of it with run_command: sed -n 2p FILE | head -c "
				"65536");
		answer_done(&answer);
	}
}

/* Every range of a file that is larger than the buffer, with lines across the buffer's borders. */
TEST(test_large_ranges)
{
	static const uint64_t ranges[][2] = {{1, 1}, {8192, 8193}, {8193, 8193}, {65536, 131072},
		{299999, 300000}, {300000, 0}, {1, 131072}};
	const struct fixture *fixture = *state;
	struct answer answer;

	put_lines(fixture, "many", 300000);
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
		uint64_t start = ranges[i][0], end = ranges[i][1] ? ranges[i][1] : 300000;
		char first[16], last[16];

		run(fixture,
			&(struct files_read){TEXT_LITERAL("many"), start, ranges[i][1], false,
				false, false, false},
			&answer);
		assert_error(&answer, TOOL_OK);
		assert_int_equal(answer.data_len, (end - start + 1) * 8);
		snprintf(first, sizeof(first), "%07d\n", (int)start);
		snprintf(last, sizeof(last), "%07d\n", (int)end);
		assert_memory_equal(answer.data, first, 8);
		assert_string_equal(answer.data + answer.data_len - 8, last);
		assert_int_equal(answer.end.lines, end - start + 1);
		assert_int_equal(answer.end.total_lines, 300000);
		answer_done(&answer);
	}
	run(fixture,
		&(struct files_read){TEXT_LITERAL("many"), 2, 131074, true, false, false, false},
		&answer);
	assert_error(&answer, TOOL_FILE_TOO_LARGE);
	answer_done(&answer);
	run(fixture,
		&(struct files_read){TEXT_LITERAL("many"), 300001, 0, true, false, false, false},
		&answer);
	assert_error(&answer, TOOL_INVALID_ARGUMENTS);
	assert_text(answer.end.message,
		"start_line 300001 is past the end; give a smaller one, the file has 300000 lines");
	answer_done(&answer);
}

/* A number wider than its six columns. */
TEST(test_wide_numbers)
{
	const struct fixture *fixture = *state;
	struct answer answer;

	put_lines(fixture, "wide", 1000001);
	run(fixture,
		&(struct files_read){
			TEXT_LITERAL("wide"), 999999, 1000001, true, false, false, false},
		&answer);
	assert_error(&answer, TOOL_OK);
	assert_string_equal(answer.data, "999999\t0999999\n1000000\t1000000\n1000001\t1000001\n");
	answer_done(&answer);
}

TEST(test_long_line)
{
	const struct fixture *fixture = *state;
	const size_t len = 150000;
	_cleanup_free_ char *content = malloc(len + 3);
	struct answer answer;

	memset(content, 'x', len);
	strcpy(content + len, "\ny");
	put_file(fixture->ws, "long", content);
	run(fixture, &(struct files_read){TEXT_LITERAL("long"), 0, 0, true, false, false, false},
		&answer);
	assert_int_equal(answer.data_len, 7 + len + 1 + 7 + 1);
	assert_memory_equal(answer.data, "     1\txx", 9);
	assert_string_equal(answer.data + 7 + len, "\n     2\ty");
	answer_done(&answer);
}

/* One endless line, in a file larger than the memory used for it: it is not counted to its end. */
TEST(test_sparse)
{
	const struct fixture *fixture = *state;
	_cleanup_close_ int fd = openat(fixture->ws, "sparse", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	static char first[LIMIT_BINARY_PROBE_BYTES];
	struct answer answer;

	memset(first, 'x', sizeof(first));
	memcpy(first, "one\ntwo\n", 8);
	assert_int_equal(pwrite(fd, first, sizeof(first), 0), sizeof(first));
	assert_int_equal(ftruncate(fd, (off_t)(LIMIT_COUNT_BYTES + 1)), 0);
	run(fixture, &(struct files_read){TEXT_LITERAL("sparse"), 1, 2, false, false, false, false},
		&answer);
	assert_error(&answer, TOOL_OK);
	assert_string_equal(answer.data, "one\ntwo\n");
	assert_int_equal(answer.end.lines, 2);
	assert_int_equal(answer.end.total_lines, 0);
	assert_int_equal(answer.end.size, LIMIT_COUNT_BYTES + 1);
	answer_done(&answer);
	run(fixture, &(struct files_read){TEXT_LITERAL("sparse"), 2, 3, false, false, false, false},
		&answer);
	assert_error(&answer, TOOL_FILE_TOO_LARGE);
	answer_done(&answer);
}

/* Writes @count lines at @offset to both files; the second also gets zeros in place of holes. */
static void put_pieces(int sparse, int full, off_t offset, size_t count)
{
	static char lines[8 * 3000];

	for (size_t i = 0; i < count; i++)
		snprintf(lines + 8 * i, 9, "%07u\n", (unsigned)i % 10000);
	assert_int_equal(pwrite(sparse, lines, 8 * count, offset), 8 * count);
	assert_int_equal(pwrite(full, lines, 8 * count, offset), 8 * count);
}

static void assert_reads_alike(const struct fixture *fixture, uint64_t from, uint64_t to)
{
	struct files_read request = {TEXT_LITERAL("sparse"), from, to, false, false, false, false};
	struct answer sparse, full;

	run(fixture, &request, &sparse);
	request.path = TEXT_LITERAL("full");
	run(fixture, &request, &full);
	assert_error(&sparse, full.end.error);
	/* A part of the content may come before it is found to be too large. */
	if (full.end.error == TOOL_OK) {
		assert_true(sparse.data_len == full.data_len);
		assert_memory_equal(sparse.data, full.data, full.data_len);
	}
	assert_true(sparse.end.lines == full.end.lines);
	assert_true(sparse.end.total_lines == full.end.total_lines);
	assert_true(sparse.end.size == full.end.size);
	answer_done(&sparse);
	answer_done(&full);
}

/* Holes are not read, and count like zeros. */
TEST(test_holes)
{
	static const off_t places[] = {0, 65536, 200000, 524288 + 4096, 700000, 1500000};
	static char zeros[2 * MIB];
	const struct fixture *fixture = *state;
	_cleanup_close_ int sparse =
		openat(fixture->ws, "sparse", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	_cleanup_close_ int full = openat(fixture->ws, "full", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	const size_t step = rounds(13, 1);
	struct stat st;

	assert_int_equal(pwrite(full, zeros, sizeof(zeros), 0), sizeof(zeros));
	assert_int_equal(ftruncate(sparse, sizeof(zeros)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		put_pieces(sparse, full, places[i], i == 0 ? 2000 : 10 * i);
	assert_int_equal(fstat(sparse, &st), 0);
	if (st.st_blocks >= st.st_size / 512) {
		print_message("no holes on this file system\n");
		skip();
	}
	for (uint64_t from = 1; from < 2200; from += from < 1990 ? 199 : step)
		assert_reads_alike(fixture, from, from + from % 7);
	for (uint64_t from = 2001; from < 2160; from += 2 + step)
		assert_reads_alike(fixture, from, 0);
}

static void assert_read_fails(
	const struct fixture *fixture, const char *path, enum tool_error error)
{
	const struct files_read request = {.path = text_from(path)};
	struct answer answer;

	run(fixture, &request, &answer);
	assert_error(&answer, error);
	assert_true(answer.end.message.len > 0);
	assert_int_equal(answer.data_len, 0);
	answer_done(&answer);
}

TEST(test_failures)
{
	const struct fixture *fixture = *state;
	struct answer answer;

	assert_int_equal(mkfifoat(fixture->ws, "fifo", 0600), 0);
	assert_int_equal(mkdirat(fixture->ws, "dir", 0700), 0);
	put_link(fixture->ws, "out", fixture->base, "/outside/secret");
	put_link(fixture->ws, "passwd", "", "/etc/passwd");
	assert_read_fails(fixture, "fifo", TOOL_NOT_A_REGULAR_FILE);
	assert_read_fails(fixture, "dir", TOOL_IS_A_DIRECTORY);
	assert_read_fails(fixture, ".", TOOL_IS_A_DIRECTORY);
	assert_read_fails(fixture, "none", TOOL_NOT_FOUND);
	assert_read_fails(fixture, "out", TOOL_SYMLINK_OUTSIDE_WORKSPACE);
	assert_read_fails(fixture, "passwd", TOOL_SYMLINK_OUTSIDE_WORKSPACE);
	assert_read_fails(fixture, "", TOOL_INVALID_ARGUMENTS);
	run(fixture, &(struct files_read){.path = TEXT_LITERAL("../outside/secret")}, &answer);
	assert_error(&answer, TOOL_PATH_OUTSIDE_WORKSPACE);
	assert_text(answer.end.message, "Invalid path: access outside workspace is not allowed");
	answer_done(&answer);
}

/* A procfs file has content and the size 0. */
TEST(test_sizeless)
{
	struct fixture fixture = **(struct fixture **)state;
	_cleanup_close_ int proc = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct answer answer;

	fixture.root.fd = proc;
	run(&fixture, &(struct files_read){.path = TEXT_LITERAL("status")}, &answer);
	assert_error(&answer, TOOL_OK);
	assert_memory_equal(answer.data, "Name:", 5);
	assert_int_equal(answer.end.size, answer.data_len);
	assert_true(answer.end.total_lines > 10);
	answer_done(&answer);
}
