// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner and in its child until that executes cloister-unpack. Neither looks into the
 * archive. user_namespaces(7), clone(2).
 */
#include "worker/spawner/job/unpacker.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "common/program.h"
#include "common/unpack_report.h"
#include "common/wire/fixed_fds.h"
#include "worker/confine.h"
#include "worker/spawner/cell/cell_id.h"

#include <errno.h>
#include <grp.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define NAMESPACES \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET)

#ifdef __SANITIZE_ADDRESS__
#define CHILD_STDERR 2 /* a sanitizer's report must reach the log */
#else
#define CHILD_STDERR (-1)
#endif

static int become_agent(const struct unpacker *unpacker)
{
	static const cap_value_t passed[] = {CAP_SYS_ADMIN, CAP_SETPCAP};

	if ((unpacker->drops_groups && setgroups(0, NULL) < 0) ||
		setresgid(AGENT_ID, AGENT_ID, AGENT_ID) < 0 ||
		setresuid(AGENT_ID, AGENT_ID, AGENT_ID) < 0)
		return -errno;
	return confine_pass_on_capabilities(passed, ARRAY_SIZE(passed));
}

static _Noreturn void be_unpacker(const struct unpacker *unpacker, int socket)
{
	const int fds[] = {
		-1, -1, CHILD_STDERR, unpacker->source, unpacker->target, unpacker->report};
	char max_bytes[24], max_files[24], byte = 'r';
	char *const argv[] = {(char *)"cloister-unpack", max_bytes, max_files, NULL};

	snprintf(max_bytes, sizeof(max_bytes), "%llu", (unsigned long long)unpacker->max_bytes);
	snprintf(max_files, sizeof(max_files), "%llu", (unsigned long long)unpacker->max_files);
	/* Its maps can be written only while it is dumpable. */
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	if (confine_die_with_parent() < 0 || send(socket, &byte, 1, MSG_NOSIGNAL) != 1 ||
		recv(socket, &byte, 1, 0) != 1 || become_agent(unpacker) < 0)
		_exit(UINT8_MAX);
	(void)program_execute(unpacker->program, argv, fds, ARRAY_SIZE(fds));
	_exit(UINT8_MAX);
}

/* Maps its one id as soon as it waits for that. */
static int set_up_unpacker(const struct unpacker *unpacker, int socket, pid_t pid)
{
	struct pollfd poll_fd = {.fd = socket, .events = POLLIN};
	uint64_t deadline = monotonic_ms() + LIMIT_CELL_START_MS;
	char byte;
	int r;

	do
		r = poll(&poll_fd, 1, monotonic_left_ms(deadline));
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : -ETIMEDOUT;
	if (recv(socket, &byte, 1, MSG_DONTWAIT) != 1)
		return -EIO;
	r = cell_id_write_maps(unpacker->id, pid);
	return r == 0 && send(socket, "g", 1, MSG_NOSIGNAL) != 1 ? -EIO : r;
}

pid_t unpacker_start(struct unpacker *unpacker)
{
	struct clone_args args = {.flags = NAMESPACES, .exit_signal = SIGCHLD};
	int pair[2] = {-1, -1}, r = 0;
	long pid = -1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		r = -errno;
	if (r == 0)
		pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0) {
		close(pair[0]);
		be_unpacker(unpacker, pair[1]);
	}
	if (r == 0 && pid < 0)
		r = -errno;
	close_fd(&pair[1]);
	if (r == 0)
		r = set_up_unpacker(unpacker, pair[0], (pid_t)pid);
	close_fd(&pair[0]);
	close_fd(&unpacker->source);
	close_fd(&unpacker->target);
	if (r < 0 && pid > 0)
		kill((pid_t)pid, SIGKILL); /* to be reaped as a process that nobody waits for */
	return r < 0 ? r : (pid_t)pid;
}

int unpacker_result(int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == UNPACK_EXIT_TOLD)
		return -EBADMSG;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}
