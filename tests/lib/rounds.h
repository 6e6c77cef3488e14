/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How many generated cases a unit test tries, and which. In the check (tests/run) they are few and
 * the same each time. With CLOISTER_DEEP=1, as in tests/deep, they are many, and others each time
 * where a case prints its seed. */

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline bool rounds_are_deep(void)
{
	const char *deep = getenv("CLOISTER_DEEP");

	return deep && strcmp(deep, "1") == 0;
}

static inline size_t rounds(size_t in_check, size_t in_deep)
{
	return rounds_are_deep() ? in_deep : in_check;
}

static inline size_t rounds_setting(const char *name, size_t otherwise)
{
	const char *value = getenv(name);

	return value ? strtoull(value, NULL, 10) : otherwise;
}

/* As rounds(), unless CLOISTER_ORACLE_CASES says how many. */
static inline size_t oracle_cases(size_t in_check, size_t in_deep)
{
	return rounds_setting("CLOISTER_ORACLE_CASES", rounds(in_check, in_deep));
}

/* Returns the seed of the first case: CLOISTER_ORACLE_SEED, if it is set. */
static inline size_t oracle_seed(void)
{
	return rounds_setting("CLOISTER_ORACLE_SEED", rounds_are_deep() ? (size_t)time(NULL) : 1);
}
