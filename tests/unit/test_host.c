/* links: cloister-supervisor */
/* fakes: paths probes id_range */
// SPDX-License-Identifier: Apache-2.0
/* What cloisterd finds out about the host at start: sockets that were passed, the delegated cgroup,
 * the kernel's limits for all users, and features. The tests write the kernel's files. */
#include "common/cgroup_file.h"
#include "common/config/lists.h"
#include "supervisor/base/log.h"
#include "supervisor/host/cgroup.h"
#include "supervisor/host/features.h"
#include "supervisor/host/filter_probe.h"
#include "supervisor/host/listen_fds.h"
#include "supervisor/host/shared_budgets.h"
#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/paths.h"
#include "tests/unit/fakes/probes.h"

#include <sys/mman.h>
#include <sys/un.h>

/* Descriptors that systemd passes, from 3 on. */

enum passed { NONE, LISTENS, IS_CONNECTED, IS_A_DATAGRAMS, IS_A_FILE };

static void put_at(int at, enum passed what)
{
	int fd = -1, other;

	close(at);
	if (what == LISTENS || what == IS_CONNECTED)
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
	else if (what == IS_A_DATAGRAMS)
		fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	else if (what == IS_A_FILE)
		fd = memfd_create("file", 0);
	if (fd < 0)
		return;
	if (what == LISTENS) {
		/* An abstract name that the kernel chooses. */
		struct sockaddr_un address = {.sun_family = AF_UNIX};

		assert_int_equal(
			bind(fd, (struct sockaddr *)&address, sizeof(address.sun_family)), 0);
		assert_int_equal(listen(fd, 1), 0);
	}
	if (fd == at)
		return;
	other = dup2(fd, at);
	assert_int_equal(other, at);
	close(fd);
}

TEST(test_sockets_that_were_passed)
{
	static const struct {
		const char *count, *names; /* NULL: not in the environment */
		enum passed fds[2];
		int result;
		bool agent, control;
		const char *message;
	} rows[] = {
		{NULL, NULL, {NONE, NONE}, 0, false, false, NULL},
		{"0", NULL, {NONE, NONE}, 0, false, false, NULL},
		{"1", NULL, {LISTENS, NONE}, 0, true, false, NULL},
		{"2", NULL, {LISTENS, LISTENS}, 0, true, true, NULL},
		{"1", "agent", {LISTENS, NONE}, 0, true, false, NULL},
		{"2", "control:agent", {LISTENS, LISTENS}, 0, true, true, NULL},
		{"1", "control", {LISTENS, NONE}, -EINVAL, false, true, "no agent socket"},
		{"2", "agent:agent", {LISTENS, LISTENS}, -EINVAL, true, false,
			"two have the same name"},
		{"1", "web", {LISTENS, NONE}, -EINVAL, false, false, "is not named"},
		{"4", NULL, {LISTENS, LISTENS}, -EINVAL, false, false, "more than three sockets"},
		{"-1", NULL, {NONE, NONE}, -EINVAL, false, false, "more than three sockets"},
		{"1", NULL, {IS_CONNECTED, NONE}, -EINVAL, false, false,
			"not a listening Unix stream"},
		{"1", NULL, {IS_A_DATAGRAMS, NONE}, -EINVAL, false, false,
			"not a listening Unix stream"},
		{"1", NULL, {IS_A_FILE, NONE}, -EINVAL, false, false,
			"not a listening Unix stream"},
		{"1", NULL, {NONE, NONE}, -EINVAL, false, false, "not a listening Unix stream"},
	};
	int kept[2] = {dup(3), dup(4)};
	char pid[32];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct listen_fds fds;
		const char *message = NULL;
		int r;

		put_at(3, rows[i].fds[0]);
		put_at(4, rows[i].fds[1]);
		if (rows[i].count) {
			setenv("LISTEN_PID", pid, 1);
			setenv("LISTEN_FDS", rows[i].count, 1);
		}
		if (rows[i].names)
			setenv("LISTEN_FDNAMES", rows[i].names, 1);
		r = listen_fds_take(&fds, &message);
		if (r != rows[i].result)
			fail_msg("row %zu: %d, %s", i, r, message ? message : "");
		assert_int_equal(message != NULL, rows[i].message != NULL);
		if (message && rows[i].message)
			assert_non_null(strstr(message, rows[i].message));
		assert_int_equal(fds.agent >= 0, rows[i].agent);
		assert_int_equal(fds.control >= 0, rows[i].control);
		if (r == 0 && fds.agent >= 0)
			assert_int_equal(fcntl(fds.agent, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
		/* Programs that are executed later get none of the variables. */
		assert_null(getenv("LISTEN_PID"));
		assert_null(getenv("LISTEN_FDS"));
		assert_null(getenv("LISTEN_FDNAMES"));
	}
	/* Variables for another process are ignored. */
	setenv("LISTEN_PID", "1", 1);
	setenv("LISTEN_FDS", "1", 1);
	{
		struct listen_fds fds;
		const char *message;

		assert_int_equal(listen_fds_take(&fds, &message), 0);
		assert_int_equal(fds.count, 0);
		assert_null(getenv("LISTEN_FDS"));
	}
	for (int i = 0; i < 2; i++) {
		close(3 + i);
		if (kept[i] >= 0) {
			dup2(kept[i], 3 + i);
			close(kept[i]);
		}
	}
}

/* The cgroup: a directory with the files that a cgroup has. */

static struct scratch scratch;
static char mountinfo[1024];

static int set_up_cgroup(void **state)
{
	(void)state;
	log_init(true);
	scratch = scratch_new();
	snprintf(mountinfo, sizeof(mountinfo), "30 20 0:26 / %s rw - cgroup2 cgroup2 rw\n",
		scratch.path);
	fake_path_set("/proc/self/mountinfo", mountinfo);
	fake_path_set("/proc/self/cgroup", "0::/unit\n");
	return 0;
}

static int tear_down_cgroup(void **state)
{
	(void)state;
	fake_path_set(NULL, NULL);
	scratch_done(&scratch);
	return 0;
}

FIXTURE(set_up_cgroup, tear_down_cgroup)

/* Makes a group @name with @processes in it, and a supervisor/ below it. */
static void make_group(const char *name, const char *processes, const char *controllers)
{
	static const char *const files[] = {"cgroup.subtree_control", "supervisor/cgroup.procs",
		"supervisor/cgroup.subtree_control", "supervisor/cpu.weight"};
	char path[256];

	snprintf(path, sizeof(path), "%s/cgroup.procs", name);
	scratch_text(&scratch, path, processes);
	snprintf(path, sizeof(path), "%s/cgroup.controllers", name);
	scratch_text(&scratch, path, controllers);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), "%s/%s", name, files[i]);
		scratch_text(&scratch, path, "");
	}
}

