// SPDX-License-Identifier: Apache-2.0
/*
 * The spawner's set-up: from a child of cloisterd to the owner of a user namespace in which
 * workspaces are made. The step list at the end is complete. user_namespaces(7),
 * mount_namespaces(7).
 */
#include "worker/spawner/spawner_setup.h"

#include "common/cleanup.h"
#include "common/wire/fixed_fds.h"
#include "common/wire/wire_spawner.h"
#include "spawner_filters.h"
#include "worker/confine.h"
#include "worker/filter.h"
#include "worker/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int check_cloisterd_alive(void *context)
{
	(void)context;
	return confine_check_connected(FD_SPAWNER_CHANNEL);
}

/*
 * Replaces the caller's session keyring: possession is inherited, so workspaces could read its
 * keys. All children share the new keyring, which is empty and gives no access. A user may have 200
 * keys, so each workspace cannot have a keyring of its own. keyrings(7)
 *
 * Some containers do not allow this. cloisterd then starts nevertheless and says why no workspace
 * can be opened.
 */
static int leave_session_keyring(void *context)
{
	struct spawner_setup *setup = context;
	long keyring = syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);

	if (keyring >= 0)
		keyring = syscall(SYS_keyctl, KEYCTL_SETPERM, keyring, 0);
	setup->keyring_error = keyring < 0 && errno != ENOSYS ? -errno : 0;
	return 0;
}

static int enter_namespaces(void *context)
{
	(void)context;
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 ? -errno : 0;
}

static int write_map_file(const char *path, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -errno;
}

/*
 * User mode: maps one id, the caller's, and disables setgroups(2), which lets an unprivileged user
 * write the maps.
 */
static int map_own_ids(const struct spawner_setup *setup)
{
	char map[64];
	int r;

	r = write_map_file("/proc/self/setgroups", "deny");
	if (r < 0)
		return r;
	snprintf(map, sizeof(map), "%u %u 1\n", setup->uid, setup->uid);
	r = write_map_file("/proc/self/uid_map", map);
	if (r < 0)
		return r;
	snprintf(map, sizeof(map), "%u %u 1\n", setup->gid, setup->gid);
	return write_map_file("/proc/self/gid_map", map);
}

/*
 * System mode: only a privileged process may map subordinate ids. /proc/PID belongs to root until
 * this process is dumpable.
 */
static int ask_for_ids(struct spawner_setup *setup)
{
	struct channel_frame frame;
	int r = prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 ? -errno : 0;

	if (r == 0)
		r = channel_send(
			setup->channel, SPAWNER_UNSHARED, 0, (struct text){NULL, 0}, NULL, 0);
	if (r == 0)
		r = channel_flush(setup->channel);
	while (r == 0 && (r = channel_next(setup->channel, &frame)) == 0) {
		r = channel_fill(setup->channel, WIRE_FRAME_MAX);
		r = r < 0 ? r : 0;
	}
	if (r < 0)
		return r;
	channel_frame_done(&frame);
	return frame.type == SPAWNER_MAPPED && frame.payload.len == 0 ? 0 : -EBADMSG;
}

static int map_ids(void *context)
{
	struct spawner_setup *setup = context;

	return setup->system ? ask_for_ids(setup) : map_own_ids(setup);
}

/*
 * Slave, not private: later mounts and unmounts of the host appear here, and mounts made here stay
 * here.
 */
static int follow_host_mounts(void *context)
{
	(void)context;
	return mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) < 0 ? -errno : 0;
}

static int filter_system_calls(void *context)
{
	(void)context;
	return filter_install(spawner_refused, ARRAY_SIZE(spawner_refused));
}

int spawner_setup(struct spawner_setup *setup, const char **ret_step)
{
	static const struct setup_step steps[] = {
		{"die with cloisterd", setup_die_with_parent},
		{"check that cloisterd is alive", check_cloisterd_alive},
		{"leave the caller's session keyring", leave_session_keyring},
		{"unshare user and mount namespaces", enter_namespaces},
		{"map its ids", map_ids},
		{"follow the host's mounts", follow_host_mounts},
		{"set no_new_privs", setup_no_new_privs},
		{"become non-dumpable", setup_non_dumpable},
		/* no Landlock, which forbids mounting */
		{"install the system call filter", filter_system_calls},
	};

	return setup_run(steps, ARRAY_SIZE(steps), setup, ret_step);
}
