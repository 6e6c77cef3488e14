// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd before lock-down. */
#include "supervisor/host/features.h"

#include "common/cgroup_file.h"
#include "common/cleanup.h"
#include "common/config/lists.h"
#include "common/doctor.h"
#include "common/landlock.h"
#include "supervisor/base/fd_closer.h"
#include "supervisor/host/calls_probe.h"
#include "supervisor/host/cgroup.h"
#include "supervisor/host/disk_probe.h"
#include "supervisor/host/filter_probe.h"
#include "supervisor/host/id_range.h"
#include "supervisor/host/namespaces_probe.h"
#include "supervisor/host/overlay_probe.h"
#include "supervisor/host/shared_budgets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* SO_PASSRIGHTS, socket(7). */
static bool refuses_descriptors(const struct cgroup *cgroup)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)cgroup;
	return fd >= 0 && fd_closer_refuse_instead(fd);
}

static bool has_cgroup(const struct cgroup *cgroup)
{
	const unsigned needed = CGROUP_MEMORY | CGROUP_PIDS;

	return (cgroup->controllers & needed) == needed;
}

/* A command in a cgroup of its own reaches its own limit first, and only its processes are
 * killed. */
static bool is_killed_alone(const struct cgroup *cgroup)
{
	return cgroup->controllers & CGROUP_MEMORY || !cgroup_is_killed_whole();
}

static bool has_cpu(const struct cgroup *cgroup)
{
	return cgroup_enforcer_of_cpu(cgroup) == CGROUP_ENFORCER_CGROUP;
}

static bool has_io(const struct cgroup *cgroup)
{
	return cgroup_enforcer_of_io(cgroup) == CGROUP_ENFORCER_CGROUP;
}

/* Landlock confines all processes, commands included. */
static bool has_landlock(const struct cgroup *cgroup)
{
	(void)cgroup;
	return landlock_abi() >= RULESET_ABI_RENAMES;
}

static bool has_subordinate_ids(const struct cgroup *cgroup)
{
	struct id_range range;

	(void)cgroup;
	return id_range_find("/etc", &range) == 0;
}

static bool has_uidmap(const struct cgroup *cgroup)
{
	(void)cgroup;
	return id_range_can_map() || id_range_has_helpers();
}

static struct namespaces_probe namespaces;

static bool makes_namespaces(const struct cgroup *cgroup)
{
	(void)cgroup;
	return namespaces_probe(&namespaces) == 0 && namespaces.error == 0;
}

static bool mounts_proc(const struct cgroup *cgroup)
{
	(void)cgroup;
	return namespaces.fresh_proc;
}

/*
 * Commands have a core limit of 1, which prevents a core_pattern that is a pipe; 0 would not.
 * core(5)
 */
static bool may_limit_cores(const struct cgroup *cgroup)
{
	struct rlimit limit;

	(void)cgroup;
	return getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_max >= 1;
}

/* Returns the nice value of our session's CPU share, or 0; @own if sessions have no shares. */
static int session_nice(int own)
{
	FILE *enabled = fopen("/proc/sys/kernel/sched_autogroup_enabled", "re");
	FILE *group = fopen("/proc/self/autogroup", "re");
	int is_enabled = 0, nice = 0;

	if (!enabled || fscanf(enabled, "%d", &is_enabled) != 1 || !is_enabled)
		nice = own;
	else if (!group || fscanf(group, "/autogroup-%*d nice %d", &nice) != 1)
		nice = 0;
	if (enabled)
		fclose(enabled);
	if (group)
		fclose(group);
	return nice;
}

/*
 * Whether cloisterd has priority over commands, by a cgroup weight or by startup_come_first().
 * Where sessions have CPU shares, the nice value of a process counts only within its session.
 */
static bool comes_first(const struct cgroup *cgroup)
{
	int own = getpriority(PRIO_PROCESS, 0);

	return has_cpu(cgroup) || (own < 0 && session_nice(own) < 0);
}

static bool has_calls(const struct cgroup *cgroup)
{
	(void)cgroup;
	return calls_probe();
}

static bool has_budgets(const struct cgroup *cgroup)
{
	(void)cgroup;
	return shared_budgets_suffice();
}

