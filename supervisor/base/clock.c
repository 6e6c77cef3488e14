// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/base/clock.h"

#include <stddef.h>
#include <time.h>

#define FAKE_EPOCH_MS 1700000000000 /* when the clock of a test began */

static int64_t read_monotonic(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * CLOCK_NS_PER_S + now.tv_nsec;
}

static int64_t (*read_clock)(void) = read_monotonic;
static int64_t reading; /* the time in this turn; 0: not read yet */

int64_t clock_now(void)
{
	if (reading == 0)
		reading = read_clock();
	return reading;
}

int64_t clock_read(void)
{
	return read_clock();
}

int64_t clock_unix_ms(void)
{
	struct timespec now;

	if (read_clock != read_monotonic)
		return FAKE_EPOCH_MS + read_clock() / CLOCK_NS_PER_MS;
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void clock_begin_turn(void)
{
	reading = 0;
}

void clock_replace(int64_t (*read)(void))
{
	read_clock = read ? read : read_monotonic;
	reading = 0;
}
