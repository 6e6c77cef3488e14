// SPDX-License-Identifier: Apache-2.0
/*
 * usage: hold_syscall TID NUMBER
 *
 * Prints "ready", lets the thread run until it enters the system call NUMBER, prints "held", and
 * keeps it there until standard input ends, as a disk that does not answer would. ptrace(2).
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
	pid_t tid = argc == 3 ? atoi(argv[1]) : 0;
	unsigned long long number = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
	int status;
	bool ready = false;
	char byte;

	if (tid <= 0 || ptrace(PTRACE_SEIZE, tid, NULL, PTRACE_O_TRACESYSGOOD) < 0 ||
		ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0) {
		perror("hold_syscall");
		return 1;
	}
	while (waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status)) {
		struct __ptrace_syscall_info info = {0};
		long signal_number = 0;

		if (status >> 16 == PTRACE_EVENT_STOP) {
			/* Later stops come from signals to its process. */
			if (!ready)
				puts("ready");
			fflush(stdout);
			ready = true;
		} else if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
			signal_number = WSTOPSIG(status);
		} else {
			ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info);
			if (info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == number) {
				puts("held");
				fflush(stdout);
				while (read(STDIN_FILENO, &byte, 1) > 0)
					;
				ptrace(PTRACE_DETACH, tid, NULL, NULL);
				return 0;
			}
		}
		if (ptrace(PTRACE_SYSCALL, tid, NULL, signal_number) < 0)
			return 1;
	}
	return 0;
}
