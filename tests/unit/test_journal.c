/* links: cloister-supervisor */
/* fakes: disk clock */
/* threads */
// SPDX-License-Identifier: Apache-2.0
/* The journal: its records, what a crash leaves of them, its two files, and the thread. */
#include "supervisor/journal/journal.h"

#include "common/wire/wire_commands.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/journal/journal_crc.h"
#include "tests/lib/scratch_fixture.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/clock.h"
#include "tests/unit/fakes/disk.h"

#include <event2/event.h>
#include <limits.h>

static struct journal_record end_record(unsigned n, struct text json)
{
	struct journal_record record = {.type = JOURNAL_END,
		.number = 1000 + n,
		.tenant = TEXT_LITERAL("tenant"),
		.code = TEXT_LITERAL("OK"),
		.json = json,
		.model = TEXT_LITERAL("\"text\""),
		.base64 = n % 2};

	memset(record.id, (int)n, sizeof(record.id));
	memset(record.digest, (int)~n, sizeof(record.digest));
	return record;
}

static void assert_same(const struct journal_record *a, const struct journal_record *b)
{
	assert_int_equal(a->type, b->type);
	assert_int_equal(a->number, b->number);
	assert_memory_equal(a->id, b->id, sizeof(a->id));
	assert_memory_equal(a->digest, b->digest, sizeof(a->digest));
	assert_true(text_equal(a->tenant, b->tenant));
	assert_true(text_equal(a->code, b->code));
	assert_true(text_equal(a->json, b->json));
	assert_true(text_equal(a->model, b->model));
	assert_int_equal(a->base64, b->base64);
}

GROUP_FIXTURE(scratch_set_up, scratch_tear_down)

TEST(test_a_record_is_read_as_it_was_written)
{
	static char bytes[LIMIT_JOURNAL_RECORD_BYTES], json[2 * LIMIT_KEY_RESULT_BYTES];
	struct journal_record written = end_record(7, TEXT_LITERAL("{}")), read;
	size_t len = journal_record_put(&written, bytes, sizeof(bytes));

	assert_int_equal(journal_record_get((struct text){bytes, len + 5}, &read), (int)len);
	assert_same(&written, &read);
	for (size_t i = 0; i < len; i++) {
		assert_int_equal(journal_record_get((struct text){bytes, i}, &read), -ENODATA);
		for (int bit = 0; bit < 8; bit++) {
			bytes[i] ^= (char)(1 << bit);
			assert_true(journal_record_get((struct text){bytes, len}, &read) < 0);
			bytes[i] ^= (char)(1 << bit);
		}
	}
	/* The largest result has room, and one that is larger has not. */
	memset(json, 'x', sizeof(json));
	written.json = written.model = (struct text){json, LIMIT_KEY_RESULT_BYTES};
	assert_true(
		journal_record_put(&written, bytes, sizeof(bytes)) > 2 * LIMIT_KEY_RESULT_BYTES);
	written.json.len = 2 * LIMIT_KEY_RESULT_BYTES;
	assert_int_equal(journal_record_put(&written, bytes, sizeof(bytes)), 0);
}

/* The tenant of user mode is called as the user. A record that could not be read is not written. */
TEST(test_a_long_name_of_a_tenant)
{
	static char bytes[LIMIT_JOURNAL_RECORD_BYTES], name[LOGIN_NAME_MAX + 1];
	struct journal_record written = end_record(1, TEXT_LITERAL("{}")), read;
	size_t len;

	written.tenant = (struct text){memset(name, 'n', sizeof(name)), LOGIN_NAME_MAX};
	len = journal_record_put(&written, bytes, sizeof(bytes));
	assert_int_equal(journal_record_get((struct text){bytes, len}, &read), (int)len);
	assert_same(&written, &read);
	written.tenant.len++;
	assert_int_equal(journal_record_put(&written, bytes, sizeof(bytes)), 0);
}

/* The versions of all files of a patch. */
TEST(test_a_large_change)
{
	static char bytes[LIMIT_JOURNAL_RECORD_BYTES], versions[JOURNAL_CHANGE_BYTES + 1];
	struct journal_record written = {.type = JOURNAL_BEGIN, .number = 1}, read;
	size_t len;

	memset(versions, 'v', sizeof(versions));
	written.before = written.after = (struct text){versions, JOURNAL_CHANGE_BYTES};
	len = journal_record_put(&written, bytes, sizeof(bytes));
	assert_int_equal(journal_record_get((struct text){bytes, len}, &read), (int)len);
	assert_true(text_equal(read.before, written.before));
	assert_true(text_equal(read.after, written.after));
	written.before.len++;
	assert_int_equal(journal_record_put(&written, bytes, sizeof(bytes)), 0);
	written.before.len--;
	written.after.len++;
	assert_int_equal(journal_record_put(&written, bytes, sizeof(bytes)), 0);
}

