// SPDX-License-Identifier: Apache-2.0
/* links: cloister-supervisor */
/* cloisterd's cgroups: its own group, limits, and the cause of a command's end. */
#include "common/cgroup_file.h"
#include "common/config_defaults.h"
#include "common/limits.h"
#include "common/wire/wire_commands.h"
#include "supervisor/call/result/ended_by.h"
#include "supervisor/config/tenant.h"
#include "supervisor/host/cgroup.h"
#include "supervisor/workspace/limits.h"
#include "tests/lib/unit.h"

#include <limits.h>
#include <sys/sysinfo.h>

static void check_own(const char *proc_cgroup, const char *expected)
{
	struct text own;

	assert_int_equal(cgroup_own_path(text_from(proc_cgroup), &own), 0);
	assert_true(text_equal(own, text_from(expected)));
}

TEST(test_own_path)
{
	struct text own;

	check_own("0::/system.slice/cloister.service\n", "/system.slice/cloister.service");
	check_own("9:name=systemd:/a\n4:memory:/b\n0::/c\n", "/c");
	check_own("10:pids:/0::/a\n0::/", "/");
	check_own("0::/a:b\n", "/a:b");
	assert_int_equal(cgroup_own_path(TEXT_LITERAL("4:memory:/b\n"), &own), -ENOENT);
	assert_int_equal(cgroup_own_path((struct text){NULL, 0}, &own), -ENOENT);
	assert_int_equal(cgroup_own_path(TEXT_LITERAL("0::\n"), &own), -EBADMSG);
	assert_int_equal(cgroup_own_path(TEXT_LITERAL("0::a\n"), &own), -EBADMSG);
}

#define ROOT_MOUNT                                        \
	"23 28 0:22 / /proc rw shared:5 - proc proc rw\n" \
	"30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"

static const char *directory(const char *mountinfo, const char *own)
{
	static char path[PATH_MAX];
	int r = cgroup_directory(text_from(mountinfo), text_from(own), path, sizeof(path));

	assert_true(r == 0 || r == -ENOENT);
	return r == 0 ? path : "none";
}

TEST(test_directory)
{
	char path[16];

	assert_string_equal(directory(ROOT_MOUNT, "/a.slice/b"), "/sys/fs/cgroup/a.slice/b");
	assert_string_equal(directory(ROOT_MOUNT, "/"), "/sys/fs/cgroup/");
	/* Hybrid hosts, mounts of a part, no optional fields, escaped names. */
	assert_string_equal(directory("1 2 0:3 / /sys/fs/cgroup/memory rw - cgroup cgroup rw\n"
				      "1 2 0:3 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n",
				    "/a"),
		"/sys/fs/cgroup/unified/a");
	assert_string_equal(directory("1 2 0:3 /a /x rw - cgroup2 none rw\n", "/a/b"), "/x/b");
	assert_string_equal(directory("1 2 0:3 /a /x rw - cgroup2 none rw\n", "/a"), "/x");
	assert_string_equal(directory("1 2 0:3 /a /x rw - cgroup2 none rw\n", "/ab"), "none");
	assert_string_equal(
		directory("1 2 0:3 / /my\\040groups rw a:1 b:2 - cgroup2 none rw\n", "/a"),
		"/my groups/a");
	/* Outside this cgroup namespace. */
	assert_string_equal(directory(ROOT_MOUNT, "/../a"), "none");
	assert_string_equal(directory(ROOT_MOUNT, "/.."), "none");
	assert_string_equal(directory(ROOT_MOUNT, "/..a"), "/sys/fs/cgroup/..a");
	assert_int_equal(cgroup_directory(text_from(ROOT_MOUNT), TEXT_LITERAL("/abcdef"), path,
				 sizeof(path)),
		-ENAMETOOLONG);
}

