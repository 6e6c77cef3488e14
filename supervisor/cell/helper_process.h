/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A program of cloister's that cloisterd starts before its lock-down and that lives as long as
 * cloisterd does: the spawner, and cloister-egress where no service manager starts it. cloisterd
 * has one end of a socketpair and reads the program's log.
 */

#include <sys/types.h>

struct log_relay;

struct helper_process {
	pid_t pid;             /* 0: it was not started */
	struct log_relay *log; /* its stderr */
};

/**
 * Starts the program @name with @argv. Its descriptors are the log (2), the other end of
 * @ret_socket (3) and the @n_more at @more, from 4 on. Returns 0 or -errno; also after a failure
 * helper_process_end() is called.
 */
int helper_process_start(struct helper_process *helper, const char *name, char *const argv[],
	const int *more, int n_more, int *ret_socket);

/**
 * Waits until the program has ended, which it does when cloisterd's end of the socketpair is
 * closed, and passes on the rest of its log. If it does not end, it is killed; if even that does
 * not end it, it is left to the kernel. Does nothing if it was not started.
 */
void helper_process_end(struct helper_process *helper);