/* RFC 3720, B.4. */
TEST(test_the_checksum)
{
	static const uint8_t zeros[32];
	uint8_t ones[32], up[32], bytes[300];

	memset(ones, 0xff, sizeof(ones));
	for (size_t i = 0; i < sizeof(up); i++)
		up[i] = (uint8_t)i;
	assert_int_equal(journal_crc(0, zeros, sizeof(zeros)), 0x8a9136aa);
	assert_int_equal(journal_crc(0, ones, sizeof(ones)), 0x62a8ab43);
	assert_int_equal(journal_crc(0, up, sizeof(up)), 0x46dd794e);
	/* The instruction and the tables, at every alignment and length, and in two parts. */
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 3);
	for (size_t at = 0; at < 8; at++)
		for (size_t len = 0; len < sizeof(bytes) - at; len++) {
			uint32_t sum = journal_crc_by_tables(0, bytes + at, len);

			assert_int_equal(journal_crc(0, bytes + at, len), sum);
			assert_int_equal(journal_crc(journal_crc(0, bytes + at, len / 3),
						 bytes + at + len / 3, len - len / 3),
				sum);
		}
}

TEST(test_the_checksum_covers_the_length)
{
	struct journal_record record = end_record(1, TEXT_LITERAL("{}")), read;
	char bytes[512];
	size_t len = journal_record_put(&record, bytes, sizeof(bytes));
	uint32_t shorter = (uint32_t)len - 1;

	memcpy(bytes, &shorter, sizeof(shorter));
	assert_int_equal(journal_record_get((struct text){bytes, len}, &read), -EBADMSG);
}

/* What is taken at the start. */
struct taken {
	unsigned n;
	struct {
		uint8_t id, type;
		struct journal_place place;
	} records[64];
};

static int take(void *context, const struct journal_record *record, struct journal_place place)
{
	struct taken *taken = context;

	assert_true(taken->n < ARRAY_SIZE(taken->records));
	taken->records[taken->n].id = record->id[0];
	taken->records[taken->n].type = record->type;
	taken->records[taken->n++].place = place;
	return 0;
}

static struct journal_file open_files(struct taken *taken, uint64_t *ret_cut)
{
	struct journal_file file;

	*taken = (struct taken){0};
	assert_int_equal(journal_file_open(scratch.fd, true, take, taken, &file, ret_cut), 0);
	return file;
}

static void remove_files(void)
{
	(void)unlinkat(scratch.fd, "keys.0", 0);
	(void)unlinkat(scratch.fd, "keys.1", 0);
}

static struct journal_place append(struct journal_file *file, unsigned n)
{
	struct journal_record record = end_record(n, TEXT_LITERAL("{\"success\":true}"));
	struct journal_place place = {0};
	char bytes[512];
	size_t len = journal_record_put(&record, bytes, sizeof(bytes));

	assert_int_equal(journal_file_append(file, (struct text){bytes, len}, &place), 0);
	return place;
}

/* Cuts the file at every length: what is taken are the whole records before, and nothing else. */
TEST(test_every_torn_length)
{
	struct journal_place places[3];
	struct taken taken;
	uint64_t cut = 0, size;
	struct journal_file file;
	unsigned current;

	remove_files();
	file = open_files(&taken, &cut);
	current = file.current;
	for (unsigned i = 0; i < ARRAY_SIZE(places); i++)
		places[i] = append(&file, i);
	size = file.files[current].size;
	for (uint64_t len = size + 1; len-- > 0;) {
		unsigned whole = 0;

		assert_int_equal(ftruncate(file.files[current].fd, (off_t)len), 0);
		journal_file_close(&file);
		file = open_files(&taken, &cut);
		while (whole < ARRAY_SIZE(places) &&
			places[whole].offset + places[whole].size <= len)
			whole++;
		assert_int_equal(taken.n, whole);
		for (unsigned i = 0; i < whole; i++)
			assert_int_equal(taken.records[i].id, i);
		/* The next record continues where the last whole one ended. */
		if (len >= places[0].offset)
			assert_int_equal(file.files[current].size,
				whole > 0 ? places[whole - 1].offset + places[whole - 1].size
					  : places[0].offset);
		if (whole < ARRAY_SIZE(places) && len > places[0].offset &&
			len != places[whole].offset)
			assert_true(cut > 0);
		if (len > 0 && file.files[current].number == 0)
			break;
	}
	journal_file_close(&file);
}

