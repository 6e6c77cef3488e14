// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a command, as an attacker's program: other processes, its own privileges, and ways to
 * stay alive.
 */
#include "probe/probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>

#define LAST_DESCRIPTOR 4096
#define LAST_CAPABILITY 63

#define OPEN(function, path, flags)                 \
	static const char *function(void)           \
	{                                           \
		return probe_open((path), (flags)); \
	}

/* clang-format off */
/* pid 1 is the command's init, which could be a way to the worker and its root */
OPEN(init_exe, "/proc/1/exe", O_RDONLY)
OPEN(init_exe_write, "/proc/1/exe", O_WRONLY)
OPEN(init_root, "/proc/1/root", O_RDONLY)
OPEN(init_cwd, "/proc/1/cwd", O_RDONLY)
OPEN(init_mem, "/proc/1/mem", O_RDWR)
OPEN(init_environ, "/proc/1/environ", O_RDONLY)
OPEN(init_descriptors, "/proc/1/fd", O_RDONLY)
OPEN(init_namespace, "/proc/1/ns/mnt", O_RDONLY)
/* clang-format on */

static const char *init_maps(void)
{
	return probe_read("/proc/1/maps");
}

static const char *init_ptrace(void)
{
	return probe_answer(RAW4(SYS_ptrace, PTRACE_ATTACH, 1, 0, 0));
}

static const char *init_read_memory(void)
{
	char byte;
	struct iovec here = {&byte, 1}, there = {(void *)0x400000, 1};

	return probe_answer(RAW6(SYS_process_vm_readv, 1, &here, 1, &there, 1, 0));
}

/* The user namespace of its own process: there is no other that it could join. */
static const char *setns_self(void)
{
	long fd = RAW4(SYS_openat, AT_FDCWD, "/proc/self/ns/user", O_RDONLY, 0);

	return probe_answer(fd < 0 ? fd : RAW2(SYS_setns, fd, 0));
}

/* Calls @counts with every name in /proc/... at @path and returns how often it said yes. */
static long count_names(const char *path, int (*counts)(const char *name))
{
	static char entries[8192];
	long fd = RAW4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0), n;
	long count = 0;

	if (fd < 0)
		return fd;
	while ((n = RAW3(SYS_getdents64, fd, entries, sizeof(entries))) > 0) {
		for (long at = 0; at < n;) {
			const struct dirent64 *entry = (const struct dirent64 *)(entries + at);

			count += counts(entry->d_name);
			at += entry->d_reclen;
		}
	}
	RAW1(SYS_close, fd);
	return n < 0 ? n : count;
}

static int is_number(const char *name)
{
	return name[0] >= '0' && name[0] <= '9';
}

/*
 * Counts the init, the shell, the program and this process; the shell may have become the program
 * by exec.
 */
static const char *processes_seen(void)
{
	long n = count_names("/proc", is_number);

	return n < 0 ? probe_answer(n) : n <= 4 ? "own" : probe_number(n);
}

static const char *extra_descriptors(void)
{
	for (long fd = 3; fd < LAST_DESCRIPTOR; fd++)
		if (RAW2(SYS_fcntl, fd, F_GETFD) >= 0)
			return probe_number(fd);
	return "none";
}

static const char *descriptor_walk(void)
{
	return probe_answer(RAW4(SYS_openat, 7, "../../../../etc/shadow", O_RDONLY, 0));
}

static const char *working_directory(void)
{
	static char path[256];
	long n = RAW2(SYS_getcwd, path, sizeof(path) - 1);

	return n < 0 ? probe_answer(n) : path;
}

/* privileges */

static const char *become_root(void)
{
	return probe_answer(RAW3(SYS_setresuid, 0, 0, 0));
}

static const char *become_group_root(void)
{
	return probe_answer(RAW3(SYS_setresgid, 0, 0, 0));
}

static const char *set_groups(void)
{
	static const unsigned groups[] = {0};

	return probe_answer(RAW2(SYS_setgroups, 1, groups));
}

static const char *no_new_privileges(void)
{
	return probe_number(RAW5(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
}

static const char *capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};
	long r = RAW2(SYS_capget, &header, data);

	if (r < 0)
		return probe_answer(r);
	for (int i = 0; i < 2; i++)
		if (data[i].effective | data[i].permitted | data[i].inheritable)
			return "some";
	return "none";
}

static const char *bounding_set(void)
{
	for (long capability = 0; capability <= LAST_CAPABILITY; capability++)
		if (RAW5(SYS_prctl, PR_CAPBSET_READ, capability, 0, 0, 0) == 1)
			return probe_number(capability);
	return "empty";
}

static const char *raise_capability(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {
		{.effective = 1U << CAP_SYS_ADMIN, .permitted = 1U << CAP_SYS_ADMIN}};

	return probe_answer(RAW2(SYS_capset, &header, data));
}

/* Reads the length of the mapping and checks that there is only one. */
static const char *mapped_ids(void)
{
	const char *map = probe_read("/proc/self/uid_map");
	const char *at = map;
	long fields = 0;

	if (*map == 'E')
		return map;
	while (*at) {
		while (*at == ' ' || *at == '\n')
			at++;
		if (!*at)
			break;
		map = at;
		fields++;
		while (*at && *at != ' ' && *at != '\n')
			at++;
	}
	return fields == 3 && probe_equal(map, "1") ? "1" : "more";
}

static const char *max_namespaces(void)
{
	return probe_read("/proc/sys/user/max_user_namespaces");
}

/* limits */

