/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Deadlines in milliseconds of CLOCK_MONOTONIC. clock_gettime(2) */

#include <stdint.h>
#include <time.h>

static inline uint64_t monotonic_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/** Returns the time left until @deadline for poll(2), or 0 if it has passed. */
static inline int monotonic_left_ms(uint64_t deadline)
{
	uint64_t now = monotonic_ms();

	return deadline <= now ? 0 : deadline - now > 60000 ? 60000 : (int)(deadline - now);
}
