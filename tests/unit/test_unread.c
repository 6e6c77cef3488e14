/* links: cloister-supervisor */
/* SPDX-License-Identifier: Apache-2.0 */

#include "supervisor/config/tenant.h"
#include "supervisor/schedule/unread.h"
#include "supervisor/schedule/usage.h"
#include "tests/lib/unit.h"

#include <event2/event.h>

#define TENANTS     200
#define CONNECTIONS 20

static struct unread unread;

/* A hostile connection takes all that it can, in pieces of every size. */
static void fill(struct unread_account *account)
{
	for (size_t piece = 16 * MIB; piece > 0; piece /= 2)
		while (piece <= unread_room(account))
			unread_count(account, (int64_t)piece);
}

TEST(test_who_comes_later_finds_room)
{
	static struct tenant_usage usages[TENANTS + 1];
	static struct unread_account accounts[TENANTS + 1][CONNECTIONS];

	unread_init(&unread);
	for (size_t i = 0; i < TENANTS; i++)
		for (size_t j = 0; j < CONNECTIONS; j++) {
			unread_open(&accounts[i][j], &unread);
			unread_move(&accounts[i][j], &usages[i]);
			/* Each tenant may use some memory, however much the others hold. */
			assert_true(j > 0 ||
				    unread_may_begin(&accounts[i][j], LIMIT_UNREAD_LINE_BYTES));
			fill(&accounts[i][j]);
			assert_true(unread.bytes <=
				    LIMIT_UNREAD_BYTES + (i + 1) * LIMIT_UNREAD_TENANT_BYTES);
			assert_true(usages[i].unread_bytes <= LIMIT_UNREAD_BYTES / 2);
		}
	/* After all of them there is still enough for a small call. */
	unread_open(&accounts[TENANTS][0], &unread);
	unread_move(&accounts[TENANTS][0], &usages[TENANTS]);
	assert_true(unread_may_begin(&accounts[TENANTS][0], LIMIT_UNREAD_LINE_BYTES));
	for (size_t i = 0; i <= TENANTS; i++)
		for (size_t j = 0; j < CONNECTIONS; j++)
			if (accounts[i][j].all)
				unread_close(&accounts[i][j]);
	assert_true(unread.bytes == 0 && unread.of_control == 0);
	for (size_t i = 0; i < TENANTS; i++)
		assert_true(usages[i].unread_bytes == 0);
}

TEST(test_the_largest_listing_fits)
{
	struct unread_account account;
	struct tenant_usage usage = {0};

	unread_init(&unread);
	unread_open(&account, &unread);
	unread_move(&account, &usage);
	while (account.bytes <= LIMIT_RESULT_BYTES) {
		assert_true(384 * KIB <= unread_room(&account));
		unread_count(&account, 384 * KIB);
	}
	/* The copy for a model fits too, with one character in seven escaped. */
	assert_true(LIMIT_RESULT_BYTES + LIMIT_RESULT_BYTES / 7 <= unread_tenant_room(&account));
	unread_close(&account);
}

static void on_room(void *context)
{
	++*(int *)context;
}

TEST(test_whoever_waits_is_told_once)
{
	struct unread_account account, other;
	struct tenant_usage usage = {0};
	int told = 0;
	struct unread_waiter waiter = {
		.account = &account, .wanted = KIB, .act = on_room, .context = &told};

	unread_init(&unread);
	unread_open(&account, &unread);
	unread_open(&other, &unread);
	unread_move(&account, &usage);
	unread_move(&other, &usage);
	unread_count(&other, LIMIT_UNREAD_BYTES / 2);
	assert_false(unread_may_act(&waiter));
	unread_wait(&waiter);
	unread_wait(&waiter);
	unread_count(&other, -(int64_t)LIMIT_UNREAD_BYTES / 4);
	loop_turn_end();
	assert_int_equal(told, 1);
	unread_set_full(&account, true);
	unread_wait(&waiter);
	unread_count(&other, -1);
	loop_turn_end();
	assert_int_equal(told, 1);
	unread_set_full(&account, false);
	loop_turn_end();
	assert_int_equal(told, 2);
	unread_wait(&waiter);
	unread_stop_waiting(&waiter);
	unread_count(&other, -1);
	loop_turn_end();
	assert_int_equal(told, 2);
}

static int start_turns(void **state)
{
	struct event_base *base = event_base_new();

	*state = base;
	return base ? loop_turn_start(base) : -1;
}

static int stop_turns(void **state)
{
	loop_turn_stop();
	event_base_free(*state);
	return 0;
}

GROUP_FIXTURE(start_turns, stop_turns)