TEST(test_bytes_that_follow_are_cut)
{
	struct taken taken;
	uint64_t cut = 0;
	struct journal_file file;
	struct stat stat_buf;

	remove_files();
	file = open_files(&taken, &cut);
	append(&file, 1);
	assert_int_equal(pwrite(file.files[file.current].fd, "words", 5,
				 (off_t)file.files[file.current].size),
		5);
	journal_file_close(&file);
	file = open_files(&taken, &cut);
	assert_int_equal(cut, 5);
	assert_int_equal(taken.n, 1);
	assert_int_equal(fstat(file.files[file.current].fd, &stat_buf), 0);
	assert_int_equal(stat_buf.st_size, file.files[file.current].size);
	assert_int_equal(stat_buf.st_mode & 07777, 0600);
	journal_file_close(&file);
}

TEST(test_the_files_change_places)
{
	struct taken taken;
	struct journal_place place = {0};
	struct journal_record record;
	struct journal_file file;
	uint64_t cut = 0;
	char buffer[512];

	remove_files();
	file = open_files(&taken, &cut);
	for (unsigned i = 1; i <= 9; i++) {
		place = append(&file, i);
		assert_int_equal(journal_file_turn(&file), 0);
		assert_int_not_equal(place.file, file.current);
		assert_int_equal(journal_file_read(&file, place, buffer, &record), 0);
		assert_int_equal(record.id[0], i);
		/* After a start the older file's records come first, and the file is the same. */
		append(&file, 100 + i);
		journal_file_close(&file);
		file = open_files(&taken, &cut);
		assert_int_equal(taken.n, i == 1 ? 2 : 3);
		assert_int_equal(taken.records[taken.n - 2].id, i);
		assert_int_equal(taken.records[taken.n - 1].id, 100 + i);
		assert_int_not_equal(place.file, file.current);
	}
	place.offset++;
	assert_int_equal(journal_file_read(&file, place, buffer, &record), -EBADMSG);
	journal_file_close(&file);
}

TEST(test_names_that_are_no_files)
{
	struct journal_file file;
	struct taken taken = {0};
	uint64_t cut;

	remove_files();
	assert_int_equal(mkfifoat(scratch.fd, "keys.1", 0600), 0);
	assert_int_equal(journal_file_open(scratch.fd, false, take, &taken, &file, &cut), -EINVAL);
	remove_files();
	assert_int_equal(symlinkat("/dev/null", scratch.fd, "keys.0"), 0);
	assert_int_equal(journal_file_open(scratch.fd, false, take, &taken, &file, &cut), -ELOOP);
	remove_files();
}

/* What became of the records of one journal. */
struct outcome {
	unsigned done, failed;
	int error;
	struct journal_place last;
};

static void on_done(void *context, int error, struct journal_place place)
{
	struct outcome *outcome = context;

	outcome->done++;
	outcome->failed += error < 0;
	outcome->error = error;
	outcome->last = place;
}

static void put(struct journal *journal, unsigned n, struct outcome *outcome)
{
	struct journal_record record = end_record(n, TEXT_LITERAL("{}"));

	journal_append(journal, &record, NULL, on_done, outcome);
}

static uint64_t size_of(const char *name)
{
	struct stat stat_buf;

	assert_int_equal(fstatat(scratch.fd, name, &stat_buf, 0), 0);
	return (uint64_t)stat_buf.st_size;
}

