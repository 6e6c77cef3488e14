// SPDX-License-Identifier: Apache-2.0
/*
 * cloister-worker: from a fresh program in new namespaces, with the host's root and four
 * capabilities, to pid 1 of a workspace. The list at the end is the whole confinement of commands
 * that is done once; what each command adds is in command_init.c.
 */
#include "worker/commands/worker_setup.h"

#include "common/cleanup.h"
#include "common/fixed_fds.h"
#include "common/limits.h"
#include "worker/commands/command_filter.h"
#include "worker/commands/worker_root.h"
#include "worker/confine.h"
#include "worker/mounts.h"
#include "worker/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static int check_cloisterd_alive(void *context)
{
	(void)context;
	return confine_check_connected(FD_WORKER_DOWN);
}

/* Somewhere that the workspace does not cover. */
static int choose_home(void *context)
{
	static const char *const homes[] = {"/home/agent", "/run/home", "/tmp/home"};
	struct worker_setup *setup = context;
	size_t len = strlen(setup->visible), i;

	for (i = 0; i + 1 < ARRAY_SIZE(homes); i++)
		if (len > 1 && (strncmp(homes[i], setup->visible, len) != 0 ||
				       (homes[i][len] != '/' && homes[i][len] != '\0')))
			break;
	/* In a rootfs nothing is created, so home is where a private tmpfs is in any case. */
	setup->home = len > 1 ? homes[i] : "/run";
	return 0;
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

static int set_host_name(void *context)
{
	static const char name[] = "cloister";

	(void)context;
	return sethostname(name, sizeof(name) - 1) < 0 ? -errno : 0;
}

/* No user namespace in this one: a command that could make one would have capabilities in it. */
static int forbid_user_namespaces(void *context)
{
	struct worker_setup *setup = context;
	_cleanup_close_ int fd = openat(setup->root, "proc/sys/user/max_user_namespaces",
		O_WRONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return write(fd, "0", 1) == 1 ? 0 : -errno;
}

static int set_limits(void *context)
{
	const struct worker_setup *setup = context;
	const struct {
		rlim_t value;
		int resource;
		bool soft; /* a command may raise it again */
	} limits[] = {
		/* Counted per user namespace and id: this workspace's own. */
		{LIMIT_PROCESSES, RLIMIT_NPROC, false},
		{LIMIT_OPEN_FILES, RLIMIT_NOFILE, false},
		{setup->file_size_bytes, RLIMIT_FSIZE, false},
		/* 0 would still feed a core_pattern that is a pipe to a program of host root. */
		{1, RLIMIT_CORE, false},
		{8 * MIB, RLIMIT_MEMLOCK, false},
#ifndef __SANITIZE_ADDRESS__
		/*
		 * Against accidents: it is per process, so no bound on what a hostile command
		 * takes, and programs built with AddressSanitizer, ours included, need terabytes of
		 * it.
		 */
		{LIMIT_DATA_BYTES, RLIMIT_DATA, true},
#endif
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rlimit limit;

		if (getrlimit(limits[i].resource, &limit) < 0)
			return -errno;
		/* In flight over sockets they count for the user, whose cloisterd must still be
		 * able to pass its own. unix(7) */
		if (limits[i].resource == RLIMIT_NOFILE)
			limit.rlim_max /= 4;
		if (limit.rlim_max > limits[i].value && !limits[i].soft)
			limit.rlim_max = limits[i].value;
		limit.rlim_cur =
			limit.rlim_max < limits[i].value ? limit.rlim_max : limits[i].value;
		if (setrlimit(limits[i].resource, &limit) < 0)
			return -errno;
	}
	return 0;
}

/* Commands start where their init is, and it where the worker is. */
static int go_to_workspace(void *context)
{
	struct worker_setup *setup = context;

	umask(022);
	return chdir(setup->visible) < 0 ? -errno : 0;
}

static int prepare_wall(void *context)
{
	struct worker_setup *setup = context;

	int queues = -1, r = mount_new_mqueue(&queues);

	if (r < 0 && r != -ENODEV) /* a kernel without them */
		return r;
	return command_wall_prepare(setup->visible, setup->home, queues, &setup->wall);
}

static int keep_sys_admin_only(void *context)
{
	static const cap_value_t keep[] = {CAP_SYS_ADMIN};

	(void)context;
	return confine_keep_capabilities(keep, ARRAY_SIZE(keep));
}

static int filter_system_calls(void *context)
{
	struct worker_setup *setup = context;

	return command_filter_install(&setup->pass);
}

int worker_setup(struct worker_setup *setup, const char **ret_step)
{
	/* clang-format off */
	static const struct setup_step steps[] = {
		{"die with the spawner", setup_die_with_parent},
		{"check that cloisterd is alive", check_cloisterd_alive},
		{"leave the caller's session keyring", setup_leave_session_keyring},
		{"make mounts private", setup_private_mounts},
		{"choose a home", choose_home},
		{"make the root", root_make},
		{"show the system read-only", root_bind_system},
		{"write /etc", root_write_etc},
		{"mount the private tmpfs (/dev, /tmp and /run must be directories)", root_make_private},
		{"fill /dev (it must be a directory)", root_make_dev},
		{"mount /proc (it must be a directory)", root_mount_proc},
		{"show the tenant's readonly_paths", root_bind_readonly},
		{"attach the workspace", root_attach_workspace},
		{"raise the loopback interface", raise_loopback},
		{"set the host name", set_host_name},
		{"forbid user namespaces", forbid_user_namespaces},
		{"enter the root", root_enter},
		{"make cgroups read-only", root_protect_cgroups},
		{"make the root read-only", root_make_read_only},
		{"set resource limits", set_limits},
		{"go to the workspace", go_to_workspace},
		{"prepare the commands' Landlock rules", prepare_wall},
		{"empty the bounding set", setup_empty_bounding_set},
		{"keep CAP_SYS_ADMIN only", keep_sys_admin_only},
		{"no new privileges", setup_no_new_privs},
		{"become non-dumpable", setup_non_dumpable},
		/* Landlock is each command's own: the worker mounts. */
		{"install the commands' system call filter", filter_system_calls},
	};
	/* clang-format on */
	int r;

	r = setup_run(steps, ARRAY_SIZE(steps), setup, ret_step);
	if (r < 0 && setup->failed[0])
		*ret_step = setup->failed;
	return r;
}
