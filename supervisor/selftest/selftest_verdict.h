/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The verdict of a run of the self-test, for selftest.c; readers use selftest.h. */

#include "common/errors.h"

#include <stdbool.h>
#include <stdint.h>

struct selftest;

/**
 * Looks at the answers of the step that has ended. If one is a want, the run ends: later probes
 * build on earlier ones.
 */
void selftest_see_wants(struct selftest *selftest);

/** Whether @error of a call that sets the current canary up is a want. */
bool selftest_is_want(struct selftest *selftest, enum tool_error error);

/** Judges and logs the run that has ended. */
void selftest_judge(struct selftest *selftest);

/** Returns how many milliseconds after a run, or the start, the next one begins; 0: by request. */
int64_t selftest_pause_ms(const struct selftest *selftest);
