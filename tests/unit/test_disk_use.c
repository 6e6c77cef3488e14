/* links: cloister-supervisor */
/* fakes: clock */
// SPDX-License-Identifier: Apache-2.0
/* When a workspace is measured, and what is known of it then. */
#include "supervisor/workspace/disk_use.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/clock.h"

struct fixture {
	struct disk_use use;
	bool closed;
	unsigned asked, ended;
	uint64_t grown_ms;
	bool prompt, frozen; /* the last one */
};

static bool ask(void *context, enum disk_ask what)
{
	struct fixture *f = context;

	if (f->closed)
		return false;
	f->ended += what == DISK_ASK_NO_MORE;
	f->asked += what != DISK_ASK_NO_MORE;
	f->prompt = what == DISK_ASK_PROMPT;
	f->frozen = what == DISK_ASK_FROZEN;
	return true;
}

static int set_up(void **state)
{
	static struct fixture f;

	fake_clock_start();
	f = (struct fixture){0};
	disk_use_init(&f.use, ask, &f);
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	disk_use_stop(&f->use);
	return 0;
}

FIXTURE(set_up, tear_down)

/* The measurement ends after @ms. */
static void answer(struct fixture *f, int64_t ms, const struct files_end *end)
{
	fake_clock_pass(ms);
	assert_int_equal(disk_use_answer(&f->use, end, false), 0);
}

TEST(test_opened)
{
	struct fixture *f = *state;

	assert_false(f->use.known);
	disk_use_opened(&f->use);
	assert_int_equal(f->asked, 1);
	answer(f, 1,
		&(struct files_end){.size = 5,
			.count = 2,
			.files_searched = 3,
			.files_skipped = 1,
			.truncated = true});
	assert_true(f->use.known && f->use.partial && f->use.hidden);
	assert_int_equal(f->use.bytes, 5);
	assert_int_equal(f->use.files, 2);
	assert_int_equal(f->use.directories, 3);
	/* Nothing has changed: whoever looks and however long it takes, nothing is measured. */
	fake_clock_pass(10 * LIMIT_MEASURE_PAUSE_MS);
	disk_use_look(&f->use, false);
	assert_int_equal(f->asked, 1);
}

TEST(test_an_answer_that_nobody_asked_for)
{
	struct fixture *f = *state;
	const struct files_end end = {.size = 1};

	assert_int_equal(disk_use_answer(&f->use, &end, false), -EBADMSG);
	disk_use_opened(&f->use);
	answer(f, 0, &end);
	assert_int_equal(disk_use_answer(&f->use, &end, false), -EBADMSG);
	disk_use_opened(&f->use);
	disk_use_lost(&f->use);
	assert_int_equal(disk_use_answer(&f->use, &end, false), -EBADMSG);
}

TEST(test_after_calls_that_write)
{
	struct fixture *f = *state;

	disk_use_opened(&f->use);
	answer(f, 1, &(struct files_end){0});
	disk_use_changed(&f->use);
	fake_clock_pass(LIMIT_MEASURE_PAUSE_MS / 2);
	disk_use_changed(&f->use); /* does not put it off */
	assert_int_equal(f->asked, 1);
	fake_clock_pass(LIMIT_MEASURE_PAUSE_MS / 2);
	assert_int_equal(f->asked, 2);
	/* A change during the measurement may not be in it. */
	disk_use_changed(&f->use);
	answer(f, 1, &(struct files_end){.size = 7});
	assert_int_equal(f->use.bytes, 7);
	fake_clock_pass(LIMIT_MEASURE_PAUSE_MS);
	assert_int_equal(f->asked, 3);
}

/* A large workspace is measured less often, whoever looks. */
TEST(test_a_twentieth_of_the_time)
{
	struct fixture *f = *state;

	disk_use_opened(&f->use);
	answer(f, 3000, &(struct files_end){0});
	disk_use_changed(&f->use);
	fake_clock_pass(59999);
	disk_use_look(&f->use, true);
	assert_int_equal(f->asked, 1);
	fake_clock_pass(1);
	assert_int_equal(f->asked, 2);
	disk_use_look(&f->use, true); /* it is being measured */
	assert_int_equal(f->asked, 2);
}

