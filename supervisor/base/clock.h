/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Monotonic time for cloisterd's event loop. The clock is read once a turn, however many parts ask
 * for it, so that everything in one turn happens at one moment. clock_gettime(2), CLOCK_MONOTONIC.
 */

#include <stdint.h>

#define CLOCK_NS_PER_US 1000LL
#define CLOCK_NS_PER_MS 1000000LL
#define CLOCK_NS_PER_S  1000000000LL

/** Returns nanoseconds since a moment before cloisterd started. Never goes back. */
int64_t clock_now(void);

/** The same, but read again, to measure a slice of a turn. Do not decide by it what is due. */
int64_t clock_read(void);

/** Reads CLOCK_REALTIME and returns milliseconds since the epoch. */
int64_t clock_unix_ms(void);

/** A new turn begins: the next clock_now() reads the clock again. */
void clock_begin_turn(void);

/** For tests: uses @read in place of the kernel's clocks; NULL restores these. */
void clock_replace(int64_t (*read)(void));