static const char *core_limit(void)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	RAW4(SYS_prlimit64, 0, RLIMIT_CORE, &limit, 0);
	limit.rlim_cur = limit.rlim_max = 0;
	RAW4(SYS_prlimit64, 0, RLIMIT_CORE, &limit, 0);
	RAW4(SYS_prlimit64, 0, RLIMIT_CORE, 0, &limit);
	return limit.rlim_cur == limit.rlim_max ? probe_number((long)limit.rlim_cur) : "differ";
}

static const char *limit_of(int resource)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
	long r = RAW4(SYS_prlimit64, 0, resource, 0, &limit);

	return r < 0 ? probe_answer(r) : limit.rlim_max == RLIM_INFINITY ? "infinite" : "finite";
}

static const char *process_limit(void)
{
	return limit_of(RLIMIT_NPROC);
}

static const char *descriptor_limit(void)
{
	return limit_of(RLIMIT_NOFILE);
}

static const char *file_size_limit(void)
{
	return limit_of(RLIMIT_FSIZE);
}

static const char *locked_limit(void)
{
	return limit_of(RLIMIT_MEMLOCK);
}

/* Looks for variables that make a loader or an interpreter run another program first. */
/* What every command has of git's settings: worker/commands/command_env.c. */
static int is_gits_own(const char *entry)
{
	static const char *const known[] = {"GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0",
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=gc.autoDetach", "GIT_CONFIG_VALUE_0=false",
		"GIT_CONFIG_KEY_1=maintenance.autoDetach", "GIT_CONFIG_VALUE_1=false"};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (probe_begins(entry, known[i]))
			return 1;
	return 0;
}

static const char *loader_variables(void)
{
	static const char *const hooks[] = {"LD_", "GLIBC_TUNABLES", "BASH_ENV",
		"ENV=", "NODE_OPTIONS", "PYTHONSTARTUP", "PYTHONPATH", "PERL5", "RUBYOPT",
		"JAVA_TOOL_OPTIONS", "GIT_"};

	for (char **entry = probe_environment; *entry; entry++)
		for (size_t i = 0; i < sizeof(hooks) / sizeof(*hooks); i++)
			if (probe_begins(*entry, hooks[i]) && !is_gits_own(*entry))
				return *entry;
	return "none";
}

/* Looks for environment variables of the user that started cloisterd. */
static const char *environment_size(void)
{
	long n = 0;

	while (probe_environment[n])
		n++;
	return n <= 24 ? "small" : probe_number(n);
}

/* staying alive */

/*
 * Leaves a process of another session behind that holds a lock as long as it lives, and returns
 * when it has the lock. A later probe tries to take the lock, which fails if the process has
 * survived.
 */
static const char *survivor_leave(void)
{
	long fd = RAW4(SYS_openat, AT_FDCWD, "survivor", O_RDWR | O_CREAT | O_CLOEXEC, 0600), pid;

	if (fd < 0)
		return probe_answer(fd);
	if (RAW2(SYS_flock, fd, LOCK_EX | LOCK_NB) < 0)
		return "locked before";
	pid = RAW5(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid != 0)
		return pid < 0 ? probe_answer(pid) : "left";
	RAW0(SYS_setsid);
	if (RAW5(SYS_clone, SIGCHLD, 0, 0, 0, 0) != 0)
		RAW1(SYS_exit_group, 0);
	for (int i = 1; i < 65; i++) {
		unsigned long ignore[4] = {(unsigned long)SIG_IGN};

		RAW4(SYS_rt_sigaction, i, ignore, 0, 8);
	}
	for (int standard = 0; standard < 3; standard++)
		RAW1(SYS_close, standard);
	for (;;)
		RAW4(SYS_ppoll, 0, 0, 0, 0);
}

static const char *survivor_gone(void)
{
	long fd = RAW4(SYS_openat, AT_FDCWD, "survivor", O_RDWR | O_CLOEXEC, 0);

	if (fd < 0)
		return probe_answer(fd);
	return RAW2(SYS_flock, fd, LOCK_EX | LOCK_NB) < 0 ? "alive" : "gone";
}

const struct probe probes_of_processes[] = {
	{"init-exe", init_exe},
	{"init-exe-write", init_exe_write},
	{"init-root", init_root},
	{"init-cwd", init_cwd},
	{"init-mem", init_mem},
	{"init-environ", init_environ},
	{"init-descriptors", init_descriptors},
	{"init-namespace", init_namespace},
	{"init-maps", init_maps},
	{"init-ptrace", init_ptrace},
	{"init-read-memory", init_read_memory},
	{"setns", setns_self},
	{"processes-seen", processes_seen},
	{"extra-descriptors", extra_descriptors},
	{"descriptor-walk", descriptor_walk},
	{"working-directory", working_directory},
	{"become-root", become_root},
	{"become-group-root", become_group_root},
	{"set-groups", set_groups},
	{"no-new-privileges", no_new_privileges},
	{"capabilities", capabilities},
	{"bounding-set", bounding_set},
	{"raise-capability", raise_capability},
	{"mapped-ids", mapped_ids},
	{"max-user-namespaces", max_namespaces},
	{"core-limit", core_limit},
	{"process-limit", process_limit},
	{"descriptor-limit", descriptor_limit},
	{"file-size-limit", file_size_limit},
	{"locked-memory-limit", locked_limit},
	{"loader-variables", loader_variables},
	{"environment-size", environment_size},
	{"survivor-leave", survivor_leave},
	{"survivor-gone", survivor_gone},
	{NULL, NULL},
};
