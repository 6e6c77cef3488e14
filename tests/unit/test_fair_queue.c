// SPDX-License-Identifier: Apache-2.0
/* Whose turn it is with places that tenants share. */
#include "common/fair_queue.h"
#include "tests/lib/unit.h"

static struct fair_queue queue;
static uint64_t now;

static int set_up(void **state)
{
	(void)state;
	fair_queue_init(&queue, 4, 2, 0);
	now = 1000;
	return 0;
}

static struct fair_entry *added[32];
static size_t n_added;

/* Those that a test has left end here: they are static. */
static int tear_down(void **state)
{
	(void)state;
	while (n_added > 0)
		fair_queue_end(&queue, added[--n_added], now);
	return 0;
}

FIXTURE(set_up, tear_down)

static struct fair_entry *add(struct fair_entry *entry, const char *tenant)
{
	added[n_added++] = entry;
	*entry = (struct fair_entry){0};
	assert_int_equal(fair_queue_add(&queue, entry, text_from(tenant)), 0);
	return entry;
}

static void next_is(const struct fair_entry *entry)
{
	assert_ptr_equal(fair_queue_next(&queue, now, NULL, NULL), entry);
}

static void end(struct fair_entry *entry)
{
	fair_queue_end(&queue, entry, now);
	assert_int_equal(entry->state, FAIR_NOWHERE);
}

/* One place. */
static void serve(struct fair_entry *entry, uint64_t ms)
{
	next_is(entry);
	now += ms;
	end(entry);
}

TEST(test_a_tenant_has_few_places)
{
	static struct fair_entry a[4], b;

	for (size_t i = 0; i < ARRAY_SIZE(a); i++)
		add(&a[i], "a");
	next_is(&a[0]);
	next_is(&a[1]);
	next_is(NULL);
	next_is(add(&b, "b"));
	assert_int_equal(fair_queue_waiting(&queue, text_from("a")), 2);
	assert_int_equal(fair_queue_count(&queue, text_from("a")), 4);
	end(&a[1]);
	next_is(&a[2]);
	end(&a[3]); /* it waits */
	end(&a[0]);
	end(&a[2]);
	end(&b);
	end(&b); /* it is in no queue */
	assert_int_equal(queue.n_running + queue.n_waiting, 0);
	assert_true(LIST_EMPTY(&queue.tenants));
}

/* A tenant whose entries take long, or that has many, does not hold up the others. */
TEST(test_time_counts)
{
	static struct fair_entry large, again, small[3];

	fair_queue_init(&queue, 1, 1, 0);
	add(&large, "a");
	add(&again, "a");
	next_is(&large);
	now += 2000;
	for (size_t i = 0; i < ARRAY_SIZE(small); i++)
		add(&small[i], "b");
	end(&large);
	for (size_t i = 0; i < ARRAY_SIZE(small); i++)
		serve(&small[i], 900);
	serve(&again, 1);
	next_is(NULL);
}

/* A tenant that comes anew each time is no earlier for that than one that waits. */
TEST(test_coming_again_is_no_advantage)
{
	static struct fair_entry a, long_one, waits;

	fair_queue_init(&queue, 1, 1, 0);
	serve(add(&a, "a"), 1);
	add(&long_one, "b");
	add(&waits, "b");
	serve(&long_one, 3000);
	for (int i = 0; i < 3; i++)
		serve(add(&a, "a"), 1000);
	add(&a, "a");
	serve(&waits, 1);
	serve(&a, 1);
}

/* One that returns goes on before others of its tenant, and tenants still take turns. */
TEST(test_one_that_returns)
{
	static struct fair_entry a, later, b;

	fair_queue_init(&queue, 1, 1, 0);
	add(&a, "a");
	add(&later, "a");
	add(&b, "b");
	next_is(&a);
	fair_queue_return(&queue, &a, now); /* a turn that took no time counts, too */
	serve(&b, 5);
	serve(&a, 1);
	serve(&later, 1);
}

/* Tenants that hold their places for too long keep out nobody but themselves. */
TEST(test_late_ones_count_for_their_tenants)
{
	static struct fair_entry a[3], b[3], c;

	for (size_t i = 0; i < 3; i++) {
		add(&a[i], "a");
		add(&b[i], "b");
	}
	for (size_t i = 0; i < 4; i++)
		assert_non_null(fair_queue_next(&queue, now, NULL, NULL));
	add(&c, "c");
	next_is(NULL);
	for (size_t i = 0; i < 2; i++) {
		fair_queue_late(&queue, &a[i], now);
		fair_queue_late(&queue, &b[i], now);
	}
	assert_int_equal(queue.n_running, 0);
	next_is(&c);
	next_is(NULL);
	now += 100000; /* it is not counted */
	end(&a[0]);
	next_is(&a[2]);
	end(&b[1]);
	next_is(&b[2]);
}

/* Some places are for those that have none. */
TEST(test_places_are_kept)
{
	static struct fair_entry a[3], b[2], c, d;

	fair_queue_init(&queue, 4, 3, 2);
	for (size_t i = 0; i < 3; i++)
		add(&a[i], "a");
	next_is(&a[0]);
	next_is(&a[1]);
	next_is(NULL);
	add(&b[0], "b");
	add(&b[1], "b");
	next_is(&b[0]);
	next_is(NULL);
	next_is(add(&c, "c"));
	add(&d, "d");
	next_is(NULL);
	end(&c);
	next_is(&d);
}

static bool is_not(void *context, struct fair_entry *entry)
{
	return entry != context;
}

TEST(test_one_that_may)
{
	static struct fair_entry first, second;

	add(&first, "a");
	assert_null(fair_queue_next(&queue, now, is_not, &first));
	add(&second, "a");
	assert_ptr_equal(fair_queue_next(&queue, now, is_not, &first), &second);
	next_is(&first);
}
