// SPDX-License-Identifier: Apache-2.0
/*
 * The worker's set-up: from a fresh program in new namespaces, with the host's root and four
 * capabilities, to pid 1 of a workspace. The step lists at the end are the whole confinement of
 * commands that is done once; command_init.c adds the part that is done for each command.
 */
#include "worker/commands/worker_setup.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/short_timeslice.h"
#include "common/wire/fixed_fds.h"
#include "worker/commands/command_filter.h"
#include "worker/commands/worker_root.h"
#include "worker/confine.h"
#include "worker/mounts.h"
#include "worker/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define ROOT_AHEAD_TMP_BYTES (64 * KIB) /* provisional, until the workspace's limit is known */

static int check_cloisterd_alive(void *context)
{
	(void)context;
	return confine_check_connected(FD_WORKER_DOWN);
}

static const char *const homes[] = {"/home/agent", "/run/home", "/tmp/home"};

static bool mount_is_at_or_below(const char *path, const char *directory)
{
	size_t len = strlen(directory);

	return strncmp(path, directory, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/*
 * Chooses a home directory that the workspace does not cover. The workspace may lie in a temporary
 * one; in a kept one a mount point would have to be made for it, where commands of an earlier cell
 * may have put something else.
 */
static const char *choose_home(const char *visible, bool is_kept)
{
	size_t i;

	/*
	 * In a rootfs nothing is created, so HOME is a directory that a private tmpfs covers
	 * anyway, or one in it.
	 */
	if (strcmp(visible, "/") == 0)
		return is_kept ? "/run/home" : "/run";
	for (i = 0; i + 1 < ARRAY_SIZE(homes); i++)
		if (!mount_is_at_or_below(homes[i], visible) &&
			!(is_kept && mount_is_at_or_below(visible, homes[i])))
			break;
	return homes[i];
}

/* Whether the spawner has given the worker the mount of a kept home. */
static bool has_kept_home(void)
{
	struct stat stat_buf;

	return fstat(FD_WORKER_HOME, &stat_buf) == 0 && S_ISDIR(stat_buf.st_mode);
}

static int raise_loopback(void *context)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {.ifr_name = "lo"};

	(void)context;
	if (fd < 0)
		return -errno;
	request.ifr_flags = IFF_UP | IFF_RUNNING;
	return ioctl(fd, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}

/*
 * C libraries resolve no name at all for AI_ADDRCONFIG and one family where they see only 127.0.0.1
 * and ::1. So the loopback interface has a second address of each family. A host without IPv6
 * needs none. getaddrinfo(3), netdevice(7), ipv6(7)
 */
static int add_addresses(void *context)
{
	_cleanup_close_ int v4 = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	_cleanup_close_ int v6 = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {.ifr_name = "lo:1"};
	const struct sockaddr_in second = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
	const struct { /* linux/ipv6.h, which cannot be included beside netinet/in.h */
		struct in6_addr address;
		uint32_t prefix_length;
		int interface;
	} local = {.address.s6_addr = {0xfd, [15] = 1}, 128, (int)if_nametoindex("lo")};

	(void)context;
	memcpy(&request.ifr_addr, &second, sizeof(second));
	if (v6 >= 0)
		(void)ioctl(v6, SIOCSIFADDR, &local);
	return v4 < 0 || ioctl(v4, SIOCSIFADDR, &request) < 0 ? -errno : 0;
}

static int set_host_name(void *context)
{
	static const char name[] = "cloister";

	(void)context;
	return sethostname(name, sizeof(name) - 1) < 0 ? -errno : 0;
}

static int bound_count(int directory, const char *name, unsigned long value)
{
	_cleanup_close_ int fd = openat(directory, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	char text[24];
	int n = snprintf(text, sizeof(text), "%lu", value);

	/* A kernel too old to have the file does not have the object either. */
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	return write(fd, text, (size_t)n) == n ? 0 : -errno;
}

/*
 * The kernel counts these objects first in the workspace's user namespace, then against the user
 * that created it, which is the same for all workspaces. Only a process with CAP_SYS_RESOURCE in
 * this namespace can change the limits, and after set-up there is none. namespaces(7)
 */
static int bound_counts(void *context)
{
	static const struct {
		const char *name;
		unsigned long value;
	} bounds[] = {
		/* A command that could create a user namespace would have capabilities in it. */
		{"max_user_namespaces", 0},
		{"max_inotify_instances", LIMIT_INOTIFY_INSTANCES},
		{"max_pid_namespaces", LIMIT_COMMAND_NAMESPACES},
		{"max_mnt_namespaces", LIMIT_COMMAND_NAMESPACES},
		/* the one that exists */
		{"max_cgroup_namespaces", 1},
		{"max_ipc_namespaces", 1},
		{"max_net_namespaces", 1},
		{"max_uts_namespaces", 1},
		{"max_time_namespaces", 0},
		{"max_fanotify_groups", 0},
		{"max_fanotify_marks", 0},
	};
	struct worker_setup *setup = context;
	_cleanup_close_ int directory =
		openat(setup->root, "proc/sys/user", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = directory < 0 ? -errno : 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(bounds); i++)
		r = bound_count(directory, bounds[i].name, bounds[i].value);
	return r;
}

/* The workspace's own number, for which a root that is made ahead has to wait. */
static int bound_watches(void *context)
{
	struct worker_setup *setup = context;
	_cleanup_close_ int directory =
		openat(setup->root, "proc/sys/user", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return directory < 0 ? -errno
			     : bound_count(directory, "max_inotify_watches", setup->watches);
}

static int set_limit(int resource, rlim_t value)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)resource, &limit) < 0)
		return -errno;
	if (limit.rlim_max > value)
		limit.rlim_max = value;
	limit.rlim_cur = limit.rlim_max < value ? limit.rlim_max : value;
	return setrlimit((__rlimit_resource_t)resource, &limit) < 0 ? -errno : 0;
}

