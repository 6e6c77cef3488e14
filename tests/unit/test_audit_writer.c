/* links: cloister-supervisor */
/* fakes: disk */
// SPDX-License-Identifier: Apache-2.0
/* The audit log's writer with a full disk, with rotations and with a full queue. Each state and
 * event of the table in audit_writer.c is tried, and the chain must stay valid. */
#include "supervisor/audit/audit_writer.h"

#include "supervisor/base/log.h"
#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/disk.h"

#include <sched.h>

static struct scratch scratch;
static struct audit_writer *writer;
static const struct audit_rotation rotation = {LIMIT_AUDIT_FILE_MIN_BYTES, 3};

static int set_up(void **state)
{
	(void)state;
	log_init(true);
	fake_disk_reset();
	scratch = scratch_new();
	assert_int_equal(audit_writer_new(dup(scratch.fd), "log", rotation, &writer), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fake_disk_reset();
	scratch_done(&scratch);
	return 0;
}

FIXTURE(set_up, tear_down)

static bool put(const char *members)
{
	return audit_writer_put(writer, text_from(members), 0);
}

static struct audit_writer_state look(void)
{
	struct audit_writer_state state;

	audit_writer_look(writer, &state);
	return state;
}

/* Waits until @holds is true of the writer's state. */
static void await(bool (*holds)(const struct audit_writer_state *state))
{
	struct audit_writer_state state;

	do {
		sched_yield();
		state = look();
	} while (!holds(&state));
}

static bool is_idle(const struct audit_writer_state *state)
{
	return state->queued == 0 && state->error == 0;
}

static bool has_failed(const struct audit_writer_state *state)
{
	return state->error != 0;
}

/* Starts the writer and waits for the first line in the file: until then it counts as idle. */
static void start_and_await_opened(void)
{
	struct stat stat;

	assert_int_equal(audit_writer_start(writer), 0);
	while (fstatat(scratch.fd, "log", &stat, 0) < 0 || stat.st_size == 0)
		sched_yield();
	await(is_idle);
}

static char *contents(const char *name)
{
	int fd = openat(scratch.fd, name, O_RDONLY | O_CLOEXEC);
	char *bytes = calloc(1, 16 * MIB);
	ssize_t n;

	assert_true(fd >= 0);
	assert_non_null(bytes);
	n = read(fd, bytes, 16 * MIB - 1);
	assert_true(n >= 0);
	close(fd);
	return bytes;
}

/* Checks that the file @name is one chain of @events; "-" is a torn line. */
static void holds(const char *name, struct audit_chain *last, const char *expected)
{
	_cleanup_free_ char *bytes = contents(name);
	struct text rest = text_from(bytes);
	char events[4096] = "";

	while (rest.len > 0) {
		struct text line = text_take(&rest, '\n');
		struct audit_link link;
		const char *event;

		if (audit_link_read(line, &link) < 0) {
			strcat(events, "- ");
			continue;
		}
		assert_int_equal(link.self.seq, last->seq + 1);
		assert_string_equal(link.prev, last->hash);
		*last = link.self;
		event = memmem(line.data, line.len, "\"event\":\"", 9);
		assert_non_null(event);
		event += 9;
		snprintf(events + strlen(events), sizeof(events) - strlen(events), "%.*s ",
			(int)strcspn(event, "\""), event);
	}
	assert_string_equal(events, expected);
}

#define LINE(event) "\"event\":\"" event "\""

TEST(test_lines_are_written_in_their_order)
{
	struct audit_chain last = audit_chain_new();

	assert_true(put(LINE("before")));
	assert_int_equal(audit_writer_start(writer), 0);
	assert_true(put(LINE("one")));
	await(is_idle);
	assert_true(put(LINE("two")));
	assert_int_equal(audit_writer_free(writer), 0);
	holds("log", &last, "audit.opened before one two ");
}

/* The next cloisterd continues the chain. */
TEST(test_a_chain_is_gone_on_with)
{
	struct audit_chain last = audit_chain_new();
	_cleanup_free_ char *bytes = NULL;

	assert_true(put(LINE("one")));
	assert_int_equal(audit_writer_start(writer), 0);
	assert_int_equal(audit_writer_free(writer), 0);
	assert_int_equal(audit_writer_new(dup(scratch.fd), "log", rotation, &writer), 0);
	assert_int_equal(look().last.seq, 2);
	assert_true(put(LINE("two")));
	assert_int_equal(audit_writer_start(writer), 0);
	assert_int_equal(audit_writer_free(writer), 0);
	holds("log", &last, "audit.opened one audit.opened two ");
	bytes = contents("log");
	assert_non_null(strstr(bytes, "\"reason\":\"start\",\"chain\":\"new\""));
	assert_non_null(strstr(bytes, "\"reason\":\"start\",\"chain\":\"continued\""));
}

/* The chain is valid however few bytes each write(2) takes. */
TEST(test_pieces)
{
	struct audit_chain last = audit_chain_new();

	fake_disk_piece = 1;
	assert_int_equal(audit_writer_start(writer), 0);
	assert_true(put(LINE("one")));
	assert_int_equal(audit_writer_free(writer), 0);
	holds("log", &last, "audit.opened one ");
}

/* The disk becomes full after each number of bytes; later the line is written. */
TEST(test_a_full_disk)
{
	static const size_t rooms[] = {0, 1, 100, 250, 300, 400, 500};

	for (size_t i = 0; i < ARRAY_SIZE(rooms); i++) {
		struct audit_chain last = audit_chain_new();

		if (i > 0)
			assert_int_equal(set_up(state), 0);
		fake_disk_error = ENOSPC;
		fake_disk_room = rooms[i];
		assert_true(put(LINE("one")));
		assert_true(put(LINE("two")));
		assert_int_equal(audit_writer_start(writer), 0);
		await(has_failed);
		assert_int_equal(look().error, ENOSPC);
		assert_true(look().queued > 0);
		fake_disk_room = SIZE_MAX;
		await(is_idle);
		assert_int_equal(look().lost, 0);
		assert_int_equal(audit_writer_free(writer), 0);
		holds("log", &last, "audit.opened one two ");
		if (i + 1 < ARRAY_SIZE(rooms))
			assert_int_equal(tear_down(state), 0);
	}
}

/* Lines that do not fit in the queue are counted. The count is written in their place. */
TEST(test_lines_that_are_lost)
{
	struct audit_chain last = audit_chain_new();
	_cleanup_free_ char *bytes = NULL;

	assert_true(put(LINE("one")));
	assert_false(audit_writer_put(writer, text_from(LINE("x")), LIMIT_AUDIT_QUEUE_BYTES));
	assert_false(audit_writer_put(writer, (struct text){NULL, LIMIT_AUDIT_LINE_BYTES + 1}, 0));
	assert_true(put(LINE("two")));
	assert_int_equal(look().lost, 2);
	start_and_await_opened();
	assert_false(audit_writer_put(writer, text_from(LINE("y")), LIMIT_AUDIT_QUEUE_BYTES));
	assert_int_equal(audit_writer_free(writer), 0);
	holds("log", &last, "audit.opened one audit.lost two audit.lost ");
	bytes = contents("log");
	assert_non_null(strstr(bytes, "\"event\":\"audit.lost\",\"lines\":2,"));
	assert_non_null(strstr(bytes, "\"event\":\"audit.lost\",\"lines\":1,"));
}

/* The queue is a ring. Lines come out unchanged where it wraps, too. */
TEST(test_a_queue_that_wraps)
{
	static char large[LIMIT_AUDIT_LINE_BYTES + 1];
	size_t n = 0, rounds = 0;

	memset(large, 'x', sizeof(large) - 1);
	memcpy(large, "\"event\":\"large\",\"x\":\"", 21);
	large[sizeof(large) - 2] = '"';
	assert_int_equal(audit_writer_start(writer), 0);
	for (; rounds < 3; rounds++) {
		fake_disk_error = EDQUOT;
		fake_disk_room = 0;
		while (put(large))
			n++;
		fake_disk_room = SIZE_MAX;
		await(is_idle);
	}
	assert_true(n >= 3 * (LIMIT_AUDIT_QUEUE_BYTES / LIMIT_AUDIT_LINE_BYTES - 1));
	assert_int_equal(look().lost, 3);
	assert_int_equal(audit_writer_free(writer), 0);
	assert_true(n <= 3 * (LIMIT_AUDIT_QUEUE_BYTES / LIMIT_AUDIT_LINE_BYTES + 1));
}

/* After a rotation the new file's first line names the old one's end. */
TEST(test_a_rotation)
{
	struct audit_chain last = audit_chain_new();
	_cleanup_free_ char *bytes = NULL;

	assert_true(put(LINE("one")));
	start_and_await_opened();
	audit_writer_reopen(writer); /* the file has not changed: no effect */
	assert_true(put(LINE("two")));
	await(is_idle);
	assert_int_equal(renameat(scratch.fd, "log", scratch.fd, "log.1"), 0);
	audit_writer_reopen(writer);
	assert_true(put(LINE("three")));
	assert_int_equal(audit_writer_free(writer), 0);
	holds("log.1", &last, "audit.opened one two ");
	holds("log", &last, "audit.opened three ");
	bytes = contents("log");
	assert_non_null(strstr(bytes, "\"reason\":\"rotation\",\"chain\":\"continued\""));
}

static bool is_there(const char *name)
{
	return faccessat(scratch.fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Puts lines of 20 KB, of which two fill a file of 64 KiB, and waits for each. */
static void put_large(unsigned n)
{
	static char large[20000];

	memset(large, 'x', sizeof(large) - 1);
	memcpy(large, "\"event\":\"large\",\"x\":\"", 21);
	large[sizeof(large) - 2] = '"';
	while (n-- > 0) {
		assert_true(put(large));
		await(is_idle);
	}
}

/* A full file is renamed after its last line, and the oldest files are removed. */
TEST(test_full_files)
{
	struct audit_chain last = audit_chain_new();
	struct stat stat;

	scratch_text(&scratch, "log.1", "as others call theirs\n");
	start_and_await_opened();
	put_large(6);
	assert_int_equal(audit_writer_free(writer), 0);
	holds("log.000000000003", &last, "audit.opened large large ");
	holds("log.000000000006", &last, "audit.opened large large ");
	holds("log.000000000009", &last, "audit.opened large large ");
	holds("log", &last, "audit.opened ");
	assert_int_equal(fstatat(scratch.fd, "log.000000000006", &stat, 0), 0);
	assert_in_range(stat.st_size, 40000, LIMIT_AUDIT_FILE_MIN_BYTES);
	/* The next cloisterd continues the numbers of the names. */
	assert_int_equal(unlinkat(scratch.fd, "log", 0), 0);
	assert_int_equal(audit_writer_new(dup(scratch.fd), "log", rotation, &writer), 0);
	last = look().last;
	assert_int_equal(last.seq, 9);
	start_and_await_opened();
	put_large(2);
	assert_int_equal(audit_writer_free(writer), 0);
	assert_false(is_there("log.000000000003"));
	assert_true(is_there("log.000000000006") && is_there("log.000000000009"));
	holds("log.000000000012", &last, "audit.opened large large ");
	assert_true(is_there("log.1"));
}

/* If the name is taken, the file grows by one line, whose number makes another name. */
TEST(test_a_full_file_whose_name_is_taken)
{
	struct audit_chain last = audit_chain_new();

	assert_int_equal(mkdirat(scratch.fd, "log.000000000003", 0755), 0);
	start_and_await_opened();
	put_large(3);
	assert_int_equal(audit_writer_free(writer), 0);
	holds("log.000000000004", &last, "audit.opened large large large ");
	holds("log", &last, "audit.opened ");
}

/* Another process renames the file before it is full. The writer then renames nothing. */
TEST(test_a_full_file_that_was_renamed)
{
	struct audit_chain last = audit_chain_new();

	start_and_await_opened();
	put_large(1);
	assert_int_equal(renameat(scratch.fd, "log", scratch.fd, "log.1"), 0);
	scratch_text(&scratch, "log", "");
	put_large(1);
	assert_int_equal(audit_writer_free(writer), 0);
	holds("log.1", &last, "audit.opened large large ");
	holds("log", &last, "audit.opened ");
	assert_false(is_there("log.000000000003"));
}

/* Without rotation by size, cloisterd renames nothing. */
TEST(test_a_log_that_is_one_file)
{
	struct audit_chain last = audit_chain_new();
	const struct audit_rotation none = {LIMIT_AUDIT_FILE_MIN_BYTES, 0};

	assert_int_equal(audit_writer_free(writer), 0);
	assert_int_equal(audit_writer_new(dup(scratch.fd), "log", none, &writer), 0);
	start_and_await_opened();
	put_large(4);
	assert_int_equal(audit_writer_free(writer), 0);
	holds("log", &last, "audit.opened large large large large ");
}

/* If a new file cannot be opened, the writer keeps the old one and tries again later. */
TEST(test_a_rotation_that_fails)
{
	struct audit_chain last = audit_chain_new();

	start_and_await_opened();
	assert_int_equal(renameat(scratch.fd, "log", scratch.fd, "log.1"), 0);
	assert_int_equal(mkdirat(scratch.fd, "log", 0755), 0);
	audit_writer_reopen(writer);
	assert_true(put(LINE("one")));
	await(is_idle);
	assert_int_equal(unlinkat(scratch.fd, "log", AT_REMOVEDIR), 0);
	while (faccessat(scratch.fd, "log", F_OK, 0) < 0)
		sched_yield();
	assert_true(put(LINE("two")));
	assert_int_equal(audit_writer_free(writer), 0);
	holds("log.1", &last, "audit.opened one ");
	holds("log", &last, "audit.opened two ");
}

/* A rotation comes while a full disk has cut a line short. The line stays torn in the old file. The
 * new file has it whole, and says how many bytes were torn. */
TEST(test_a_rotation_in_a_torn_line)
{
	struct audit_chain last = audit_chain_new();
	_cleanup_free_ char *bytes = NULL;

	start_and_await_opened();
	fake_disk_error = ENOSPC;
	fake_disk_room = 10;
	assert_true(put(LINE("one")));
	await(has_failed);
	assert_int_equal(renameat(scratch.fd, "log", scratch.fd, "log.1"), 0);
	audit_writer_reopen(writer);
	while (faccessat(scratch.fd, "log", F_OK, 0) < 0)
		sched_yield();
	fake_disk_room = SIZE_MAX;
	await(is_idle);
	assert_int_equal(audit_writer_free(writer), 0);
	holds("log.1", &last, "audit.opened - ");
	holds("log", &last, "audit.opened one ");
	bytes = contents("log");
	assert_non_null(strstr(bytes, "\"torn_bytes\":10,"));
}

/* Each kind of line, cut after each number of its bytes by a full disk. */
enum at_hand { OPENED, LOST, QUEUED, KINDS_OF_LINES };

/* Makes the disk full after @room bytes of a line of the kind @at_hand. */
static void come_to(enum at_hand at_hand, size_t room)
{
	if (at_hand != OPENED)
		start_and_await_opened();
	fake_disk_error = ENOSPC;
	fake_disk_room = room;
	if (at_hand == OPENED)
		assert_int_equal(audit_writer_start(writer), 0);
	else if (at_hand == LOST)
		assert_false(
			audit_writer_put(writer, text_from(LINE("x")), LIMIT_AUDIT_QUEUE_BYTES));
	else
		assert_true(put(LINE("one")));
	await(has_failed);
}

static size_t length_of(enum at_hand at_hand)
{
	_cleanup_free_ char *bytes = NULL;
	struct text rest, line = {0};

	assert_int_equal(set_up(NULL), 0);
	come_to(at_hand, 0);
	fake_disk_room = SIZE_MAX;
	await(is_idle);
	assert_int_equal(audit_writer_free(writer), 0);
	bytes = contents("log");
	rest = text_from(bytes);
	while (rest.len > 0)
		line = text_take(&rest, '\n');
	assert_int_equal(tear_down(NULL), 0);
	return line.len + 1;
}

/* Waits until the writer has failed @n times. */
static void await_turns(unsigned n)
{
	unsigned before = fake_disk_waits;

	while (fake_disk_waits - before < n)
		sched_yield();
}

TEST_WITH(test_every_line_at_hand, NULL, NULL)
{
	static const struct {
		const char *room_again;     /* what the file holds once there is room again */
		const char *before, *after; /* what the old and the new file hold */
		/* the same, if only the newline is missing */
		const char *whole, *after_whole;
		uint64_t left; /* lines missing when the writer stops */
	} rows[KINDS_OF_LINES] = {
		[OPENED] = {"audit.opened ", "- ", "- audit.opened ", "audit.opened ",
			"- audit.opened ", 0},
		[LOST] = {"audit.opened audit.lost ", "audit.opened - ",
			"- audit.opened audit.lost ", "audit.opened audit.lost ", "- audit.opened ",
			1},
		[QUEUED] = {"audit.opened one ", "audit.opened - ", "- audit.opened one ",
			"audit.opened one ", "- audit.opened ", 1},
	};

	for (enum at_hand at_hand = 0; at_hand < KINDS_OF_LINES; at_hand++) {
		size_t length = length_of(at_hand);

		for (size_t room = 10; room < length; room += length - 11) {
			struct audit_chain last = audit_chain_new();
			bool whole = room == length - 1;

			assert_int_equal(set_up(NULL), 0);
			come_to(at_hand, room);
			fake_disk_room = SIZE_MAX;
			await(is_idle);
			assert_int_equal(audit_writer_free(writer), 0);
			holds("log", &last, rows[at_hand].room_again);
			assert_int_equal(tear_down(NULL), 0);

			assert_int_equal(set_up(NULL), 0);
			last = audit_chain_new();
			/* The writer first ends an unfinished line of the new file. */
			scratch_text(&scratch, "new", "x");
			come_to(at_hand, room);
			assert_int_equal(renameat(scratch.fd, "log", scratch.fd, "log.1"), 0);
			assert_int_equal(renameat(scratch.fd, "new", scratch.fd, "log"), 0);
			audit_writer_reopen(writer);
			await_turns(2);
			fake_disk_room = SIZE_MAX;
			await(is_idle);
			assert_int_equal(audit_writer_free(writer), 0);
			holds("log.1", &last, whole ? rows[at_hand].whole : rows[at_hand].before);
			holds("log", &last,
				whole ? rows[at_hand].after_whole : rows[at_hand].after);
			assert_int_equal(tear_down(NULL), 0);

			assert_int_equal(set_up(NULL), 0);
			come_to(at_hand, room);
			assert_int_equal(audit_writer_free(writer), rows[at_hand].left);
			assert_int_equal(tear_down(NULL), 0);
		}
	}
}

/* The next cloisterd ends a torn line, and records how many bytes were torn. */
TEST(test_a_torn_line_is_ended)
{
	struct audit_chain last = audit_chain_new();
	_cleanup_free_ char *bytes = NULL;

	start_and_await_opened();
	fake_disk_error = ENOSPC;
	fake_disk_room = 7;
	assert_true(put(LINE("one")));
	await(has_failed);
	assert_int_equal(audit_writer_free(writer), 1);
	fake_disk_reset();
	assert_int_equal(audit_writer_new(dup(scratch.fd), "log", rotation, &writer), 0);
	assert_true(put(LINE("two")));
	assert_int_equal(audit_writer_start(writer), 0);
	assert_int_equal(audit_writer_free(writer), 0);
	holds("log", &last, "audit.opened - audit.opened two ");
	bytes = contents("log");
	assert_non_null(strstr(bytes, "\"torn_bytes\":7,"));
}

/* A writer that stops on a full disk says how many lines are missing. */
TEST(test_the_end_on_a_full_disk)
{
	fake_disk_error = ENOSPC;
	fake_disk_room = 0;
	assert_true(put(LINE("one")));
	assert_true(put(LINE("two")));
	assert_false(audit_writer_put(writer, text_from(LINE("x")), LIMIT_AUDIT_QUEUE_BYTES));
	assert_int_equal(audit_writer_start(writer), 0);
	await(has_failed);
	assert_int_equal(audit_writer_free(writer), 3);
}

TEST(test_what_never_started)
{
	assert_true(put(LINE("one")));
	assert_int_equal(audit_writer_free(writer), 1);
	assert_int_equal(audit_writer_free(NULL), 0);
	assert_int_equal(audit_writer_new(scratch.fd, "no/log", rotation, &writer), -ENOENT);
}
