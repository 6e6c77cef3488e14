/* links: cloister-supervisor */
/* fakes: process id_range clock */
// SPDX-License-Identifier: Apache-2.0
/* Tenants take turns at cloister-spawner: how many requests it is sent, and whose is next. */
#include "supervisor/cell/spawner_link.h"

#include "tests/lib/spawner_link_fixture.h"
#include "tests/lib/unit.h"

static void hears_nothing(void)
{
	struct channel_frame frame;

	run();
	assert_int_equal(channel_fill(&spawner.channel, WIRE_FRAME_MAX), -EAGAIN);
	assert_int_equal(channel_next(&spawner.channel, &frame), 0);
}

enum { FLOOD = 100, PLACES = LIMIT_SPAWNER_REQUESTS_OF_TENANT };

/* @of asks for so many cells. */
static void flood(const char *of, uint64_t *numbers, size_t n)
{
	tenant = of;
	for (size_t i = 0; i < n; i++)
		assert_int_equal(ask(SPAWNER_OPEN, &numbers[i]), 0);
	tenant = "one";
	run();
}

FIXTURE(set_up, tear_down)

/* Only few requests of a tenant are at the spawner, so that nobody's waits behind the others; they
 * are sent in the order in which they came. */
TEST(test_a_flood_leaves_room)
{
	uint64_t numbers[FLOOD], other;

	flood("one", numbers, FLOOD);
	for (size_t i = 0; i < PLACES; i++)
		hears(SPAWNER_OPEN, numbers[i], SPAWNER_OPEN_FDS);
	hears_nothing();
	assert_int_equal(spawner_link_waiting(link_, "one"), FLOOD - PLACES);
	assert_int_equal(spawner_link_waiting(link_, "two"), 0);
	flood("two", &other, 1);
	hears(SPAWNER_OPEN, other, SPAWNER_OPEN_FDS);
	for (size_t i = 0; i < FLOOD; i++) {
		hears_nothing();
		says(SPAWNER_OPEN_FAILED, numbers[i], failure("mount", EIO), 0);
		assert_int_equal(told.answers, i + 1);
		if (i + PLACES < FLOOD)
			hears(SPAWNER_OPEN, numbers[i + PLACES], SPAWNER_OPEN_FDS);
	}
	assert_int_equal(spawner_link_waiting(link_, "one"), 0);
	assert_int_equal(losses, 0);
}

/* Where floods of several tenants have all places, the next one is that of who has used none. */
TEST(test_a_place_is_for_who_has_used_least)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	enum { FULL = LIMIT_SPAWNER_REQUESTS / PLACES };
	uint64_t numbers[FULL][FLOOD], other;

	assert_true(FULL <= ARRAY_SIZE(names));
	for (size_t i = 0; i < FULL; i++) {
		flood(names[i], numbers[i], FLOOD);
		for (size_t j = 0; j < PLACES; j++)
			hears(SPAWNER_OPEN, numbers[i][j], SPAWNER_OPEN_FDS);
	}
	flood("other", &other, 1);
	hears_nothing();
	pass(10);
	says(SPAWNER_OPEN_FAILED, numbers[0][0], failure("mount", EIO), 0);
	hears(SPAWNER_OPEN, other, SPAWNER_OPEN_FDS);
	hears_nothing();
}

/* A request that waits for a file system gives its place to the next, and is answered later. */
TEST(test_what_waits_has_no_place)
{
	uint64_t numbers[FLOOD];

	flood("one", numbers, FLOOD);
	for (size_t i = 0; i < PLACES; i++)
		hears(SPAWNER_OPEN, numbers[i], SPAWNER_OPEN_FDS);
	hears_nothing();
	says(SPAWNER_WAITS, numbers[0], nothing, 0);
	hears(SPAWNER_OPEN, numbers[PLACES], SPAWNER_OPEN_FDS);
	hears_nothing();
	says(SPAWNER_OPEN_FAILED, numbers[0], failure("wait", EIO), 0);
	assert_string_equal(told.step, "wait");
	hears_nothing();
	/* One that is answered, or forgotten, may have crossed it. */
	says(SPAWNER_WAITS, numbers[0], nothing, 0);
	spawner_link_forget(link_, numbers[1]);
	says(SPAWNER_WAITS, numbers[1], nothing, 0);
	hears(SPAWNER_OPEN, numbers[PLACES + 1], SPAWNER_OPEN_FDS);
	says(SPAWNER_OPEN_FAILED, numbers[1], failure("late", EIO), 0);
	assert_int_equal(told.answers, 1);
	assert_int_equal(losses, 0);
}

/* A message that the spawner never sends about a request ends it. */
TEST_WITH(test_what_no_request_is_told, NULL, NULL)
{
	static const struct {
		uint8_t said;
		bool sent, twice, payload;
		uint8_t n_fds;
		unsigned losses;
	} rows[] = {
		{SPAWNER_WAITS, true, false, false, 0, 0},
		{SPAWNER_WAITS, true, true, false, 0, 1},
		{SPAWNER_WAITS, true, false, true, 0, 1},
		{SPAWNER_WAITS, true, false, false, 1, 1},
		{SPAWNER_WAITS, false, false, false, 0, 1},
		{SPAWNER_OPENED, false, false, false, 2, 1},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t numbers[FLOOD], number;

		set_up(state);
		flood("one", numbers, FLOOD);
		number = numbers[rows[i].sent ? 0 : FLOOD - 1];
		for (int j = 0; j <= rows[i].twice; j++)
			says(rows[i].said, number, rows[i].payload ? TEXT_LITERAL("x") : nothing,
				rows[i].n_fds);
		if (losses != rows[i].losses)
			fail_msg("row %zu: lost %u", i, losses);
		/* Those that were never sent are answered, too. */
		assert_int_equal(told.answers, rows[i].losses * FLOOD);
		tear_down(state);
	}
}

static unsigned open_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* One that is forgotten before its turn is not sent. One that was sent has its place until its
 * answer comes: the spawner works on it. */
TEST(test_what_is_forgotten_in_turn)
{
	unsigned before = open_descriptors();
	uint64_t numbers[FLOOD];

	flood("one", numbers, FLOOD);
	for (size_t i = 0; i < FLOOD; i++)
		if (i != FLOOD - 1)
			spawner_link_forget(link_, numbers[i]);
	assert_int_equal(spawner_link_waiting(link_, "one"), 1);
	for (size_t i = 0; i < PLACES; i++)
		hears(SPAWNER_OPEN, numbers[i], SPAWNER_OPEN_FDS);
	hears_nothing();
	assert_int_equal(open_descriptors(), before + SPAWNER_OPEN_FDS);
	says(SPAWNER_OPEN_FAILED, numbers[0], failure("mount", EIO), 0);
	hears(SPAWNER_OPEN, numbers[FLOOD - 1], SPAWNER_OPEN_FDS);
	assert_int_equal(open_descriptors(), before);
	assert_int_equal(told.answers, 0);
	assert_int_equal(losses, 0);
}
