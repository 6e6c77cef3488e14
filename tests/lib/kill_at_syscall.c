// SPDX-License-Identifier: Apache-2.0
/*
 * usage: kill_at_syscall PID N [CHILD]
 *
 * Prints "ready", lets the process run until it has entered or left system calls N times, and kills
 * it there. "killed NUMBER LEFT" names the call and says whether it had returned. With the name of
 * a child, its next child that takes this name is meant, from then on. ptrace(2).
 */
#include "tests/lib/process_name.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static void kill_here(pid_t pid)
{
	struct __ptrace_syscall_info info = {0};

	ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info);
	(void)signal(SIGTERM, SIG_IGN); /* finish printing the result */
	printf("killed %lld %d\n",
		info.op == PTRACE_SYSCALL_INFO_ENTRY ? (long long)info.entry.nr : -1LL,
		info.op == PTRACE_SYSCALL_INFO_EXIT);
	fflush(stdout);
	kill(pid, SIGKILL);
}

int main(int argc, char **argv)
{
	const char *child = argc == 4 ? argv[3] : NULL;
	pid_t pid = argc >= 3 ? atoi(argv[1]) : 0, stopped;
	int left = argc >= 3 ? atoi(argv[2]) : 0, status;
	bool ready = false;

	if (pid <= 0 ||
		ptrace(PTRACE_SEIZE, pid, NULL,
			PTRACE_O_TRACESYSGOOD | (child ? PTRACE_O_TRACEFORK : 0)) < 0 ||
		ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0) {
		perror("kill_at_syscall");
		return 1;
	}
	while ((stopped = waitpid(-1, &status, __WALL)) > 0) {
		bool is_call = WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80);
		long signal_number = 0;

		if (!WIFSTOPPED(status)) {
			if (stopped == pid)
				return 0;
			continue;
		}
		if (status >> 16 == PTRACE_EVENT_STOP) {
			/* Stops by signals come again when they end. */
			if (!ready)
				puts("ready");
			fflush(stdout);
			ready = true;
		} else if (!is_call && status >> 16 == 0) {
			signal_number = WSTOPSIG(status);
		} else if (is_call && (!child || (stopped != pid && has_name(stopped, child))) &&
			   --left <= 0) {
			kill_here(stopped);
			return 0;
		}
		if (ptrace(child && stopped == pid ? PTRACE_CONT : PTRACE_SYSCALL, stopped, NULL,
			    signal_number) < 0 &&
			stopped == pid)
			return 1;
	}
	return 0;
}