TEST(test_who_looks_does_not_wait)
{
	struct fixture *f = *state;

	disk_use_opened(&f->use);
	answer(f, 0, &(struct files_end){0});
	disk_use_look(&f->use, true);
	assert_int_equal(f->asked, 2);
	answer(f, 0, &(struct files_end){0});
	disk_use_changed(&f->use);
	disk_use_look(&f->use, false);
	assert_int_equal(f->asked, 3);
}

TEST(test_not_measured)
{
	struct fixture *f = *state;

	/* The files process was busy, or died, or the workspace is closed. */
	disk_use_opened(&f->use);
	answer(f, 0, &(struct files_end){.error = TOOL_BUSY, .size = 9});
	assert_false(f->use.known);
	fake_clock_pass(LIMIT_MEASURE_PAUSE_MS);
	assert_int_equal(f->asked, 2);
	disk_use_lost(&f->use);
	disk_use_look(&f->use, false);
	assert_int_equal(f->asked, 3);
	answer(f, 0, &(struct files_end){.size = 9});
	disk_use_changed(&f->use);
	f->closed = true;
	fake_clock_pass(LIMIT_MEASURE_PAUSE_MS);
	disk_use_look(&f->use, false);
	assert_int_equal(f->asked, 3);
	f->closed = false;
	disk_use_look(&f->use, false);
	assert_int_equal(f->asked, 4);
}

/* A workspace is measured at once, and again while commands run. */
TEST(test_limited)
{
	struct fixture *f = *state;

	f->use.limited = true;
	disk_use_opened(&f->use);
	answer(f, 1, &(struct files_end){.size = 1});
	disk_use_changed(&f->use);
	fake_clock_pass(20);
	assert_int_equal(f->asked, 2);
	answer(f, 1, &(struct files_end){.size = 2});
	disk_use_runs(&f->use, true);
	fake_clock_pass(LIMIT_MEASURE_RUNNING_MS - 1);
	assert_int_equal(f->asked, 2);
	fake_clock_pass(1);
	assert_int_equal(f->asked, 3);
	/* One that takes long is not repeated before its part of the time has passed. */
	answer(f, 200, &(struct files_end){.size = 3});
	fake_clock_pass(3999);
	assert_int_equal(f->asked, 3);
	fake_clock_pass(1);
	assert_int_equal(f->asked, 4);
	answer(f, 1, &(struct files_end){.size = 3});
	/* What a command has written is measured before the two seconds have passed. */
	disk_use_changed(&f->use);
	fake_clock_pass(20);
	assert_int_equal(f->asked, 5);
	answer(f, 1, &(struct files_end){.size = 3});
	disk_use_runs(&f->use, false);
	fake_clock_pass(10 * LIMIT_MEASURE_RUNNING_MS);
	assert_int_equal(f->asked, 5);
}

static const struct disk_size hard = {.bytes = 100, .files = 10};

static enum disk_growth grow(struct fixture *f, const struct files_end *end)
{
	answer(f, 1, end);
	return disk_use_growth(&f->use, &hard, &f->grown_ms);
}

/* Two measurements in a row have to see it, and the second one does not wait. */
TEST(test_growth)
{
	struct fixture *f = *state;

	f->use.limited = true;
	disk_use_opened(&f->use);
	assert_int_equal(grow(f, &(struct files_end){.size = 50}), DISK_GROWTH_NONE);
	disk_use_changed(&f->use);
	fake_clock_pass(20);
	assert_int_equal(f->asked, 2);
	assert_int_equal(grow(f, &(struct files_end){.size = 101}), DISK_GROWTH_NONE);
	assert_int_equal(f->asked, 3);
	assert_true(f->prompt);
	fake_clock_pass(30);
	/* Commands that have begun since then did not write it. */
	assert_int_equal(grow(f, &(struct files_end){.size = 102}), DISK_GROWTH_WRITTEN);
	assert_int_equal(f->grown_ms, 30 + 1);
	assert_int_equal(f->asked, 3);
	/* A command that removes files is seen to take more than before by the first walk only. */
	disk_use_runs(&f->use, true);
	fake_clock_pass(LIMIT_MEASURE_RUNNING_MS);
	assert_int_equal(grow(f, &(struct files_end){.size = 110}), DISK_GROWTH_NONE);
	assert_int_equal(f->asked, 5);
	assert_int_equal(grow(f, &(struct files_end){.size = 102}), DISK_GROWTH_NONE);
	assert_int_equal(f->asked, 5);
	/* What has not grown is not measured twice. */
	fake_clock_pass(LIMIT_MEASURE_RUNNING_MS);
	assert_int_equal(grow(f, &(struct files_end){.size = 102}), DISK_GROWTH_NONE);
	assert_int_equal(f->asked, 6);
	fake_clock_pass(LIMIT_MEASURE_RUNNING_MS - 1);
	assert_int_equal(f->asked, 6);
}

