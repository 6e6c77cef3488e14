// SPDX-License-Identifier: Apache-2.0
/* links: cloister-spawner-core */
/* How many lines of the spawner's log are about each tenant. */
#include "common/tenant_log.h"
#include "tests/lib/unit.h"

/* Asks for @n lines about @tenant. Returns how many there may be. */
static unsigned ask(const char *tenant, unsigned n)
{
	unsigned may = 0;

	for (unsigned i = 0; i < n; i++)
		may += tenant_log_may(text_from(tenant));
	return may;
}

/* Asks while what is logged goes to a pipe. Returns how many lines it was, and the last of them. */
static unsigned lines_of(const char *tenant, unsigned n, char *ret, size_t size)
{
	int old = dup(STDERR_FILENO), ends[2];
	unsigned lines = 0;
	ssize_t len;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
	ask(tenant, n);
	dup2(old, STDERR_FILENO);
	close(old);
	len = read(ends[0], ret, size - 1);
	ret[len > 0 ? len : 0] = '\0';
	close(ends[0]);
	for (const char *at = ret; (at = strchr(at, '\n')); at++)
		lines++;
	return lines;
}

TEST(test_one_leaves_the_others_theirs)
{
	enum { ALL = LIMIT_REFUSALS_LOGGED_OF_TENANT };

	assert_int_equal(ask("flood", 20 * ALL), ALL);
	assert_int_equal(ask("other", ALL / 2), ALL / 2);
	assert_int_equal(ask("", 2 * ALL), ALL);
	assert_int_equal(ask("flood", 1), 0);
	assert_int_equal(ask("other", ALL), ALL - ALL / 2);
}

/* The log tells once that it tells no more. */
TEST(test_the_end_is_told_once)
{
	char text[4096];

	assert_int_equal(
		lines_of("loud", 10 * LIMIT_REFUSALS_LOGGED_OF_TENANT, text, sizeof(text)), 1);
	assert_non_null(strstr(text, "nothing more about tenant loud is logged"));
	assert_int_equal(lines_of("loud", 10, text, sizeof(text)), 0);
}

/* A cloisterd that was taken over may name any number of tenants. */
TEST(test_names_without_end)
{
	unsigned may = 0;
	char name[32];

	for (unsigned i = 0; i < 3 * LIMIT_CONFIG_TENANTS; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		may += ask(name, 1);
	}
	assert_in_range(
		may, LIMIT_CONFIG_TENANTS, LIMIT_CONFIG_TENANTS + LIMIT_REFUSALS_LOGGED_OF_TENANT);
	assert_int_equal(ask("one more", 1), 0);
	assert_int_equal(ask("t0", 1), 1);
}