static int set_worker_limits(void *context)
{
	static const struct {
		rlim_t value;
		int resource;
	} limits[] = {
		/* counted for each user namespace and id, so this is the workspace's own */
		{LIMIT_PROCESSES, RLIMIT_NPROC},
		/*
		 * a limit of 0 would still start the pipe program of core_pattern, as root of the
		 * host
		 */
		{1, RLIMIT_CORE},
		{8 * MIB, RLIMIT_MEMLOCK},
		/* counted like the objects above: in the namespace, then against its creator */
		{LIMIT_PENDING_SIGNALS, RLIMIT_SIGPENDING},
		{LIMIT_QUEUE_BYTES, RLIMIT_MSGQUEUE},
	};

	(void)context;
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		int r = set_limit(limits[i].resource, limits[i].value);

		if (r < 0)
			return r;
	}
	return 0;
}

/* Descriptors in flight over sockets are counted for the user (unix(7)), and cloisterd needs to
 * pass its own. So a workspace gets a quarter of the number that cloisterd may open. */
static int limit_open_files(uint32_t value)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return -errno;
	return set_limit(RLIMIT_NOFILE, limit.rlim_max / 4 < value ? limit.rlim_max / 4 : value);
}

/* A soft limit against accidents. It is per process, so it does not bound what a hostile command
 * takes. A program built with a sanitizer maps terabytes and would fail under any such limit. */
static int limit_data(uint64_t bytes)
{
	struct rlimit limit;

	if (bytes == 0)
		return 0;
	if (getrlimit(RLIMIT_DATA, &limit) < 0)
		return -errno;
	limit.rlim_cur = limit.rlim_max < bytes ? limit.rlim_max : bytes;
	return setrlimit(RLIMIT_DATA, &limit) < 0 ? -errno : 0;
}

static int set_own_limits(void *context)
{
	const struct worker_setup *setup = context;
	int r = set_limit(RLIMIT_FSIZE, setup->file_size_bytes);

	if (r == 0)
		r = limit_open_files(setup->open_files);
	return r < 0 ? r : limit_data(setup->data_bytes);
}

/* A command starts in the working directory of its init, which is the worker's. */
static int go_to_workspace(void *context)
{
	struct worker_setup *setup = context;

	return chdir(setup->visible) < 0 ? -errno : 0;
}