static void holds(const char *path, const char *expected)
{
	int fd = openat(scratch.fd, path, O_RDONLY | O_CLOEXEC);
	char text[256] = "";

	assert_true(fd >= 0);
	assert_true(read(fd, text, sizeof(text) - 1) >= 0);
	close(fd);
	assert_string_equal(text, expected);
}

TEST(test_a_cgroup_that_is_delegated)
{
	struct cgroup cgroup;
	char own[32];

	snprintf(own, sizeof(own), "%d\n", (int)getpid());
	make_group("unit", own, "cpu io memory pids\n");
	cgroup_take(&cgroup);
	assert_null(cgroup.missing);
	assert_true(cgroup.root >= 0);
	holds("unit/supervisor/cgroup.procs", "0");
	holds("unit/supervisor/cpu.weight", "1000");
	/* A kernel without io.weight has no such file. */
	assert_false(cgroup.io_weight);
	assert_string_equal(cgroup_enforcer_name(cgroup_enforcer_of_io(&cgroup)), "none");
	cgroup_done(&cgroup);
	assert_int_equal(cgroup.root, -1);
}

/* cloisterd was started in its own supervisor/: the group above it is the delegated one. */
TEST(test_a_cgroup_that_was_ours_before)
{
	struct stat unit, root;
	struct cgroup cgroup;
	char own[32];

	fake_path_set("/proc/self/cgroup", "0::/unit/supervisor\n");
	make_group("unit", "", "memory pids\n");
	snprintf(own, sizeof(own), "%d\n", (int)getpid());
	scratch_text(&scratch, "unit/supervisor/cgroup.procs", own);
	cgroup_take(&cgroup);
	assert_null(cgroup.missing);
	assert_int_equal(fstat(cgroup.root, &root), 0);
	assert_int_equal(fstatat(scratch.fd, "unit", &unit, 0), 0);
	assert_int_equal(root.st_ino, unit.st_ino);
	cgroup_done(&cgroup);
}

