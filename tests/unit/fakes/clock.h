/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Time that stands still until the test lets it pass. */

#include "supervisor/base/clock.h"
#include "supervisor/base/timer.h"

/** clock_now() is what the test says from now on. */
void fake_clock_start(void);
/** And the kernel's again. */
void fake_clock_stop(void);

/** So much time passes, and what is due by then expires. */
void fake_clock_pass(int64_t ms);

/** Time passes until @timer, which is set, expires. */
void fake_clock_pass_until(const struct timer *timer);