static int mount_queues(void *context)
{
	struct worker_setup *setup = context;
	int r = setup->queues >= 0 ? 0 : mount_new_mqueue(&setup->queues);

	if (r < 0)
		return r == -ENODEV ? 0 : r; /* ENODEV: the kernel lacks message queues */
	if (setup->queue_names < 0)
		setup->queue_names =
			openat(setup->queues, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return setup->queue_names < 0 ? -errno : 0;
}

static int prepare_ruleset(void *context)
{
	struct worker_setup *setup = context;

	return command_ruleset_prepare(
		setup->visible, setup->home, TAKE_FD(setup->queues), &setup->ruleset);
}

static int keep_sys_admin_only(void *context)
{
	static const cap_value_t keep[] = {CAP_SYS_ADMIN};

	(void)context;
	return confine_keep_capabilities(keep, ARRAY_SIZE(keep));
}

static int install_filter(void *context)
{
	struct worker_setup *setup = context;

	return command_filter_install(
		(setup->inside >= 0 ? COMMAND_FILTER_INSIDE : COMMAND_FILTER_PLAIN) |
			(setup->allows_filters ? COMMAND_FILTER_NESTING : 0U),
		&setup->cookie, &setup->listener);
}

/*
 * A command may have a thousand processes that compute, in one scheduling group with the worker,
 * which must still hear when the command is to end.
 */
static int ask_for_short_timeslices(void *context)
{
	(void)context;
	(void)short_timeslice(false);
	return 0;
}

/* clang-format off */

/* Steps that need neither a workspace nor ids. */
static const struct setup_step first_steps[] = {
	{"die with the spawner", setup_die_with_parent},
	{"check that cloisterd is alive", check_cloisterd_alive},
	{"be killed first when memory runs out", setup_die_first},
	{"make mounts private", setup_private_mounts},
	{"raise the loopback interface", raise_loopback},
	{"give it further addresses", add_addresses},
	{"set the host name", set_host_name},
	{"set resource limits", set_worker_limits},
	{"ask for short CPU time slices", ask_for_short_timeslices},
	{"empty the capability bounding set", setup_empty_bounding_set},
};

/*
 * The root, whose files need mapped ids. It is the same for all workspaces except rootfs ones,
 * apart from the home directory and the size of the private tmpfs.
 */
static const struct setup_step root_steps[] = {
	{"make the root", root_make},
	{"make the directories that the root lacks", root_make_points},
	{"show the system read-only", root_bind_system},
	{"write /etc", root_write_etc},
	{"show the package database", root_show_packages},
	{"show the processors", root_show_processors},
	{"show no block devices and no logins", root_show_nothing},
	{"mount the private tmpfs (/dev, /tmp and /run must be directories)", root_make_private},
	{"fill /dev (it must be a directory)", root_make_dev},
	{"mount /proc (it must be a directory)", root_mount_proc},
	{"bound what the kernel counts (/proc/sys/user)", bound_counts},
	{"mount the message queues", mount_queues},
};

/* The workspace, and then dropping the privileges that building the root needed. */
static const struct setup_step last_steps[] = {
	/* the change of user has cleared the parent-death signal */
	{"die with the spawner", setup_die_with_parent},
	{"check that cloisterd is alive", check_cloisterd_alive},
	{"bound the private tmpfs", root_bound_private},
	{"bound the inotify watches", bound_watches},
	{"attach the private tmpfs of an earlier cell", root_attach_kept},
	{"share the private tmpfs with the spawner", root_share_private},
	{"attach the kept home", root_attach_home},
	{"show the tenant's readonly_paths", root_bind_readonly},
	{"attach the workspace", root_attach_workspace},
	{"enter the root", root_enter},
	{"make the root read-only", root_make_read_only},
	{"set the workspace's resource limits", set_own_limits},
	{"go to the workspace", go_to_workspace},
	{"prepare the commands' Landlock rules", prepare_ruleset},
	{"keep CAP_SYS_ADMIN only", keep_sys_admin_only},
	{"set no_new_privs", setup_no_new_privs},
	{"become non-dumpable", setup_non_dumpable},
	/* Each command has its own Landlock ruleset: the worker mounts, which Landlock forbids. */
};

/* Steps that take the kernel long. */
static const struct setup_step late_steps[] = {
	{"leave the host's root", root_leave_host},
	{"make cgroups read-only", root_protect_cgroups},
	{"install the commands' system call filter", install_filter},
};
/* clang-format on */

int worker_setup_ahead(struct worker_setup *setup, bool has_ids, const char **ret_step)
{
	int r = setup_run(first_steps, ARRAY_SIZE(first_steps), setup, ret_step);

	setup->begun = true;
	if (r < 0 || !has_ids)
		return r;
	/* Assume a workspace that covers no part of the root. */
	setup->visible = "";
	setup->home = homes[0];
	setup->tmp_bytes = ROOT_AHEAD_TMP_BYTES;
	r = setup_run(root_steps, ARRAY_SIZE(root_steps), setup, ret_step);
	setup->ahead = r == 0;
	return r;
}

/* Removes a root that was built ahead if it does not fit this workspace. */
static int keep_or_unmake(struct worker_setup *setup)
{
	const char *home = choose_home(setup->visible, setup->keeps_home);
	bool fits = setup->ahead && home == setup->home;

	setup->home = home;
	if (!setup->ahead || fits)
		return 0;
	setup->ahead = false;
	return root_unmake(setup);
}

int worker_setup(struct worker_setup *setup, const char **ret_step)
{
	int r = setup->begun ? 0 : setup_run(first_steps, ARRAY_SIZE(first_steps), setup, ret_step);

	setup->keeps_home = has_kept_home();
	*ret_step = r < 0 ? *ret_step : "take away the root that was made ahead";
	if (r == 0)
		r = keep_or_unmake(setup);
	if (r == 0 && !setup->ahead)
		r = setup_run(root_steps, ARRAY_SIZE(root_steps), setup, ret_step);
	if (r == 0)
		r = setup_run(last_steps, ARRAY_SIZE(last_steps), setup, ret_step);
	if (r < 0 && setup->failed[0])
		*ret_step = setup->failed;
	return r;
}

int worker_setup_late(struct worker_setup *setup, const char **ret_step)
{
	return setup_run(late_steps, ARRAY_SIZE(late_steps), setup, ret_step);
}