/* Files and directories are bounded as bytes are, and only what is over its own bound counts. */
TEST(test_growth_of_files)
{
	struct fixture *f = *state;

	f->use.limited = true;
	disk_use_opened(&f->use);
	assert_int_equal(grow(f, &(struct files_end){.count = 3}), DISK_GROWTH_NONE);
	disk_use_runs(&f->use, true);
	fake_clock_pass(LIMIT_MEASURE_RUNNING_MS);
	assert_int_equal(
		grow(f, &(struct files_end){.count = 5, .files_searched = 6}), DISK_GROWTH_NONE);
	assert_true(f->prompt);
	assert_int_equal(
		grow(f, &(struct files_end){.count = 7, .files_searched = 6}), DISK_GROWTH_WRITTEN);
	/* One that removes files, and writes what it may, goes on. */
	fake_clock_pass(LIMIT_MEASURE_RUNNING_MS);
	assert_int_equal(grow(f, &(struct files_end){.size = 100, .count = 11}), DISK_GROWTH_NONE);
	assert_false(f->prompt);
	/* Numbers whose sum overflows are no small number. */
	fake_clock_pass(LIMIT_MEASURE_RUNNING_MS);
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			grow(f, &(struct files_end){.count = UINT64_MAX, .files_searched = 2}),
			i == 0 ? DISK_GROWTH_NONE : DISK_GROWTH_WRITTEN);
}

/* No answer is a measurement that failed. */
TEST(test_growth_that_cannot_be_measured_again)
{
	struct fixture *f = *state;

	f->use.limited = true;
	disk_use_opened(&f->use);
	assert_int_equal(grow(f, &(struct files_end){.size = 50}), DISK_GROWTH_NONE);
	disk_use_changed(&f->use);
	fake_clock_pass(20);
	assert_int_equal(grow(f, &(struct files_end){.size = 101}), DISK_GROWTH_NONE);
	assert_int_equal(grow(f, &(struct files_end){.error = TOOL_BUSY}), DISK_GROWTH_NONE);
	fake_clock_pass(20);
	assert_int_equal(f->asked, 4);
	assert_int_equal(grow(f, &(struct files_end){.size = 101}), DISK_GROWTH_WRITTEN);
}

/* What could not be measured before may have been there already. */
TEST(test_growth_of_what_was_hidden)
{
	struct fixture *f = *state;

	f->use.limited = true;
	disk_use_opened(&f->use);
	assert_int_equal(
		grow(f, &(struct files_end){.size = 50, .files_skipped = 1}), DISK_GROWTH_NONE);
	disk_use_changed(&f->use);
	fake_clock_pass(20);
	assert_int_equal(grow(f, &(struct files_end){.size = 101}), DISK_GROWTH_NONE);
	assert_int_equal(grow(f, &(struct files_end){.size = 101}), DISK_GROWTH_UNHIDDEN);
}