static bool has_disk_quota(const struct cgroup *cgroup)
{
	(void)cgroup;
	return disk_probe_holds();
}

static bool carries_overlays(const struct cgroup *cgroup)
{
	(void)cgroup;
	return overlay_probe_works();
}

static bool ends_filters(const struct cgroup *cgroup)
{
	(void)cgroup;
	return filter_probe_holds();
}

static const char *remedy_of_namespaces(void)
{
	return namespaces_remedy("/proc/sys", namespaces.error);
}

static const char *remedy_of_proc(void)
{
	if (namespaces.error != 0)
		return "this could not be tried without namespaces: see namespaces and "
		       "system_calls";
	return "parts of /proc are masked here, as in a container: run the container with "
	       "--security-opt unmask=ALL (podman), --security-opt systempaths=unconfined "
	       "(docker) or procMount: Unmasked (Kubernetes), and without "
	       "ProtectKernelTunables= and the like in cloisterd's unit";
}

#define DELEGATE "systemd-run --user -p Delegate=yes cloisterd ..., or Delegate=yes in its unit"

static const struct feature {
	const char *name;
	bool (*is_there)(const struct cgroup *cgroup);
	const char *remedy; /* NULL: call that_says() */
	const char *cost;
	const char *(*that_says)(void);
} features[] = {
	{"cgroups", has_cgroup,
		"no cgroup with the memory and pids controllers is delegated to cloisterd: start "
		"it as a service with Delegate=yes, as in: " DELEGATE "; in a container its "
		"/sys/fs/cgroup must be writable to cloisterd's user, and cloisterd its first "
		"process (cgroup_writable of containerd 2.1)",
		"a command's memory is not limited, and its processes are limited only together "
		"with those of its workspace",
		NULL},
	{"single_process_oom", is_killed_alone,
		"memory.oom.group is 1 in cloisterd's cgroup or above it, and no memory controller "
		"is delegated to cloisterd: set singleProcessOOMKill: true in the kubelet's "
		"configuration (Kubernetes 1.32), OOMPolicy=continue in cloisterd's unit, or see "
		"cgroups",
		"if one command takes the last memory of that cgroup, the kernel kills cloisterd "
		"and "
		"all calls with it",
		NULL},
	{"cpu_controller", has_cpu, "delegate the cpu controller to cloisterd's cgroup: " DELEGATE,
		"one workspace can take all CPU time from the others", NULL},
	{"cpu_priority", comes_first,
		"delegate the cpu controller to cloisterd's cgroup; or start cloisterd as root "
		"with a user to become, or with LimitNICE=-20 in its unit, in a session of its own",
		"small calls wait while commands keep all CPUs busy", NULL},
	{"io_controller", has_io,
		"delegate the io controller to cloisterd's cgroup, on a kernel that has "
		"io.weight: " DELEGATE,
		"one workspace can slow down the disk for the others", NULL},
	{"landlock", has_landlock,
		"run Linux 5.19 or later with landlock among the security modules of its "
		"command line (lsm=), and do not forbid its system calls",
		"only its mount namespace restricts which files a process can open and create",
		NULL},
	{"subordinate_ids", has_subordinate_ids,
		"the user that cloisterd runs as has no range of its own in /etc/subuid and "
		"/etc/subgid: usermod --add-subuids 200000-265535 --add-subgids 200000-265535 USER",
		"there is no system mode: all workspaces run as one id, and only namespaces "
		"separate them",
		NULL},
	{"uidmap", has_uidmap,
		"cloisterd has neither CAP_SETUID and CAP_SETGID at its start "
		"(AmbientCapabilities= in its unit) nor newuidmap and newgidmap: apt install "
		"uidmap",
		"subordinate ids cannot be mapped, so there is no system mode", NULL},
	{"system_calls", has_calls, NULL, "no workspace can be opened, if cloisterd starts at all",
		calls_remedy},
	{"namespaces", makes_namespaces, NULL,
		"no workspace can be opened, if cloisterd starts at all", remedy_of_namespaces},
	{"fresh_proc", mounts_proc, NULL, "no workspace can be opened", remedy_of_proc},
	{"core_limit", may_limit_cores,
		"the hard limit on core files is 0: start cloisterd with 1 (LimitCORE=1 in its "
		"unit, ulimit -H -c 1), which prevents core files just as well",
		"if the host's core_pattern is a pipe, a program that runs as root reads the "
		"memory of crashed commands",
		NULL},
	{"shared_budgets", has_budgets, NULL,
		"workspaces that use their full share of what the kernel counts for cloisterd's "
		"user can leave others nothing: see shared_budgets in status",
		shared_budgets_remedy},
	{"disk_quota", has_disk_quota, NULL,
		"the kernel does not limit what a workspace takes on disk: with disk_classes it is "
		"measured, and what is written between two measurements is not held back, nor, "
		"without cgroups, what a command moves out of their way; without disk_classes, "
		"one workspace can fill the disk of all",
		disk_probe_remedy},
	{"overlay", carries_overlays, NULL,
		"managed workspaces have no checkpoints, rollbacks, diffs and previews, and no "
		"forks that lie above a template: what asks for one fails",
		overlay_probe_remedy},
	{"filter_ends", ends_filters,
		"run a kernel before Linux 6.9, or one that has the workqueue vmap_drain_helpers "
		"(mm/vmalloc: use dedicated unbound workqueues for vmap drain), give no tenant "
		"command_filters = allow, and keep cells_kept at 2000 or less, but not 0",
		"when a thousand or more system call filters end at one moment, as those of "
		"containers, or of many hundred workspaces when cloisterd is killed, the kernel "
		"can hang: nothing that installs a filter starts until the host is restarted",
		NULL},
	{"passrights", refuses_descriptors,
		"the kernel cannot refuse descriptors on a socket (SO_PASSRIGHTS): run Linux 6.16 "
		"or later",
		"cloisterd ends the connection of a client that passes descriptors, and closes "
		"connections in separate threads",
		NULL},
};

