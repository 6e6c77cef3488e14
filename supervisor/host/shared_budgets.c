// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd: reads the budgets before lock-down and reports them later. */
#include "supervisor/host/shared_budgets.h"

#include "common/cleanup.h"
#include "common/config_defaults.h"
#include "common/limits.h"
#include "supervisor/host/cgroup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/*
 * Of an open workspace with checkpoints and one command: worker, files process, the command's init
 * and its shell, the init that is made ahead of the next command, and the overlay mounter of its
 * layers; namespaces of these but of the shell, and the mount namespace that keeps its private
 * tmpfs. User namespaces: the cell's, the overlay mounter's, that of the cell that made the tmpfs
 * and, while a new cell takes it over, the last cell's. A workspace that runs more takes more.
 */
#define OPEN_PROCESSES        SHARED_BUDGET_OPEN_TASKS
#define OPEN_USER_NAMESPACES  4
#define OPEN_PID_NAMESPACES   4
#define OPEN_MOUNT_NAMESPACES 6
#define OPEN_CGROUPS          3 /* the workspace's, its cell's, its command's */

/* A budget is one of cloisterd's resource limits or the number in a file. */
static const struct budget {
	const char *name;
	uint64_t of_each;
	const char *file;  /* below /proc/sys */
	const char *less;  /* another file, whose number is reserved for other users */
	int resource;      /* used if there is no file */
	bool zero_is_none; /* 0 in the file means no limit */
	/* in user mode one workspace may take all of it, at the cost of the others */
	bool of_own_id;
	bool of_watches; /* one workspace may have as many as its tenant's key says */
	bool tasks;      /* pids.max of cloisterd's cgroup and those above it, instead of a file */
	bool memory_cgroups;
	const char *of_tasks; /* each process or thread takes one of it: the limit's name */
	const char *setting;  /* NULL: there is none, the number is the kernel's */
} budgets[] = {
	/* What the kernel counts for each open workspace; a command that cannot start fails. */
	{"processes", OPEN_PROCESSES, .of_tasks = "kernel.pid_max", .file = "kernel/pid_max",
		.setting = "sysctl -w kernel.pid_max="},
	{"threads", OPEN_PROCESSES, .of_tasks = "kernel.threads-max", .file = "kernel/threads-max",
		.setting = "sysctl -w kernel.threads-max="},
	{"tasks", OPEN_PROCESSES,
		.of_tasks = "TasksMax= of cloisterd's unit, or of a slice above it", .tasks = true,
		.setting = "TasksMax="},
	/* The spawner's user namespace has cloisterd's limit: user_namespaces(7). */
	{"user_processes", OPEN_PROCESSES, .of_tasks = "LimitNPROC= of cloisterd's unit",
		.resource = RLIMIT_NPROC, .setting = "LimitNPROC="},
	{"memory_cgroups", OPEN_CGROUPS, .memory_cgroups = true},
	{"user_namespaces", OPEN_USER_NAMESPACES, .file = "user/max_user_namespaces",
		.setting = "sysctl -w user.max_user_namespaces="},
	{"network_namespaces", 1, .file = "user/max_net_namespaces",
		.setting = "sysctl -w user.max_net_namespaces="},
	{"pid_namespaces", OPEN_PID_NAMESPACES, .file = "user/max_pid_namespaces",
		.setting = "sysctl -w user.max_pid_namespaces="},
	{"mount_namespaces", OPEN_MOUNT_NAMESPACES, .file = "user/max_mnt_namespaces",
		.setting = "sysctl -w user.max_mnt_namespaces="},
	{"inotify_instances", LIMIT_INOTIFY_INSTANCES, .file = "user/max_inotify_instances",
		.setting = "sysctl -w user.max_inotify_instances="},
	{"inotify_watches", .of_watches = true, .file = "user/max_inotify_watches",
		.setting = "sysctl -w user.max_inotify_watches="},
	{"pending_signals", LIMIT_PENDING_SIGNALS, .resource = RLIMIT_SIGPENDING,
		.setting = "LimitSIGPENDING="},
	{"message_queue_bytes", LIMIT_QUEUE_BYTES, .resource = RLIMIT_MSGQUEUE,
		.setting = "LimitMSGQUEUE="},
	{"terminals", LIMIT_TERMINALS, .file = "kernel/pty/max", .less = "kernel/pty/reserve",
		.setting = "sysctl -w kernel.pty.max="},
	/*
	 * Commands may enlarge their stdio pipes, which count for cloisterd. In system mode pipes
	 * that they make count for their own id.
	 */
	{"pipe_pages", LIMIT_PIPE_PAGES, .file = "fs/pipe-user-pages-hard", .zero_is_none = true,
		.of_own_id = true, .setting = "sysctl -w fs.pipe-user-pages-hard="},
};

