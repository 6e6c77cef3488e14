/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* The audit log's file: where a chain continues after an earlier cloisterd, logrotate(8) or another
 * program has changed the file. */
#include "supervisor/audit/audit_file.h"

#include "tests/lib/scratch_fixture.h"
#include "tests/lib/unit.h"

static char one[512], two[512]; /* the first two lines of a chain, with their newlines */
static struct audit_chain after_one, after_two;

static int make_lines(void **state)
{
	struct audit_chain none = audit_chain_new();

	(void)state;
	one[audit_chain_line(&none, text_from("\"a\":1"), one, &after_one)] = '\0';
	two[audit_chain_line(&after_one, text_from("\"a\":2"), two, &after_two)] = '\0';
	return 0;
}

GROUP_FIXTURE(make_lines, NULL)

/* Writes a file. In @contents '1' and '2' stand for the two lines, 'b' for line 2 without its
 * newline, and 'x' for line 2 with its last byte changed. Other characters stand for themselves. */
static void write_file(const char *name, const char *contents)
{
	char bytes[4096] = "";

	for (; *contents; contents++) {
		char *end = bytes + strlen(bytes);

		if (*contents == '1')
			strcpy(end, one);
		else if (*contents == '2')
			strcpy(end, two);
		else if (*contents == 'b')
			snprintf(end, 512, "%.*s", (int)strlen(two) - 1, two);
		else if (*contents == 'x')
			snprintf(end, 512, "%.*sX\n", (int)strlen(two) - 2, two);
		else
			snprintf(end, 2, "%c", *contents);
	}
	scratch_text(&scratch, name, bytes);
}

FIXTURE(scratch_set_up, scratch_tear_down)