static bool present[ARRAY_SIZE(features)];
static const char *remedies[ARRAY_SIZE(features)]; /* determined while files can still be read */

void features_probe(const struct cgroup *cgroup)
{
	for (size_t i = 0; i < ARRAY_SIZE(features); i++)
		present[i] = features[i].is_there(cgroup);
	for (size_t i = 0; i < ARRAY_SIZE(features); i++)
		remedies[i] = features[i].remedy ? features[i].remedy : features[i].that_says();
}

static const char *remedy_of(const struct feature *feature)
{
	return remedies[feature - features];
}

void features_each(void (*each)(void *context, const struct feature_report *report), void *context)
{
	for (size_t i = 0; i < ARRAY_SIZE(features); i++) {
		struct feature_report report = {
			features[i].name, features[i].cost, remedy_of(&features[i]), present[i]};

		each(context, &report);
	}
}

bool features_print(FILE *stream)
{
	bool all = true;

	for (size_t i = 0; i < ARRAY_SIZE(features); i++) {
		all &= present[i];
		if (present[i])
			fprintf(stream, DOCTOR_PRESENT "%s\n", features[i].name);
		else
			fprintf(stream, DOCTOR_MISSING "%s\n" DOCTOR_COST "%s\n" DOCTOR_FIX "%s\n",
				features[i].name, features[i].cost, remedies[i]);
	}
	return all;
}

static const struct feature *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(features); i++)
		if (strcmp(features[i].name, name) == 0)
			return &features[i];
	return NULL;
}

bool feature_is_known(const char *name)
{
	return find(name) != NULL;
}

const char *feature_remedy(const char *name)
{
	const struct feature *feature = find(name);

	return feature ? remedy_of(feature) : NULL;
}

bool feature_is_present(const char *name)
{
	const struct feature *feature = find(name);

	return feature && present[feature - features];
}

const char *feature_names(void)
{
	static char names[384];
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_SIZE(features) && len < sizeof(names); i++)
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", i > 0 ? ", " : "",
			features[i].name);
	return names;
}

int features_check(const struct string_list *required, char **ret_message)
{
	for (size_t i = 0; i < required->count; i++) {
		const struct feature *feature = find(required->strings[i]);

		if (feature && present[feature - features])
			continue;
		if (asprintf(ret_message, "the configuration requires %s: %s", required->strings[i],
			    feature ? remedy_of(feature) : "there is no such feature") < 0)
			*ret_message = NULL;
		return -ENOTSUP;
	}
	return 0;
}
