/* SPDX-License-Identifier: Apache-2.0 */

/* Runs what TEST() has added. */

#include "tests/lib/unit.h"

static struct CMUnitTest tests[64];
static size_t count;
static CMFixtureFunction usual_set_up, usual_tear_down, group_set_up, group_tear_down;

void unit_add(const char *name, CMUnitTestFunction test, CMFixtureFunction set_up,
	CMFixtureFunction tear_down)
{
	if (count == ARRAY_SIZE(tests))
		abort();
	tests[count++] = (struct CMUnitTest){name, test, set_up, tear_down, NULL};
}

void unit_fixture(CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
	usual_set_up = set_up;
	usual_tear_down = tear_down;
}

void unit_add_usual(const char *name, CMUnitTestFunction test)
{
	unit_add(name, test, usual_set_up, usual_tear_down);
}

void unit_group(CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
	group_set_up = set_up;
	group_tear_down = tear_down;
}

int main(void)
{
	return _cmocka_run_group_tests("tests", tests, count, group_set_up, group_tear_down);
}
