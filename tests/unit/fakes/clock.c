// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/clock.h"
#include "tests/lib/unit.h"

static int64_t now;

static int64_t read_clock(void)
{
	return now;
}

static void move_to(int64_t then)
{
	now = then;
	clock_begin_turn();
	timers_run();
}

void fake_clock_start(void)
{
	now = 1000 * CLOCK_NS_PER_S;
	clock_replace(read_clock);
}

void fake_clock_stop(void)
{
	clock_replace(NULL);
}

void fake_clock_pass(int64_t ms)
{
	move_to(now + ms * CLOCK_NS_PER_MS);
}

void fake_clock_pass_until(const struct timer *timer)
{
	assert_true(timer_is_set(timer));
	move_to(timer->due);
}

void fake_clock_work(int64_t us)
{
	now += us * CLOCK_NS_PER_US;
}