static uint64_t found[ARRAY_SIZE(budgets)], kept[ARRAY_SIZE(budgets)];
static uint64_t workspaces, watches = DEFAULT_WATCHES;
static bool user_mode, read_once;
static char remedy[1536];

/* A kernel without the file does not have this limit. */
static uint64_t read_budget_number(const char *name, uint64_t fallback)
{
	char path[64];
	FILE *file;
	uint64_t number;

	snprintf(path, sizeof(path), "/proc/sys/%s", name);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%" SCNu64, &number) != 1)
		number = fallback;
	if (file)
		fclose(file);
	return number;
}

static uint64_t read_limit(int resource)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)resource, &limit) < 0)
		return SHARED_BUDGET_UNLIMITED;
	if (resource == RLIMIT_NPROC)
		limit.rlim_max = limit.rlim_cur;
	return limit.rlim_max == RLIM_INFINITY ? SHARED_BUDGET_UNLIMITED : limit.rlim_max;
}

static uint64_t of_each(size_t i)
{
	if (budgets[i].of_watches)
		return watches;
	return budgets[i].of_own_id && user_mode ? SHARED_BUDGET_UNLIMITED : budgets[i].of_each;
}

static uint64_t enough_for(size_t i)
{
	return found[i] == SHARED_BUDGET_UNLIMITED ? found[i] : found[i] / of_each(i);
}

/* Returns the value that would suffice; 0 if only no limit does. */
static uint64_t wanted_budget(size_t i)
{
	return of_each(i) == SHARED_BUDGET_UNLIMITED ? 0 : workspaces * of_each(i) + kept[i];
}

static void write_remedy(void)
{
	size_t len = (size_t)snprintf(remedy, sizeof(remedy),
		"for %" PRIu64 " workspaces, which the tenants may have in use (fewer with a "
		"smaller workspaces = in the configuration):",
		workspaces);

	for (size_t i = 0; i < ARRAY_SIZE(budgets) && len < sizeof(remedy); i++)
		if (enough_for(i) >= workspaces)
			continue;
		else if (budgets[i].setting)
			len += (size_t)snprintf(remedy + len, sizeof(remedy) - len,
				" %s%" PRIu64 "%s", budgets[i].setting, wanted_budget(i),
				budgets[i].file ? ";" : " in cloisterd's unit;");
		else
			len += (size_t)snprintf(remedy + len, sizeof(remedy) - len,
				" a smaller workspaces =, since the kernel has 65535 memory "
				"cgroups "
				"in all and others use all but %" PRIu64 ";",
				found[i]);
	len = strlen(remedy);
	if (len > 0 && remedy[len - 1] == ';')
		remedy[len - 1] = '\0';
}

void shared_budgets_read(
	uint64_t in_use, uint64_t most_watches, bool one_id, uint64_t memory_numbers)
{
	workspaces = in_use;
	watches = most_watches;
	user_mode = one_id;
	for (size_t i = 0; i < ARRAY_SIZE(budgets); i++) {
		const struct budget *budget = &budgets[i];

		found[i] = budget->tasks            ? cgroup_tasks_max()
			   : budget->memory_cgroups ? memory_numbers
			   : budget->file
				   ? read_budget_number(budget->file, SHARED_BUDGET_UNLIMITED)
				   : read_limit(budget->resource);
		if (budget->zero_is_none && found[i] == 0)
			found[i] = SHARED_BUDGET_UNLIMITED;
		kept[i] = budget->less ? read_budget_number(budget->less, 0) : 0;
		if (found[i] != SHARED_BUDGET_UNLIMITED)
			found[i] -= kept[i] < found[i] ? kept[i] : found[i];
	}
	read_once = true;
	write_remedy();
}

uint64_t shared_budgets_tasks(const char **ret_by)
{
	uint64_t least = SHARED_BUDGET_UNLIMITED;

	*ret_by = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(budgets); i++) {
		if (!budgets[i].of_tasks || !read_once || found[i] >= least)
			continue;
		least = found[i];
		*ret_by = budgets[i].of_tasks;
	}
	return least;
}

bool shared_budgets_suffice(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(budgets); i++)
		if (enough_for(i) < workspaces)
			return false;
	return true;
}

const char *shared_budgets_remedy(void)
{
	return remedy;
}

void shared_budgets_each(
	void (*each)(void *context, const struct shared_budget_view *budget), void *context)
{
	for (size_t i = 0; i < ARRAY_SIZE(budgets); i++) {
		struct shared_budget_view view = {
			budgets[i].name, of_each(i), found[i], enough_for(i)};

		each(context, &view);
	}
}