TEST(test_cgroups_that_are_not_ours)
{
	static const struct {
		const char *group, *processes; /* NULL: only cloisterd */
		bool read_only, no_files;
		const char *missing;
	} rows[] = {
		{"1:memory:/x\n", NULL, false, false, "not mounted"},
		{"0::/elsewhere\n", NULL, false, false, "not mounted"},
		{"0::/unit\n", "1\n", false, false, "contains other processes"},
		{"0::/unit\n", "", false, false, "contains other processes"},
		{"0::/unit\n", NULL, false, true, "not delegated"},
	};
	char own[32];

	snprintf(own, sizeof(own), "%d\n", (int)getpid());
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cgroup cgroup;

		fake_path_set("/proc/self/cgroup", rows[i].group);
		make_group("unit", rows[i].processes ? rows[i].processes : own, "memory\n");
		if (rows[i].no_files)
			assert_int_equal(unlinkat(scratch.fd, "unit/cgroup.subtree_control", 0), 0);
		cgroup_take(&cgroup);
		assert_int_equal(cgroup.root, -1);
		assert_int_equal(cgroup.controllers, 0);
		assert_non_null(cgroup.missing);
		if (!strstr(cgroup.missing, rows[i].missing))
			fail_msg("row %zu: %s", i, cgroup.missing);
	}
	/* A group into which cloisterd cannot move is not taken. */
	make_group("unit", own, "memory\n");
	assert_int_equal(unlinkat(scratch.fd, "unit/supervisor/cgroup.procs", 0), 0);
	{
		struct cgroup cgroup;

		cgroup_take(&cgroup);
		assert_int_equal(cgroup.root, -1);
		assert_non_null(strstr(cgroup.missing, "could not move"));
	}
}

/* The kernel's limits for all workspaces together. */

struct seen {
	const char *name;
	struct shared_budget_view view;
	bool found;
};

static void look_at(void *context, const struct shared_budget_view *budget)
{
	struct seen *seen = context;

	if (strcmp(budget->name, seen->name) != 0)
		return;
	seen->view = *budget;
	seen->found = true;
}

TEST_WITH(test_shared_budgets, NULL, NULL)
{
	static const struct {
		const char *name, *file, *text; /* NULL: the kernel has no such file */
		bool one_id;
		uint64_t of_all, enough_for;
	} rows[] = {
		{"inotify_instances", "/proc/sys/user/max_inotify_instances", "160\n", false, 160,
			10},
		{"inotify_instances", "/proc/sys/user/max_inotify_instances", "15\n", false, 15, 0},
		{"inotify_instances", "/proc/sys/user/max_inotify_instances", NULL, false,
			SHARED_BUDGET_UNLIMITED, SHARED_BUDGET_UNLIMITED},
		{"inotify_instances", "/proc/sys/user/max_inotify_instances", "many\n", false,
			SHARED_BUDGET_UNLIMITED, SHARED_BUDGET_UNLIMITED},
		{"pipe_pages", "/proc/sys/fs/pipe-user-pages-hard", "0\n", false,
			SHARED_BUDGET_UNLIMITED, SHARED_BUDGET_UNLIMITED},
		{"pipe_pages", "/proc/sys/fs/pipe-user-pages-hard", "122880\n", false, 122880, 2},
		/* In user mode one workspace may use all of it. */
		{"pipe_pages", "/proc/sys/fs/pipe-user-pages-hard", "122880\n", true, 122880, 0},
		{"terminals", "/proc/sys/kernel/pty/max", "1344\n", false, 320,
			5}, /* reserved: 1024 */
		{"terminals", "/proc/sys/kernel/pty/max", "1000\n", false, 0, 0},
		{"processes", "/proc/sys/kernel/pid_max", "32768\n", false, 32768, 5461},
		{"threads", "/proc/sys/kernel/threads-max", "99\n", true, 99, 16},
		{"user_namespaces", "/proc/sys/user/max_user_namespaces", "7\n", false, 7, 1},
		{"network_namespaces", "/proc/sys/user/max_net_namespaces", "0\n", false, 0, 0},
		{"pid_namespaces", "/proc/sys/user/max_pid_namespaces", "83\n", false, 83, 20},
		{"mount_namespaces", "/proc/sys/user/max_mnt_namespaces", "80\n", false, 80, 13},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct seen seen = {.name = rows[i].name};

		fake_path_set(NULL, NULL);
		fake_path_set("/proc/sys/kernel/pty/reserve", "1024\n");
		fake_path_set(rows[i].file, rows[i].text);
		shared_budgets_read(1, LIMIT_INOTIFY_WATCHES, rows[i].one_id, UINT64_MAX);
		shared_budgets_each(look_at, &seen);
		assert_true(seen.found);
		if (seen.view.of_all != rows[i].of_all ||
			seen.view.enough_for != rows[i].enough_for)
			fail_msg("row %zu: of all %llu, enough for %llu", i,
				(unsigned long long)seen.view.of_all,
				(unsigned long long)seen.view.enough_for);
	}
	fake_path_set(NULL, NULL);
}