TEST(test_a_full_disk)
{
	struct taken taken = {0};
	struct outcome outcome = {0};
	struct journal_state look;
	struct journal *journal;

	remove_files();
	assert_int_equal(journal_new(scratch.fd, false, take, &taken, &journal), 0);
	put(journal, 1, &outcome);
	fake_disk_error = ENOSPC;
	for (size_t room = 0; room < 40; room++) { /* the disk takes a part of the record */
		fake_disk_room = room;
		put(journal, 2, &outcome);
		assert_int_equal(outcome.error, -ENOSPC);
	}
	journal_look(journal, &look);
	assert_int_equal(look.error, ENOSPC);
	/* Nothing of them is left in the files. */
	assert_int_equal(size_of("keys.0") + size_of("keys.1"), look.bytes);
	fake_disk_reset();
	put(journal, 3, &outcome);
	assert_int_equal(outcome.error, 0);
	journal_look(journal, &look);
	assert_int_equal(look.error, 0);
	journal_free(journal);
	assert_int_equal(journal_new(scratch.fd, false, take, &taken, &journal), 0);
	assert_int_equal(taken.n, 2);
	assert_int_equal(taken.records[1].id, 3);
	journal_look(journal, &look);
	assert_int_equal(look.cut_bytes, 0);
	journal_free(journal);
}

static struct event_base *new_base(void)
{
	struct event_base *base = event_base_new();

	assert_int_equal(event_base_priority_init(base, LOOP_PRIORITIES), 0);
	assert_int_equal(loop_turn_start(base), 0);
	return base;
}

/* A new journal whose thread runs. */
static struct journal *started(struct event_base *base, struct taken *taken)
{
	struct journal *journal;

	remove_files();
	assert_int_equal(journal_new(scratch.fd, true, take, taken, &journal), 0);
	assert_int_equal(journal_start(journal, base), 0);
	return journal;
}

TEST(test_the_thread)
{
	struct event_base *base = new_base();
	struct outcome outcome = {0};
	struct taken taken = {0};
	struct journal_record record;
	struct journal *journal;
	char buffer[512];

	journal = started(base, &taken);
	for (unsigned n = 1; n <= 20; n++)
		put(journal, n, &outcome);
	assert_int_equal(outcome.done, 0); /* never before it returns: the disk has not answered */
	journal_turn(journal);
	journal_turn(journal);
	put(journal, 21, &outcome);
	while (outcome.done < 21)
		event_base_loop(base, EVLOOP_ONCE);
	assert_int_equal(outcome.failed, 0);
	assert_int_equal(outcome.last.file, journal_current(journal));
	assert_int_equal(journal_read(journal, outcome.last, buffer, &record), 0);
	assert_int_equal(record.id[0], 21);
	/* The end of the journal writes what waits. */
	put(journal, 22, &outcome);
	journal_free(journal);
	assert_int_equal(journal_new(scratch.fd, true, take, &taken, &journal), 0);
	assert_int_equal(taken.n, 22);
	journal_free(journal);
	loop_turn_stop();
	event_base_free(base);
}

TEST(test_a_disk_that_fails_the_thread)
{
	struct event_base *base = new_base();
	struct outcome outcome = {0};
	struct taken taken = {0};
	struct journal *journal;

	journal = started(base, &taken);
	fake_disk_error = EIO;
	fake_disk_sync_error = EIO;
	put(journal, 1, &outcome);
	while (outcome.done < 1)
		event_base_loop(base, EVLOOP_ONCE);
	assert_int_equal(outcome.error, -EIO);
	fake_disk_reset();
	put(journal, 2, &outcome);
	while (outcome.done < 2)
		event_base_loop(base, EVLOOP_ONCE);
	assert_int_equal(outcome.error, 0);
	journal_free(journal);
	loop_turn_stop();
	event_base_free(base);
}

/* Lets @ms pass. Returns whether the thread was given something, and waits for it. */
static bool tries_after(struct journal *journal, struct event_base *base, int64_t ms)
{
	bool tries;

	fake_clock_pass(ms);
	tries = !journal_rests(journal);
	while (!journal_rests(journal))
		event_base_loop(base, EVLOOP_ONCE);
	return tries;
}

static int error_of(struct journal *journal)
{
	struct journal_state look;

	journal_look(journal, &look);
	/* Nothing of an attempt is left. */
	assert_int_equal(size_of("keys.0") + size_of("keys.1"), look.bytes);
	return look.error;
}

