/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A clock that stands still until the test lets time pass. */

#include "supervisor/base/clock.h"
#include "supervisor/base/timer.h"

/** From now on clock_now() returns the test's time. */
void fake_clock_start(void);
/** From now on clock_now() returns the kernel's time again. */
void fake_clock_stop(void);

/** Lets @ms milliseconds pass and runs the timers that expire by then. */
void fake_clock_pass(int64_t ms);

/** Lets time pass until @timer, which must be set, expires. */
void fake_clock_pass_until(const struct timer *timer);

/** Lets @us microseconds of this turn pass, as work does that takes long: no timer runs. */
void fake_clock_work(int64_t us);
