// SPDX-License-Identifier: Apache-2.0
/*
 * usage: hold_child PID NAME futimens|linkat|sched_setscheduler|setpriority|unlinkat
 *
 * Prints "ready", waits until a child that the process makes from then on has this name and makes
 * this system call, stops it by SIGSTOP and prints its pid. Nothing else is held up. ptrace(2).
 */
#include "tests/lib/process_name.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPTIONS \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE)

static unsigned long long call_number(const char *name)
{
	static const struct {
		const char *name;
		unsigned long long number;
	} calls[] = {{"futimens", SYS_utimensat}, {"linkat", SYS_linkat},
		{"sched_setscheduler", SYS_sched_setscheduler}, {"setpriority", SYS_setpriority},
		{"unlinkat", SYS_unlinkat}};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(calls[i].name, name) == 0)
			return calls[i].number;
	return 0;
}

static bool enters(pid_t pid, unsigned long long number)
{
	struct __ptrace_syscall_info info = {0};

	ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info);
	return info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == number;
}

/* Lets what was stopped go on, the children to their next system call. */
static void go_on(pid_t stopped, bool parent, int status)
{
	int event = status >> 16, signal_number = WSTOPSIG(status);
	/* A stop by SIGSTOP or the like lasts until SIGCONT comes. */
	bool job = event == PTRACE_EVENT_STOP && signal_number != SIGTRAP;
	bool delivered = event == 0 && signal_number != (SIGTRAP | 0x80);

	if (job)
		ptrace(PTRACE_LISTEN, stopped, NULL, NULL);
	else
		ptrace(parent ? PTRACE_CONT : PTRACE_SYSCALL, stopped, NULL,
			delivered ? (long)signal_number : 0L);
}

int main(int argc, char **argv)
{
	pid_t pid = argc == 4 ? atoi(argv[1]) : 0, stopped;
	unsigned long long number = argc == 4 ? call_number(argv[3]) : 0;
	bool ready = false;
	int status;

	if (pid <= 0 || number == 0 || ptrace(PTRACE_SEIZE, pid, NULL, OPTIONS) < 0 ||
		ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0) {
		perror("hold_child");
		return 1;
	}
	while ((stopped = waitpid(-1, &status, __WALL)) > 0) {
		if (!WIFSTOPPED(status)) {
			if (stopped == pid)
				return 1;
			continue;
		}
		if (stopped == pid && !ready) {
			puts("ready");
			fflush(stdout);
			ready = true;
		}
		if (stopped != pid && WSTOPSIG(status) == (SIGTRAP | 0x80) &&
			enters(stopped, number) && has_name(stopped, argv[2])) {
			/* It stops when it has made the call. */
			kill(stopped, SIGSTOP);
			ptrace(PTRACE_DETACH, stopped, NULL, NULL);
			printf("%d\n", (int)stopped);
			return 0;
		}
		go_on(stopped, stopped == pid, status);
	}
	return 1;
}