/* Without a call with a key, too. While another generation may have the files, nothing is tried. */
TEST(test_a_disk_that_has_room_again)
{
	struct event_base *base = new_base();
	struct outcome outcome = {0};
	struct taken taken = {0};
	struct journal *journal;

	remove_files();
	assert_int_equal(journal_new(scratch.fd, true, take, &taken, &journal), 0);
	fake_clock_start();
	assert_int_equal(journal_start(journal, base), 0);
	assert_false(tries_after(journal, base, LIMIT_JOURNAL_RETRY_MS));
	for (int round = 0; round < 2; round++) {
		fake_disk_error = ENOSPC;
		fake_disk_room = 10;
		put(journal, 1, &outcome);
		while (outcome.done <= (unsigned)round)
			event_base_loop(base, EVLOOP_ONCE);
		assert_int_equal(error_of(journal), ENOSPC);
		assert_false(tries_after(journal, base, LIMIT_JOURNAL_RETRY_MS - 1));
		assert_true(tries_after(journal, base, 1));
		assert_int_equal(error_of(journal), ENOSPC);
		fake_disk_reset();
		journal_hold(journal);
		assert_false(tries_after(journal, base, LIMIT_JOURNAL_RETRY_MS));
		assert_int_equal(error_of(journal), ENOSPC);
		journal_release(journal);
		assert_true(tries_after(journal, base, LIMIT_JOURNAL_RETRY_MS));
		assert_int_equal(error_of(journal), 0);
		assert_false(tries_after(journal, base, 10 * LIMIT_JOURNAL_RETRY_MS));
	}
	put(journal, 2, &outcome);
	journal_free(journal);
	assert_int_equal(journal_new(scratch.fd, true, take, &taken, &journal), 0);
	assert_int_equal(taken.n, 1);
	assert_int_equal(taken.records[0].id, 2);
	journal_free(journal);
	fake_clock_stop();
	loop_turn_stop();
	event_base_free(base);
}

struct test_gate {
	struct journal_gate gate;
	unsigned opened;
};

static void on_opened(struct journal_gate *gate)
{
	((struct test_gate *)(void *)gate)->opened++;
}

/* Fills the socket, so that the next write waits. */
static void fill(int fd)
{
	static const char bytes[4096];

	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	while (send(fd, bytes, 1, MSG_DONTWAIT) > 0)
		;
}

/* A hostile process has the other end of a gate, and makes its write long. The loop goes on. */
TEST(test_a_gate_that_takes_long)
{
	struct event_base *base = new_base();
	struct taken taken = {0};
	struct outcome outcome = {0};
	struct journal *journal = started(base, &taken);
	struct journal_record record = end_record(1, TEXT_LITERAL("{}"));
	struct test_gate held = {.gate.opened = on_opened}, other = {.gate.opened = on_opened};
	struct journal_state look;
	char bytes[4096], last = 0;
	int ends[2];
	ssize_t n;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	held.gate.fd = ends[0];
	other.gate.fd = -1;
	fill(ends[0]);
	journal_append(journal, &record, &held.gate, on_done, &outcome);
	loop_turn_end(); /* which wakes the thread */
	/* Also calls for what is done. */
	while (outcome.done == 0)
		assert_true(journal_shut_gate(journal, &other.gate));
	journal_look(journal, &look);
	assert_int_equal(look.error, 0);
	assert_int_equal(held.opened, 0);
	assert_false(journal_shut_gate(journal, &held.gate));
	put(journal, 2, &outcome);
	while (held.opened == 0 || outcome.done < 2) {
		while ((n = recv(ends[1], bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
			last = bytes[n - 1];
		event_base_loop(base, EVLOOP_NONBLOCK);
	}
	n = recv(ends[1], bytes, sizeof(bytes), MSG_DONTWAIT);
	assert_int_equal(n > 0 ? bytes[n - 1] : last, COMMAND_GATE_OPEN);
	close(ends[0]);
	close(ends[1]);
	assert_true(journal_free(journal));
	loop_turn_stop();
	event_base_free(base);
}

/* More than may wait is refused at once, and the loop goes on. */
TEST(test_too_much_waits)
{
	static char json[LIMIT_KEY_RESULT_BYTES];
	struct journal_record record = end_record(1, (struct text){json, sizeof(json)});
	struct event_base *base = new_base();
	struct taken taken = {0};
	struct outcome outcome = {0};
	struct journal *journal;

	remove_files();
	memset(json, 'x', sizeof(json));
	assert_int_equal(journal_new(scratch.fd, true, take, &taken, &journal), 0);
	for (size_t i = 0; i <= LIMIT_JOURNAL_QUEUE_BYTES / sizeof(json); i++)
		journal_append(journal, &record, NULL, on_done, &outcome);
	assert_true(outcome.done >= 1);
	assert_int_equal(outcome.error, -ENOBUFS);
	journal_free(journal);
	loop_turn_stop();
	event_base_free(base);
}