/* Commands that keep the processors busy do not keep a measurement from its end. */
TEST(test_late)
{
	struct fixture *f = *state;

	f->use.limited = true;
	disk_use_opened(&f->use);
	fake_clock_pass(2 * LIMIT_MEASURE_LATE_MS);
	assert_int_equal(f->ended, 0); /* there is none */
	answer(f, 1, &(struct files_end){.size = 1, .lines = 1000});
	disk_use_runs(&f->use, true);
	fake_clock_pass(LIMIT_MEASURE_REST_MS * 8);
	assert_int_equal(f->asked, 2);
	assert_false(f->prompt);
	fake_clock_pass(LIMIT_MEASURE_LATE_MS - 1);
	assert_int_equal(f->ended, 0);
	fake_clock_pass(1);
	assert_int_equal(f->ended, 1);
	answer(f, 0, &(struct files_end){.error = TOOL_CANCELLED});
	fake_clock_pass(LIMIT_RETRY_MIN_MS);
	assert_int_equal(f->asked, 3);
	assert_true(f->prompt);
	/* That one may take as long as it takes, and does not give them much time afterwards. */
	fake_clock_pass(LIMIT_MEASURE_REST_MS);
	assert_int_equal(f->ended, 1);
	answer(f, 0, &(struct files_end){.size = 1, .lines = 1000000});
	fake_clock_pass(LIMIT_MEASURE_REST_MS - 1);
	assert_int_equal(f->asked, 3);
	fake_clock_pass(1);
	assert_int_equal(f->asked, 4);
	assert_false(f->prompt);
	/* What takes the processor's time itself is measured in its part of the time only. */
	answer(f, LIMIT_MEASURE_LATE_MS - 1, &(struct files_end){.size = 1, .lines = 5000000});
	fake_clock_pass(100000 - 1);
	assert_int_equal(f->asked, 4);
	fake_clock_pass(1);
	assert_int_equal(f->asked, 5);
	/* A lie about that changes nothing. */
	answer(f, 1000, &(struct files_end){.size = 1, .lines = UINT64_MAX});
	fake_clock_pass(20000);
	assert_int_equal(f->asked, 6);
	disk_use_lost(&f->use);
}

/* The measurement that was asked for ends after @ms, in which commands were stopped or not. */
static void answer_frozen(struct fixture *f, int64_t ms, uint64_t bytes, bool frozen)
{
	const struct files_end end = {.size = bytes};

	fake_clock_pass(ms);
	assert_int_equal(disk_use_answer(&f->use, &end, frozen), 0);
}

/* Lets the time pass in which others are made and end at once, until commands are to be stopped. */
static int64_t until_frozen(struct fixture *f)
{
	int64_t passed = 0;

	while (!f->frozen) {
		unsigned asked = f->asked;

		fake_clock_pass(LIMIT_MEASURE_RUNNING_MS / 2);
		passed += LIMIT_MEASURE_RUNNING_MS / 2;
		if (f->asked != asked && !f->frozen)
			answer_frozen(f, 0, 1, false);
		assert_true(passed < 10000000);
	}
	return passed;
}

static void begin_to_run(struct fixture *f)
{
	f->use.limited = f->use.pauses = true;
	disk_use_opened(&f->use);
	answer_frozen(f, 0, 1, false);
	disk_use_runs(&f->use, true);
}

/* Every ten seconds in which commands run, one is made while they are stopped. */
TEST(test_frozen)
{
	struct fixture *f = *state;

	begin_to_run(f);
	assert_int_equal(until_frozen(f), LIMIT_MEASURE_EXACT_MS);
	assert_int_equal(f->use.pause_ms, LIMIT_PAUSE_MS);
	answer_frozen(f, 0, 1, true);
	f->frozen = false;
	assert_int_equal(until_frozen(f), LIMIT_MEASURE_EXACT_MS);
	answer_frozen(f, 0, 1, true);
	f->frozen = false;
	/* Commands that come and go between two measurements do not begin the time anew. */
	for (int i = 0; i < 5; i++) {
		fake_clock_pass(LIMIT_MEASURE_RUNNING_MS);
		disk_use_runs(&f->use, false);
		disk_use_runs(&f->use, true);
		if (!f->frozen)
			answer_frozen(f, 0, 1, false);
	}
	assert_true(f->frozen);
	answer_frozen(f, 0, 1, true);
	f->frozen = false;
	/* One in which none ran from its beginning to its end does. */
	fake_clock_pass(LIMIT_MEASURE_RUNNING_MS);
	answer_frozen(f, 0, 1, false);
	fake_clock_pass(LIMIT_MEASURE_RUNNING_MS);
	disk_use_runs(&f->use, false);
	answer_frozen(f, 0, 1, false);
	disk_use_changed(&f->use);
	fake_clock_pass(1000);
	answer_frozen(f, 0, 1, false);
	disk_use_runs(&f->use, true);
	assert_int_equal(until_frozen(f), LIMIT_MEASURE_EXACT_MS);
}