TEST(test_malformed_mountinfo)
{
	static const char *const texts[] = {"", "\n", "\n\n\n", "1\n", "1 2 3 4 5 6 7\n",
		"1 2 0:3 / /x rw -\n", "1 2 0:3 / /x rw - \n", "1 2 0:3 / /x rw cgroup2 - none\n",
		"- - - - - - - - -\n", "1 2 0:3 / /cgroup2 rw - tmpfs cgroup2 rw\n"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_string_equal(directory(texts[i], "/a"), "none");
}

/* Never freed: the process ends soon. */
static const struct tenant *default_tenant(void)
{
	static struct tenant *tenant;

	if (!tenant)
		tenant = tenant_new("default");
	assert_non_null(tenant);
	return tenant;
}

TEST(test_limits)
{
	const struct tenant_limits *limits = &default_tenant()->limits;
	const struct workspace_limits workspace = limits_of_workspace(limits);
	const struct command_limits command = limits_of_command(limits);
	struct sysinfo info;
	uint64_t memory;

	assert_int_equal(sysinfo(&info), 0);
	memory = (uint64_t)info.totalram * info.mem_unit;
	/* A limit beyond the machine's memory would have no effect. */
	assert_true(command.memory_bytes <= memory / 2);
	assert_true(workspace.memory_bytes < memory);
	assert_true(command.memory_bytes <= DEFAULT_COMMAND_MEMORY_BYTES);
	assert_true(workspace.memory_bytes <= DEFAULT_WORKSPACE_MEMORY_BYTES);
	assert_true(command.memory_bytes >= LIMIT_MEMORY_MIN_BYTES);
	assert_true(command.memory_bytes < workspace.memory_bytes);
	assert_true(command.processes < workspace.processes);
}

static enum ended_by cause(int wait_status, uint64_t oom_kills, uint64_t refused_forks)
{
	struct command_ended ended = {
		.wait_status = (uint32_t)wait_status,
		.cgroup = {.oom_kills = oom_kills, .refused_forks = refused_forks},
	};

	return command_cause(&ended);
}

TEST(test_causes)
{
	const int exit_0 = 0, exit_1 = 1 << 8, killed = 9;

	assert_int_equal(cause(exit_0, 0, 0), ENDED_BY_EXIT);
	assert_int_equal(cause(exit_1, 0, 0), ENDED_BY_EXIT);
	assert_int_equal(cause(killed, 0, 0), ENDED_BY_SIGNAL);
	assert_int_equal(cause(SIGSYS, 0, 0), ENDED_BY_SIGNAL);
	assert_int_equal(cause(killed, 1, 0), ENDED_BY_MEMORY);
	assert_int_equal(cause(exit_1, 1, 0), ENDED_BY_MEMORY);
	assert_int_equal(cause(exit_1, 0, 1), ENDED_BY_PIDS);
	assert_int_equal(cause(killed, 0, 1), ENDED_BY_PIDS);
	assert_int_equal(cause(killed, 1, 1), ENDED_BY_MEMORY);
	/* The command succeeded in spite of the limit. */
	assert_int_equal(cause(exit_0, 1, 1), ENDED_BY_EXIT);
	assert_string_equal(tool_error_name(ended_by_error(ENDED_BY_MEMORY)), "MEMORY_LIMIT");
	assert_string_equal(tool_error_name(ended_by_error(ENDED_BY_PIDS)), "PROCESS_LIMIT");
	assert_string_equal(ended_by_name(ENDED_BY_MEMORY), "memory");
	assert_string_equal(ended_by_name(ENDED_BY_PIDS), "pids");
}

TEST(test_sentences)
{
	char buffer[256];

	for (unsigned i = 0; i < ENDED_BY_COUNT; i++) {
		const char *sentence = command_cause_sentence(
			i, &default_tenant()->limits, buffer, sizeof(buffer));

		assert_true((sentence != NULL) == (i == ENDED_BY_MEMORY || i == ENDED_BY_PIDS));
		if (sentence)
			assert_true(strlen(sentence) < sizeof(buffer) - 1); /* not cut */
	}
}

TEST(test_enforcers)
{
	const struct cgroup none = {.root = -1, .missing = "x"};
	const struct cgroup all = {.controllers = CGROUP_CONTROLLERS_END - 1, .io_weight = true};
	const struct cgroup no_io = {.controllers = CGROUP_IO};

	assert_string_equal(cgroup_enforcer_name(cgroup_enforcer_of_memory(&none)), "none");
	assert_string_equal(cgroup_enforcer_name(cgroup_enforcer_of_processes(&none)), "rlimit");
	assert_string_equal(cgroup_enforcer_name(cgroup_enforcer_of_cpu(&none)), "none");
	assert_string_equal(cgroup_enforcer_name(cgroup_enforcer_of_io(&none)), "none");
	assert_string_equal(cgroup_enforcer_name(cgroup_enforcer_of_memory(&all)), "cgroup");
	assert_string_equal(cgroup_enforcer_name(cgroup_enforcer_of_processes(&all)), "cgroup");
	assert_string_equal(cgroup_enforcer_name(cgroup_enforcer_of_cpu(&all)), "cgroup");
	assert_string_equal(cgroup_enforcer_name(cgroup_enforcer_of_io(&all)), "cgroup");
	assert_string_equal(cgroup_enforcer_name(cgroup_enforcer_of_io(&no_io)), "none");
}
