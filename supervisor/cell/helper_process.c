// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd: its only fork and exec, before lock-down. */
#include "supervisor/cell/helper_process.h"

#include "common/cleanup.h"
#include "common/program.h"
#include "supervisor/base/log_relay.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define END_WAIT_MS 1000
#define FIRST_MORE  4 /* the number of the first of the further descriptors */

int helper_process_start(struct helper_process *helper, const char *name, char *const argv[],
	const int *more, int n_more, int *ret_socket)
{
	_cleanup_close_ int program = -1, ours = -1, theirs = -1, log = -1;
	int pair[2], r;

	assert(n_more <= PROGRAM_FDS_MAX - FIRST_MORE);
	r = program_open(name, &program);
	if (r == 0)
		r = log_relay_new(&helper->log, &log);
	if (r < 0)
		return r;
	/*
	 * Check that the program may be executed, because the child could not report why its exec
	 * failed.
	 */
	if (faccessat(program, "", X_OK, AT_EMPTY_PATH | AT_EACCESS) < 0)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	helper->pid = fork();
	if (helper->pid < 0) {
		helper->pid = 0;
		return -errno;
	}
	if (helper->pid == 0) {
		int fds[PROGRAM_FDS_MAX] = {-1, -1, log, theirs};

		for (int i = 0; i < n_more; i++)
			fds[FIRST_MORE + i] = more[i];
		/* Its capabilities, if it has any, are those of a user namespace of its own. */
		(void)cap_reset_ambient();
		program_execute(program, argv, fds, FIRST_MORE + n_more);
		_exit(127);
	}
	*ret_socket = TAKE_FD(ours);
	return 0;
}

static void end_process(pid_t pid)
{
	const struct timespec step = {.tv_nsec = 5000000};

	for (int waited_ms = 0; waited_ms < 2 * END_WAIT_MS; waited_ms += 5) {
		if (waitpid(pid, NULL, WNOHANG) != 0)
			return;
		if (waited_ms == END_WAIT_MS)
			kill(pid, SIGKILL);
		nanosleep(&step, NULL);
	}
}

void helper_process_end(struct helper_process *helper)
{
	if (helper->pid > 0)
		end_process(helper->pid);
	log_relay_free(helper->log);
	*helper = (struct helper_process){0};
}