TEST(test_not_frozen)
{
	static const struct {
		bool limited, pauses, runs;
	} rows[] = {{false, true, true}, {true, false, true}, {true, true, false}};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		begin_to_run(f);
		disk_use_runs(&f->use, rows[i].runs);
		f->use.limited = rows[i].limited;
		f->use.pauses = rows[i].pauses;
		for (int j = 0; j < 20; j++) {
			unsigned asked = f->asked;

			disk_use_changed(&f->use);
			fake_clock_pass(LIMIT_MEASURE_PAUSE_MS);
			assert_true(f->asked > asked && !f->frozen);
			answer_frozen(f, 0, 1, false);
		}
		tear_down(state);
		set_up(state);
	}
}

/* A pause that does not suffice is longer the next time, and pauses take their part of the time. */
TEST(test_longer_pauses)
{
	struct fixture *f = *state;
	int64_t pause = LIMIT_PAUSE_MS;

	begin_to_run(f);
	until_frozen(f);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(f->use.pause_ms, pause);
		/* It goes on for as long again while they run, and is not late. */
		answer_frozen(f, 2 * pause, 1, false);
		assert_int_equal(f->ended, 0);
		f->frozen = false;
		assert_true(until_frozen(f) >= 20 * pause);
		pause = 2 * pause < LIMIT_PAUSE_MAX_MS ? 2 * pause : LIMIT_PAUSE_MAX_MS;
	}
	/* One that was done shows what is needed. */
	answer_frozen(f, 9000, 1, true);
	assert_int_equal(f->use.pause_ms, 18000);
	f->frozen = false;
	assert_true(until_frozen(f) >= 20 * 9000);
	answer_frozen(f, 5, 1, true);
	assert_int_equal(f->use.pause_ms, LIMIT_PAUSE_MS);
	/* So does one whose files process dies. */
	f->frozen = false;
	until_frozen(f);
	fake_clock_pass(500);
	disk_use_lost(&f->use);
	f->frozen = false;
	disk_use_look(&f->use, true);
	assert_false(f->frozen);
	answer_frozen(f, 0, 1, false);
	assert_true(until_frozen(f) >= 20 * 500 - LIMIT_MEASURE_RUNNING_MS);
	assert_int_equal(f->use.pause_ms, 2 * LIMIT_PAUSE_MS);
}

/* What an exact measurement finds is sure, and what another finds is measured exactly. */
TEST(test_growth_while_frozen)
{
	struct fixture *f = *state;

	begin_to_run(f);
	until_frozen(f);
	answer_frozen(f, 1, 101, true);
	assert_int_equal(disk_use_growth(&f->use, &hard, &f->grown_ms), DISK_GROWTH_WRITTEN);
	f->frozen = false;
	fake_clock_pass(LIMIT_MEASURE_RUNNING_MS);
	answer_frozen(f, 1, 102, false);
	assert_int_equal(disk_use_growth(&f->use, &hard, &f->grown_ms), DISK_GROWTH_NONE);
	assert_true(f->frozen);
	answer_frozen(f, 1, 102, true);
	assert_int_equal(disk_use_growth(&f->use, &hard, &f->grown_ms), DISK_GROWTH_WRITTEN);
	/* It was none. */
	f->frozen = false;
	fake_clock_pass(LIMIT_MEASURE_RUNNING_MS);
	answer_frozen(f, 1, 110, false);
	assert_int_equal(disk_use_growth(&f->use, &hard, &f->grown_ms), DISK_GROWTH_NONE);
	assert_true(f->frozen);
	answer_frozen(f, 1, 102, true);
	assert_int_equal(disk_use_growth(&f->use, &hard, &f->grown_ms), DISK_GROWTH_NONE);
}

/* Where the kernel counts, its number is taken, also the one that a write tells. */
TEST(test_quota)
{
	struct fixture *f = *state;

	disk_use_opened(&f->use);
	answer(f, 1, &(struct files_end){.size = 5, .disk_bytes = 7, .disk_limit = 100});
	assert_int_equal(f->use.bytes, 7);
	disk_use_told(&f->use, 9);
	assert_int_equal(f->use.bytes, 9);
}
