// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd and cloister-egress. The peers are hostile. */
#include "common/wake_cost.h"

#include "common/limits.h"

#include <time.h>

#define NS_PER_US 1000LL
#define NS_PER_MS 1000000LL

static int64_t read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int64_t read_wall_clock(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

static int64_t read_cpu_clock(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

static int64_t (*read_wall)(void) = read_wall_clock;
static int64_t (*read_cpu)(void) = read_cpu_clock;

/* Of this thread: when the present calls began, and both clocks when they were last read together.
 */
static _Thread_local struct {
	int64_t began, wall, cpu;
} meter;

void wake_cost_begin(void)
{
	const int64_t now = read_wall();

	if (meter.wall == 0 || now - meter.wall >= LIMIT_WAKE_FRESH_US * NS_PER_US) {
		meter.wall = now;
		meter.cpu = read_cpu();
	}
	meter.began = now;
}

/* Returns a lower bound of the CPU time of calls that were certainly or perhaps dear. */
static int64_t look_closer(void)
{
	int64_t took = read_cpu() - meter.cpu - (meter.began - meter.wall);

	meter.wall = 0;
	return took;
}

static bool was_long(void)
{
	return read_wall() - meter.began >= LIMIT_WAKE_COST_US * NS_PER_US;
}

int64_t wake_cost_stop(void)
{
	int64_t ns = was_long() ? look_closer() : 0;

	return ns >= LIMIT_WAKE_COST_US * NS_PER_US ? ns : 0;
}

bool wake_cost_end(struct wake_cost *cost, bool woke)
{
	bool is_long = was_long();

	if (!is_long || look_closer() < LIMIT_WAKE_COST_US * NS_PER_US) {
		/* A long call that was not dear may have been almost that. */
		if (woke && !is_long)
			cost->n_dear = 0;
		return false;
	}
	if (cost->n_dear < LIMIT_WAKES_DEAR)
		cost->n_dear++;
	return cost->n_dear == LIMIT_WAKES_DEAR;
}

bool wake_cost_add(struct wake_cost_sum *sum, int64_t ns)
{
	int64_t now;

	if (ns == 0)
		return false;
	now = read_wall();
	if (sum->since == 0 || now - sum->since >= LIMIT_WAKES_DEAR_MS * NS_PER_MS)
		*sum = (struct wake_cost_sum){.since = now};
	sum->ns += ns;
	return sum->ns > LIMIT_WAKES_DEAR_US * NS_PER_US;
}

bool wake_cost_add_both(
	struct wake_cost_sum *of_tenant, struct wake_cost_sum *of_workspace, int64_t ns)
{
	const bool dear = wake_cost_add(of_tenant, ns);

	(void)wake_cost_add(of_workspace, ns);
	return dear && of_workspace->ns > LIMIT_WAKES_DEAR_OWN_US * NS_PER_US;
}

void wake_cost_replace_clocks(int64_t (*wall)(void), int64_t (*cpu)(void))
{
	read_wall = wall ? wall : read_wall_clock;
	read_cpu = cpu ? cpu : read_cpu_clock;
	meter.wall = 0;
}
