// SPDX-License-Identifier: Apache-2.0
/* links: cloister-supervisor */
#include "supervisor/host/namespaces_probe.h"

#include "tests/lib/scratch_fixture.h"
#include "tests/lib/unit.h"

GROUP_FIXTURE(scratch_set_up, scratch_tear_down)

/* Files in a directory simulate the settings of other kernels. */
TEST(test_each_cause_has_its_command)
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

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		scratch_text(&scratch, cases[i].name, cases[i].cause);
		assert_non_null(strstr(namespaces_remedy(scratch.path, EPERM), cases[i].command));
		scratch_text(&scratch, cases[i].name, cases[i].harmless);
		assert_null(strstr(namespaces_remedy(scratch.path, EPERM), "sysctl"));
	}
	assert_non_null(strstr(namespaces_remedy(scratch.path, ENOSPC), "outer container"));
	assert_non_null(strstr(namespaces_remedy("/nonexistent", EPERM), "seccomp"));
}
