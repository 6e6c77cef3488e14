/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/wire_commands.h"

#include <sys/types.h>

/*
 * Where a command's init leaves what it saw, for the worker to read once it has reaped it: shared
 * memory that the command never has, since it is gone with the exec.
 */
struct command_report {
	volatile uint8_t end; /* enum command_end; COMMAND_END_COUNT: the init was killed before it
				 could say */
	volatile uint32_t wait_status;
	volatile uint32_t launch_error;
};

struct command_start {
	const char *command; /* for /bin/sh -c */
	char *const *env;
	int fds[COMMAND_FDS]; /* COMMAND_FD_*: become 1, 2 and 0 */
	int cgroup_fd;        /* that the shell begins in; -1: the init's */
	struct command_report *report;
	char *stack; /* the init's, COMMAND_INIT_STACK bytes that nobody else uses until it is
			reaped */
};

#define COMMAND_INIT_STACK 65536 /* a multiple of every page size */

/**
 * Starts a command under an init of its own in new pid and mount namespaces. 0 and the init's pid,
 * a child of the caller; killing it ends every process of the command, and reaping it means that
 * none is left. -errno when there is no init; what fails after that is in the report. @start and
 * what it points to must stay until the report's end is set or the init is reaped. SIGCHLD and
 * SIGTERM must be blocked. pid_namespaces(7).
 */
int command_init_start(const struct command_start *start, pid_t *ret_pid);
