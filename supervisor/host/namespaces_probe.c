// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd before lock-down. namespaces(7), user_namespaces(7). */
#include "supervisor/host/namespaces_probe.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATUS_MASKED 255 /* no errno is that large */

/* Runs in a child; its result is the exit status of the test. */
static int try_fresh_proc(void)
{
	int status;
	pid_t pid = fork();

	/*
	 * pid 1 of the new namespace: a procfs shows the namespace of the process that mounts it.
	 */
	if (pid == 0)
		_exit(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0
				? STATUS_MASKED
				: 0);
	if (pid < 0)
		return errno;
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

/* Runs in a child. Where AppArmor restricts user namespaces, they can be created but not used. */
static int try_namespaces(void)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
		    CLONE_NEWUTS) < 0 ||
		mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return errno;
	return try_fresh_proc();
}

int namespaces_probe(struct namespaces_probe *ret)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(try_namespaces());
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -EIO;
	*ret = (struct namespaces_probe){
		.error = WEXITSTATUS(status) == STATUS_MASKED ? 0 : WEXITSTATUS(status),
		.fresh_proc = WEXITSTATUS(status) == 0,
	};
	return 0;
}

/* Whether the file @name below @sys holds @value. */
static bool sysctl_says(const char *sys, const char *name, const char *value)
{
	_cleanup_close_ int directory = open(sys, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
	char text[32];
	ssize_t n;

	if (directory < 0)
		return false;
	fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return strcmp(text, value) == 0;
}

/* Since Linux 5.12. user_namespaces(7) */
static bool may_map_root(void)
{
	cap_t own = cap_get_proc();
	cap_flag_value_t setfcap = CAP_CLEAR;

	if (own)
		(void)cap_get_flag(own, CAP_SETFCAP, CAP_EFFECTIVE, &setfcap);
	cap_free(own);
	return setfcap == CAP_SET;
}

const char *namespaces_remedy(const char *sys, int error)
{
	static const struct {
		const char *name, *value, *remedy;
	} causes[] = {
		{"kernel/apparmor_restrict_unprivileged_userns", "1",
			"AppArmor restricts user namespaces here: give cloisterd a profile with "
			"\"userns,\", or: sysctl -w "
			"kernel.apparmor_restrict_unprivileged_userns=0"},
		{"kernel/unprivileged_userns_clone", "0",
			"unprivileged user namespaces are switched off here: sysctl -w "
			"kernel.unprivileged_userns_clone=1"},
		{"user/max_user_namespaces", "0",
			"user namespaces are not allowed here: sysctl -w "
			"user.max_user_namespaces=15000"},
		{"user/max_mnt_namespaces", "0",
			"mount namespaces are not allowed here: sysctl -w "
			"user.max_mnt_namespaces=15000"},
		{"user/max_pid_namespaces", "0",
			"pid namespaces are not allowed here: sysctl -w "
			"user.max_pid_namespaces=15000"},
		{"user/max_net_namespaces", "0",
			"network namespaces are not allowed here: sysctl -w "
			"user.max_net_namespaces=15000"},
		{"user/max_ipc_namespaces", "0",
			"ipc namespaces are not allowed here: sysctl -w "
			"user.max_ipc_namespaces=15000"},
		{"user/max_uts_namespaces", "0",
			"uts namespaces are not allowed here: sysctl -w "
			"user.max_uts_namespaces=15000"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(causes); i++)
		if (sysctl_says(sys, causes[i].name, causes[i].value))
			return causes[i].remedy;
	if (error == EPERM && geteuid() == 0 && !may_map_root())
		return "a container's root can map itself only with CAP_SETFCAP: run cloisterd as "
		       "another user of the container (--user in docker and podman, runAsUser: in "
		       "Kubernetes), or name the user to become (user =, with CAP_SETUID and "
		       "CAP_SETGID), or add the capability SETFCAP";
	if (error == ENOSPC)
		return "a limit on namespaces is reached, perhaps in an outer container: see "
		       "user.max_*_namespaces there";
	return "the container's seccomp profile or the host's policy forbids namespaces: run the "
	       "container with --security-opt seccomp=unconfined (docker, podman) or "
	       "seccompProfile: {type: Unconfined} (Kubernetes), or cloisterd outside it";
}
