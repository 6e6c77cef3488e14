// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd before lock-down. syscalls(2) lists the kernel versions; seccomp(2). */
#include "supervisor/host/calls_probe.h"

#include "common/cleanup.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The answer of a system call to arguments that are never valid. */
enum answer {
	ANSWER_THERE,
	ANSWER_MISSING, /* ENOSYS */
	ANSWER_REFUSED, /* EPERM or EACCES, although in a mount namespace of our own */
};

#define NONE (-1L)

/*
 * Arguments that are always invalid: descriptor -1, all flag bits, address 0, and a range that ends
 * before it begins.
 */
static const struct call {
	const char *name;
	const char *version; /* of Linux; NULL: cloister can do without the call */
	long number, arguments[5];
} calls[] = {
	{"open_tree", "5.2", SYS_open_tree, {NONE, 0, NONE, 0, 0}},
	{"move_mount", "5.2", SYS_move_mount, {NONE, 0, NONE, 0, NONE}},
	{"fsopen", "5.2", SYS_fsopen, {0, NONE, 0, 0, 0}},
	{"fsconfig", "5.2", SYS_fsconfig, {NONE, NONE, 0, 0, 0}},
	{"fsmount", "5.2", SYS_fsmount, {NONE, NONE, NONE, 0, 0}},
	{"fspick", "5.2", SYS_fspick, {NONE, 0, NONE, 0, 0}},
	{"clone3", "5.3", SYS_clone3, {0, 0, 0, 0, 0}},
	{"pidfd_open", "5.3", SYS_pidfd_open, {NONE, NONE, 0, 0, 0}},
	{"pidfd_send_signal", "5.1", SYS_pidfd_send_signal, {NONE, NONE, 0, NONE, 0}},
	{"openat2", "5.6", SYS_openat2, {NONE, 0, 0, 0, 0}},
	{"close_range", "5.9", SYS_close_range, {2, 1, 0, 0, 0}},
	{"mount_setattr", "5.12", SYS_mount_setattr, {NONE, 0, NONE, 0, 0}},
	{"pivot_root", "2.4", SYS_pivot_root, {0, 0, 0, 0, 0}},
	{"umount2", "2.2", SYS_umount2, {0, NONE, 0, 0, 0}},
	{"keyctl", NULL, SYS_keyctl, {NONE, 0, 0, 0, 0}},
	{"seccomp", "3.17", SYS_seccomp, {NONE, NONE, 0, 0, 0}},
};

/* The newest of the versions above. */
#define OLDEST_KERNEL "5.12"

static char remedy[1024];

static enum answer answer_of(const struct call *call, bool may_mount)
{
	const long *with = call->arguments;
	long r = syscall(call->number, with[0], with[1], with[2], with[3], with[4]);

	if (r >= 0)
		return ANSWER_THERE;
	if (errno == ENOSYS)
		return call->version ? ANSWER_MISSING : ANSWER_THERE;
	/*
	 * Outside such namespaces the kernel itself refuses some calls, and another feature reports
	 * that.
	 */
	return may_mount && (errno == EPERM || errno == EACCES) ? ANSWER_REFUSED : ANSWER_THERE;
}

/* Stores the answer of each call in @answers, which the parent shares. */
static void ask_system_calls(unsigned char *answers)
{
	bool may_mount = unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		answers[i] = (unsigned char)answer_of(&calls[i], may_mount);
}

static void add_calls_text(const char *text)
{
	size_t len = strlen(remedy);

	snprintf(remedy + len, sizeof(remedy) - len, "%s", text);
}

/* Appends the names of the calls with @answer, after @title. */
static bool name_them(const unsigned char *answers, enum answer answer, const char *title)
{
	bool any = false;

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		if (answers[i] != answer)
			continue;
		add_calls_text(any ? ", " : title);
		add_calls_text(calls[i].name);
		if (answer == ANSWER_MISSING) {
			add_calls_text(" (Linux ");
			add_calls_text(calls[i].version);
			add_calls_text(")");
		}
		any = true;
	}
	return any;
}

static bool all_allowed(const unsigned char *answers)
{
	bool missing, refused;

	remedy[0] = '\0';
	missing = name_them(answers, ANSWER_MISSING,
		"the kernel is too old for cloister, or these system calls are hidden: ");
	if (missing)
		add_calls_text(": run Linux " OLDEST_KERNEL " or later; ");
	refused = name_them(answers, ANSWER_REFUSED, "these system calls are refused: ");
	if (refused)
		add_calls_text(": ");
	if (missing || refused)
		add_calls_text(
			"a container's seccomp profile must allow them, as --security-opt "
			"seccomp=unconfined (docker, podman) and seccompProfile: {type: "
			"Unconfined} "
			"(Kubernetes) do, and so must SystemCallFilter= in cloisterd's unit");
	return !missing && !refused;
}

bool calls_probe(void)
{
	unsigned char *answers = mmap(
		NULL, ARRAY_SIZE(calls), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool good;
	pid_t pid;
	int status;

	if (answers == MAP_FAILED)
		return true; /* the test itself failed */
	pid = fork();
	if (pid == 0) {
		ask_system_calls(answers);
		_exit(0);
	}
	/* A filter has killed the child. */
	if (pid > 0 && waitpid(pid, &status, 0) == pid && !WIFEXITED(status))
		for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
			answers[i] = ANSWER_REFUSED;
	good = all_allowed(answers);
	munmap(answers, ARRAY_SIZE(calls));
	return good;
}

const char *calls_remedy(void)
{
	return remedy;
}