TEST(test_where_a_chain_is_gone_on_from)
{
	static const struct {
		const char *name, *log, *former; /* NULL: there is none */
		uint64_t seq;
		size_t torn;
		bool in_line, new_chain, from_former;
	} rows[] = {
		{"nothing", NULL, NULL, 0, 0, false, true, false},
		{"an empty file", "", NULL, 0, 0, false, true, false},
		{"one line", "1", NULL, 1, 0, false, false, false},
		{"two lines", "12", NULL, 2, 0, false, false, false},
		{"without the last newline", "1b", NULL, 2, 0, true, false, false},
		{"a torn line", "1tor", NULL, 1, 3, true, false, false},
		{"a torn line that was ended", "1tor\n", NULL, 1, 3, false, false, false},
		{"two torn lines", "1tor\nn", NULL, 1, 5, true, false, false},
		{"a line that was changed", "1x", NULL, 1, 0, false, false, false},
		{"words", "words", NULL, 0, 5, true, true, false},
		{"a line of words", "words\n", NULL, 0, 5, false, true, false},
		{"after a rotation", "", "12", 2, 0, false, false, true},
		{"after a rotation, not there", NULL, "12", 2, 0, false, false, true},
		{"after a rotation, torn there", "", "1tor", 1, 3, false, false, true},
		{"after a rotation, words there", "", "words", 0, 0, false, true, false},
		{"words after a rotation", "words", "12", 0, 5, true, true, false},
		{"a line after a rotation", "1", "12", 1, 0, false, false, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct audit_file file;

		(void)unlinkat(scratch.fd, "log", 0);
		(void)unlinkat(scratch.fd, "log.1", 0);
		if (rows[i].log)
			write_file("log", rows[i].log);
		if (rows[i].former)
			write_file("log.1", rows[i].former);
		assert_int_equal(audit_file_open(scratch.fd, "log", &file), 0);
		if (file.last.seq != rows[i].seq || file.in_line != rows[i].in_line ||
			file.new_chain != rows[i].new_chain ||
			file.from_former != rows[i].from_former)
			fail_msg("%s: seq %d, in_line %d, new_chain %d, from_former %d",
				rows[i].name, (int)file.last.seq, file.in_line, file.new_chain,
				file.from_former);
		/* All bytes behind the last good line count as torn, however many. */
		if (rows[i].log && strcmp(rows[i].log, "1x") == 0)
			assert_int_equal(file.torn, strlen(two) - 1);
		else if (file.torn != rows[i].torn)
			fail_msg("%s: torn %zu", rows[i].name, file.torn);
		audit_file_close(&file);
		assert_int_equal(file.fd, -1);
	}
}

/* Of a large file only the end is read. */
TEST(test_a_large_file)
{
	size_t len = 2 * LIMIT_AUDIT_TAIL_BYTES;
	char *bytes = malloc(len + 512);
	struct audit_file file;

	assert_non_null(bytes);
	memset(bytes, '\n', len);
	strcpy(bytes + len, two);
	scratch_text(&scratch, "log", bytes);
	assert_int_equal(audit_file_open(scratch.fd, "log", &file), 0);
	assert_int_equal(file.last.seq, 2);
	assert_false(file.new_chain);
	audit_file_close(&file);
	free(bytes);
}

TEST(test_what_is_no_file_for_a_log)
{
	struct audit_file file = {.fd = -1}, other;

	assert_int_equal(mkdirat(scratch.fd, "directory", 0755), 0);
	assert_int_equal(mkfifoat(scratch.fd, "fifo", 0644), 0);
	write_file("log", "1");
	scratch_link(&scratch, "link", "log");
	assert_int_equal(audit_file_open(scratch.fd, "directory", &file), -EISDIR);
	assert_int_equal(audit_file_open(scratch.fd, "fifo", &file), -EINVAL);
	assert_int_equal(audit_file_open(scratch.fd, "link", &file), -ELOOP);
	assert_int_equal(audit_file_open(scratch.fd, "no/log", &file), -ENOENT);
	assert_int_equal(file.fd, -1);
	/* A file has only one writer. */
	assert_int_equal(audit_file_open(scratch.fd, "log", &file), 0);
	assert_int_equal(audit_file_open(scratch.fd, "log", &other), -EAGAIN);
	audit_file_close(&file);
	assert_int_equal(audit_file_open(scratch.fd, "log", &other), 0);
	audit_file_close(&other);
}

/* If the log is empty, the chain continues from the former file with the longest chain. */
TEST(test_which_former_file)
{
	static const struct {
		const char *rotated, *older, *newer; /* log.1, log.000000000001, log.SEQ */
		const char *newer_name;
		uint64_t seq;
	} rows[] = {
		{NULL, "1", NULL, NULL, 1}, {NULL, "1", "12", "log.000000000002", 2},
		{NULL, "12", "1", "log.1000000000000", 1}, /* by number, like verify */
		{"1", NULL, "12", "log.000000000002", 2}, {"12", "1", NULL, NULL, 2},
		{NULL, NULL, "12", "log.00000000002", 0}, /* eleven digits */
		{NULL, NULL, "12", "log.00000000000a", 0},
		{NULL, NULL, "12", "log-000000000002", 0},
		{NULL, NULL, "12", "log.99999999999999999999", 0}, /* does not fit in 64 bits */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct audit_file file;

		(void)unlinkat(scratch.fd, "log.1", 0);
		(void)unlinkat(scratch.fd, "log.000000000001", 0);
		if (rows[i].rotated)
			write_file("log.1", rows[i].rotated);
		if (rows[i].older)
			write_file("log.000000000001", rows[i].older);
		if (rows[i].newer)
			write_file(rows[i].newer_name, rows[i].newer);
		assert_int_equal(audit_file_open(scratch.fd, "log", &file), 0);
		if (file.last.seq != rows[i].seq || file.from_former != (rows[i].seq > 0))
			fail_msg("row %zu: seq %d, from_former %d", i, (int)file.last.seq,
				file.from_former);
		audit_file_close(&file);
		if (rows[i].newer)
			(void)unlinkat(scratch.fd, rows[i].newer_name, 0);
	}
}

/* A name of a former file that is not a regular file is ignored. */
TEST(test_what_is_no_former_file)
{
	struct audit_file file;

	write_file("elsewhere", "12");
	scratch_link(&scratch, "log.1", "elsewhere");
	assert_int_equal(audit_file_open(scratch.fd, "log", &file), 0);
	assert_true(file.new_chain);
	audit_file_close(&file);
	assert_int_equal(unlinkat(scratch.fd, "log.1", 0), 0);
	assert_int_equal(mkfifoat(scratch.fd, "log.1", 0644), 0);
	assert_int_equal(audit_file_open(scratch.fd, "log", &file), 0);
	assert_true(file.new_chain);
	audit_file_close(&file);
}

/* Opening again: what happened to the name, and which file is written afterwards. */
TEST(test_opening_again)
{
	static const struct {
		const char *name, *in_place;
		int result;
		bool moved, gone; /* the file was renamed; and the name is free */
		bool another, in_line;
	} rows[] = {
		{"nothing happened", NULL, 0, false, false, false, false},
		{"rotated", NULL, 0, true, true, true, false},
		{"rotated, and a new one made", "", 0, true, false, true, false},
		{"another chain in its place", "12", 0, true, false, true, false},
		{"torn words in its place", "words", 0, true, false, true, true},
		{"a line without its newline", "1b", 0, true, false, true, true},
		{"a directory in its place", NULL, -EISDIR, true, false, false, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct audit_file file;
		ino_t ino;
		int r, fd;

		(void)unlinkat(scratch.fd, "log", AT_REMOVEDIR);
		write_file("log", "12");
		assert_int_equal(audit_file_open(scratch.fd, "log", &file), 0);
		ino = file.ino;
		fd = file.fd;
		if (rows[i].moved)
			assert_int_equal(renameat(scratch.fd, "log", scratch.fd, "log.1"), 0);
		if (rows[i].in_place)
			write_file("log", rows[i].in_place);
		else if (rows[i].moved && !rows[i].gone)
			assert_int_equal(mkdirat(scratch.fd, "log", 0755), 0);
		r = audit_file_reopen(&file, scratch.fd, "log");
		if (r != rows[i].result || (file.ino != ino) != rows[i].another ||
			file.in_line != rows[i].in_line)
			fail_msg("%s: %d, another %d, in_line %d", rows[i].name, r, file.ino != ino,
				file.in_line);
		/* The chain continues in any case. After a failure the old file stays open. */
		assert_int_equal(file.last.seq, 2);
		if (!rows[i].another)
			assert_int_equal(file.fd, fd);
		audit_file_close(&file);
		(void)unlinkat(scratch.fd, "log", 0);
	}
}
