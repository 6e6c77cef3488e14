// SPDX-License-Identifier: Apache-2.0
/* links: cloister-supervisor */
#include "supervisor/host/namespaces_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/cloister-test-sys.XXXXXX";

static void set(const char *name, const char *value)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(value, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* Files in a directory simulate the settings of other kernels. */
static void test_each_cause_has_its_command(void **state)
{
	static const struct {
		const char *name, *cause, *harmless, *command;
	} cases[] = {
		{"kernel/apparmor_restrict_unprivileged_userns", "1\n", "0\n",
			"sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
		{"kernel/unprivileged_userns_clone", "0\n", "1\n",
			"sysctl -w kernel.unprivileged_userns_clone=1"},
		{"user/max_user_namespaces", "0\n", "10\n",
			"sysctl -w user.max_user_namespaces=15000"},
		{"user/max_mnt_namespaces", "0\n", "10\n",
			"sysctl -w user.max_mnt_namespaces=15000"},
		{"user/max_pid_namespaces", "0\n", "10\n",
			"sysctl -w user.max_pid_namespaces=15000"},
		{"user/max_net_namespaces", "0\n", "10\n",
			"sysctl -w user.max_net_namespaces=15000"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set(cases[i].name, cases[i].cause);
		assert_non_null(strstr(namespaces_remedy(directory, EPERM), cases[i].command));
		set(cases[i].name, cases[i].harmless);
		assert_null(strstr(namespaces_remedy(directory, EPERM), "sysctl"));
	}
	assert_non_null(strstr(namespaces_remedy(directory, ENOSPC), "outer container"));
	assert_non_null(strstr(namespaces_remedy("/nonexistent", EPERM), "seccomp"));
}

static int make_directory(void **state)
{
	char path[256];

	(void)state;
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/kernel", directory);
	if (mkdir(path, 0700) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/user", directory);
	return mkdir(path, 0700);
}

static int remove_directory(void **state)
{
	char command[256];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_cause_has_its_command),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
