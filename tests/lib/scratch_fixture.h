/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A scratch directory for each test of a program: cmocka's set-up and tear-down. */

#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"

static struct scratch scratch;

static inline int scratch_set_up(void **state)
{
	(void)state;
	scratch = scratch_new();
	return 0;
}

static inline int scratch_tear_down(void **state)
{
	(void)state;
	scratch_done(&scratch);
	return 0;
}
