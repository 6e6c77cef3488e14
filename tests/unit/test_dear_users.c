/* links: cloister-supervisor */
/* fakes: clock */
// SPDX-License-Identifier: Apache-2.0
/* For how long users are refused whose connections made system calls dear. */

#include "supervisor/config/peer_auth.h"
#include "supervisor/connection/dear_users.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/clock.h"

static void add(uid_t uid)
{
	const struct peer_credentials peer = {.uid = uid};

	dear_user_add(&peer, NULL);
}

TEST(test_users)
{
	int64_t ms = LIMIT_DEAR_USER_MS;

	fake_clock_start();
	assert_int_equal(dear_user_left_ms(1), 0);
	for (int i = 0; i < 10; i++) {
		add(1);
		add(1); /* another of its connections, meanwhile */
		assert_int_equal(dear_user_left_ms(1), ms);
		assert_int_equal(dear_user_left_ms(2), 0);
		fake_clock_pass(ms - 1);
		assert_int_equal(dear_user_left_ms(1), 1);
		fake_clock_pass(1);
		assert_int_equal(dear_user_left_ms(1), 0);
		ms = 2 * ms < LIMIT_DEAR_USER_MOST_MS ? 2 * ms : LIMIT_DEAR_USER_MOST_MS;
	}
	fake_clock_pass(LIMIT_DEAR_USER_MOST_MS);
	add(1);
	assert_int_equal(dear_user_left_ms(1), LIMIT_DEAR_USER_MS);
	/* More users than are known: the last ones are. */
	for (uid_t uid = 100; uid < 100 + 2 * LIMIT_DEAR_USERS; uid++) {
		add(uid);
		assert_int_equal(dear_user_left_ms(uid), LIMIT_DEAR_USER_MS);
	}
	fake_clock_stop();
}