TEST_WITH(test_budgets_that_do_not_suffice, NULL, NULL)
{
	const char *remedy;

	fake_path_set("/proc/sys/user/max_inotify_instances", "160\n");
	fake_path_set("/proc/sys/user/max_inotify_watches", "81920000\n");
	fake_path_set("/proc/sys/kernel/pty/max", "4096000\n");
	fake_path_set("/proc/sys/kernel/pty/reserve", NULL);
	fake_path_set("/proc/sys/fs/pipe-user-pages-hard", "0\n");
	shared_budgets_read(0, LIMIT_INOTIFY_WATCHES, true, UINT64_MAX);
	assert_true(shared_budgets_suffice());
	shared_budgets_read(11, LIMIT_INOTIFY_WATCHES, false, UINT64_MAX);
	assert_false(shared_budgets_suffice());
	remedy = shared_budgets_remedy();
	assert_non_null(strstr(remedy, "for 11 workspaces"));
	assert_non_null(strstr(remedy, " sysctl -w user.max_inotify_instances=176"));
	assert_null(strstr(remedy, "pty"));
	assert_int_not_equal(remedy[strlen(remedy) - 1], ';');
	fake_path_set(NULL, NULL);
}

/* The least of the groups on the way up counts. */
TEST(test_tasks_of_the_cgroup)
{
	static const struct {
		const char *unit, *above, *own; /* pids.max; NULL: no such file */
		uint64_t of_all, enough_for;
	} rows[] = {
		{"100\n", "max\n", "0::/above/unit\n", 100, 16},
		{"max\n", "54\n", "0::/above/unit\n", 54, 9},
		{"100\n", "54\n", "0::/above/unit\n", 54, 9},
		{NULL, "54\n", "0::/above/unit\n", 54, 9},
		{"100\n", "54000\n", "0::/above\n", 54000, 9000},
		{"max\n", "max\n", "0::/above/unit\n", SHARED_BUDGET_UNLIMITED,
			SHARED_BUDGET_UNLIMITED},
		{"100\n", "54\n", "1:pids:/above/unit\n", SHARED_BUDGET_UNLIMITED,
			SHARED_BUDGET_UNLIMITED},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct seen seen = {.name = "tasks"};

		fake_path_set("/proc/self/cgroup", rows[i].own);
		make_group("above", "", "pids\n");
		make_group("above/unit", "", "pids\n");
		scratch_text(&scratch, "cgroup.procs", "");
		(void)unlinkat(scratch.fd, "above/pids.max", 0);
		(void)unlinkat(scratch.fd, "above/unit/pids.max", 0);
		if (rows[i].above)
			scratch_text(&scratch, "above/pids.max", rows[i].above);
		if (rows[i].unit)
			scratch_text(&scratch, "above/unit/pids.max", rows[i].unit);
		shared_budgets_read(11, LIMIT_INOTIFY_WATCHES, false, UINT64_MAX);
		shared_budgets_each(look_at, &seen);
		if (seen.view.of_all != rows[i].of_all ||
			seen.view.enough_for != rows[i].enough_for)
			fail_msg("row %zu: of all %llu, enough for %llu", i,
				(unsigned long long)seen.view.of_all,
				(unsigned long long)seen.view.enough_for);
		assert_int_equal(
			strstr(shared_budgets_remedy(), " TasksMax=66 in cloisterd's unit") != NULL,
			rows[i].enough_for < 11);
	}
	fake_path_set(NULL, NULL);
	(void)unlinkat(scratch.fd, "above/pids.max", 0);
	(void)unlinkat(scratch.fd, "above/unit/pids.max", 0);
}

