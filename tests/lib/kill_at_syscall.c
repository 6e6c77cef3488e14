// SPDX-License-Identifier: Apache-2.0
/*
 * usage: kill_at_syscall PID N
 *
 * Prints "ready", lets the process run until it has entered or left system calls N times, and kills
 * it there. "killed NUMBER LEFT" names the call and says whether it had returned. ptrace(2).
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	pid_t pid = argc == 3 ? atoi(argv[1]) : 0;
	int left = argc == 3 ? atoi(argv[2]) : 0, status;
	bool ready = false;

	if (pid <= 0 || ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACESYSGOOD) < 0 ||
		ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0) {
		perror("kill_at_syscall");
		return 1;
	}
	while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status)) {
		struct __ptrace_syscall_info info = {0};
		long signal_number = 0;

		if (status >> 16 == PTRACE_EVENT_STOP) {
			/* Stops by signals come again when they end. */
			if (!ready)
				puts("ready");
			fflush(stdout);
			ready = true;
		} else if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
			signal_number = WSTOPSIG(status);
		} else if (--left <= 0) {
			ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info);
			(void)signal(SIGTERM, SIG_IGN); /* finish printing the result */
			printf("killed %lld %d\n",
				info.op == PTRACE_SYSCALL_INFO_ENTRY ? (long long)info.entry.nr
								     : -1LL,
				info.op == PTRACE_SYSCALL_INFO_EXIT);
			fflush(stdout);
			kill(pid, SIGKILL);
			return 0;
		}
		if (ptrace(PTRACE_SYSCALL, pid, NULL, signal_number) < 0)
			return 1;
	}
	return 0;
}
