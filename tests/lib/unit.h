/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What all programs of tests/unit begin with. Each TEST() is added before main, which is in unit.c,
 * and they run in the order of the file. */

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/** Adds a test; NULL and NULL: it has no set-up and tear-down. */
void unit_add(const char *name, CMUnitTestFunction test, CMFixtureFunction set_up,
	CMFixtureFunction tear_down);

/** Sets what surrounds each TEST() that is added after this. */
void unit_fixture(CMFixtureFunction set_up, CMFixtureFunction tear_down);

/** Adds a test with the fixture of the file. */
void unit_add_usual(const char *name, CMUnitTestFunction test);

/** Sets what surrounds all tests of the program. */
void unit_group(CMFixtureFunction set_up, CMFixtureFunction tear_down);

/* clang-format off */
#define UNIT_BEFORE_MAIN(name, act) \
	__attribute__((constructor)) static void name(void) \
	{ \
		act; \
	}
#define UNIT_TEST(test, act) \
	static void test(void **state); \
	UNIT_BEFORE_MAIN(test##_is_added, act) \
	static void test(__attribute__((unused)) void **state)
/* clang-format on */

/** The head of a test with the FIXTURE() above it, if there is one. */
#define TEST(test) UNIT_TEST(test, unit_add_usual(#test, test))
/** The head of a test with a set-up and a tear-down, each of which may be NULL. */
#define TEST_WITH(test, set_up, tear_down) UNIT_TEST(test, unit_add(#test, test, set_up, tear_down))
/** Names the set-up and tear-down of each TEST() below it. */
#define FIXTURE(set_up, tear_down) \
	UNIT_BEFORE_MAIN(unit_fixture_is_set, unit_fixture(set_up, tear_down))
/** Names the set-up and tear-down of the whole program. */
#define GROUP_FIXTURE(set_up, tear_down) \
	UNIT_BEFORE_MAIN(unit_group_is_set, unit_group(set_up, tear_down))