/* Those of others, up to the topmost visible group, are not cloister's to have. */
TEST(test_memory_cgroups)
{
	static const struct {
		const char *above, *unit; /* cgroup.stat */
		bool has_memory;
		uint64_t of_all, enough_for;
	} rows[] = {
		{"nr_descendants 200\nnr_dying_descendants 70000\n", "nr_descendants 40\n", true,
			65375, 21791},
		{"nr_descendants 65529\n", "nr_descendants 0\n", true, 6, 2},
		{"nr_descendants 90000\n", "nr_descendants 9\n", true, 0, 0},
		{"nr_descendants 90000\n", "nr_descendants 9\n", false, SHARED_BUDGET_UNLIMITED,
			SHARED_BUDGET_UNLIMITED},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct seen seen = {.name = "memory_cgroups"};
		struct cgroup cgroup = {.root = -1, .whole = -1};

		fake_path_set("/proc/self/cgroup", "0::/above/unit\n");
		make_group("above", "", "memory\n");
		make_group("above/unit", "", "memory\n");
		(void)unlinkat(scratch.fd, "cgroup.procs", 0);
		scratch_text(&scratch, "above/cgroup.stat", rows[i].above);
		scratch_text(&scratch, "above/unit/cgroup.stat", rows[i].unit);
		cgroup.whole = openat(scratch.fd, "above/unit", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		cgroup.controllers = rows[i].has_memory ? CGROUP_MEMORY : CGROUP_PIDS;
		shared_budgets_read(
			3, LIMIT_INOTIFY_WATCHES, false, cgroup_memory_numbers(&cgroup));
		shared_budgets_each(look_at, &seen);
		if (seen.view.of_all != rows[i].of_all ||
			seen.view.enough_for != rows[i].enough_for)
			fail_msg("row %zu: of all %llu, enough for %llu", i,
				(unsigned long long)seen.view.of_all,
				(unsigned long long)seen.view.enough_for);
		assert_int_equal(strstr(shared_budgets_remedy(), "memory cgroups in all") != NULL,
			rows[i].enough_for < 3);
		close_fd(&cgroup.whole);
	}
	fake_path_set(NULL, NULL);
	(void)unlinkat(scratch.fd, "above/cgroup.stat", 0);
	(void)unlinkat(scratch.fd, "above/unit/cgroup.stat", 0);
}

/* Features. */

/* cloisterd ends with a command only where the kernel kills whole groups. */
TEST(test_memory_that_costs_all)
{
	static const struct {
		const char *unit, *above, *own; /* memory.oom.group; NULL: no such file */
		unsigned controllers;
		bool alone;
	} rows[] = {
		{"0\n", "0\n", "0::/above/unit\n", 0, true},
		{"1\n", "0\n", "0::/above/unit\n", 0, false},
		{"0\n", "1\n", "0::/above/unit\n", 0, false},
		{NULL, "1\n", "0::/above/unit\n", 0, false},
		{"1\n", "1\n", "0::/above/unit\n", CGROUP_MEMORY, true},
		{"1\n", "0\n", "0::/above\n", 0, true}, /* the setting is another group's */
		{NULL, NULL, "0::/above/unit\n", 0, true},
		{"1\n", "1\n", "1:memory:/above/unit\n", 0, true}, /* v1 has no such setting */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct cgroup cgroup = {.root = -1, .controllers = rows[i].controllers};

		fake_path_set("/proc/self/cgroup", rows[i].own);
		make_group("above", "", "memory\n");
		make_group("above/unit", "", "memory\n");
		scratch_text(&scratch, "cgroup.procs", "");
		(void)unlinkat(scratch.fd, "above/memory.oom.group", 0);
		(void)unlinkat(scratch.fd, "above/unit/memory.oom.group", 0);
		if (rows[i].above)
			scratch_text(&scratch, "above/memory.oom.group", rows[i].above);
		if (rows[i].unit)
			scratch_text(&scratch, "above/unit/memory.oom.group", rows[i].unit);
		fake_calls_present = true;
		features_probe(&cgroup);
		if (feature_is_present("single_process_oom") != rows[i].alone)
			fail_msg("row %zu", i);
	}
	assert_non_null(strstr(feature_remedy("single_process_oom"), "singleProcessOOMKill: true"));
}

/* The fault came with Linux 6.9, needs a second processor, and is gone with the queue. */
TEST_WITH(test_kernels_that_end_filters, NULL, NULL)
{
	static const struct {
		const char *release;
		long cpus;
		bool mended, holds;
	} rows[] = {
		{"5.15.0-91-generic", 2, false, true},
		{"6.1.0-35-amd64", 64, false, true},
		{"6.8.12", 2, false, true},
		{"6.9.0-rc1", 2, false, false},
		{"6.12.41+deb13-cloud-amd64", 2, false, false},
		{"6.12.41+deb13-cloud-amd64", 1, false, true},
		{"6.12.99+deb13-cloud-amd64", 2, true, true},
		{"6.18.44", 2, false, false},
		{"7.0.0", 2, false, false},
		{"7.2.0", 2, true, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (filter_probe_judge(rows[i].release, rows[i].cpus, rows[i].mended) !=
			rows[i].holds)
			fail_msg("row %zu", i);
}

TEST_WITH(test_features, NULL, NULL)
{
	static const struct {
		const char *feature;
		unsigned controllers;
		bool io_weight, calls;
		int namespaces;
		bool fresh_proc, present;
	} rows[] = {
		{"cgroups", CGROUP_MEMORY | CGROUP_PIDS, false, true, 0, true, true},
		{"cgroups", CGROUP_MEMORY, false, true, 0, true, false},
		{"cgroups", CGROUP_PIDS | CGROUP_CPU, false, true, 0, true, false},
		{"cpu_controller", CGROUP_CPU, false, true, 0, true, true},
		{"cpu_controller", 0, false, true, 0, true, false},
		{"cpu_priority", CGROUP_CPU, false, true, 0, true, true},
		{"io_controller", CGROUP_IO, true, true, 0, true, true},
		{"io_controller", CGROUP_IO, false, true, 0, true, false},
		{"io_controller", 0, true, true, 0, true, false},
		{"system_calls", 0, false, true, 0, true, true},
		{"system_calls", 0, false, false, 0, true, false},
		{"namespaces", 0, false, true, 0, true, true},
		{"namespaces", 0, false, true, EPERM, true, false},
		{"fresh_proc", 0, false, true, 0, true, true},
		{"fresh_proc", 0, false, true, 0, false, false},
		{"subordinate_ids", 0, false, true, 0, true, false},
		{"uidmap", 0, false, true, 0, true, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct cgroup cgroup = {.root = -1,
			.controllers = rows[i].controllers,
			.io_weight = rows[i].io_weight};
		char *name = strdup(rows[i].feature), *message = NULL;
		const struct string_list required = {&name, 1};
		int r;

		fake_calls_present = rows[i].calls;
		fake_namespaces = (struct namespaces_probe){
			.error = rows[i].namespaces, .fresh_proc = rows[i].fresh_proc};
		features_probe(&cgroup);
		assert_true(feature_is_known(name));
		if (feature_is_present(name) != rows[i].present)
			fail_msg("row %zu: %s", i, name);
		assert_non_null(feature_remedy(name));
		/* A required feature that the host lacks is refused, with what to do. */
		r = features_check(&required, &message);
		assert_int_equal(r, rows[i].present ? 0 : -ENOTSUP);
		assert_int_equal(message != NULL, r < 0);
		if (message) {
			assert_non_null(strstr(message, name));
			assert_non_null(strstr(message, feature_remedy(name)));
		}
		assert_non_null(strstr(feature_names(), name));
		free(message);
		free(name);
	}
}

static void count(void *context, const struct feature_report *report)
{
	assert_non_null(report->name);
	assert_non_null(report->cost);
	assert_non_null(report->remedy);
	++*(size_t *)context;
}

TEST_WITH(test_features_that_there_are_not, NULL, NULL)
{
	const struct cgroup cgroup = {.root = -1};
	char name[] = "wings", *names[] = {name}, *message = NULL;
	const struct string_list required = {names, 1};
	size_t n = 0;

	assert_false(feature_is_known("wings"));
	assert_false(feature_is_present("wings"));
	assert_null(feature_remedy("wings"));
	assert_int_equal(features_check(&required, &message), -ENOTSUP);
	assert_non_null(strstr(message, "there is no such feature"));
	free(message);
	features_probe(&cgroup);
	features_each(count, &n);
	assert_true(n > 10);
}
