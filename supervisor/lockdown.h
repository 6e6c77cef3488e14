/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/**
 * Gives up for good what cloisterd does not need any more once it is started: capabilities, new
 * privileges, being traced, and every system call that is not on its list, execve, fork, ptrace and
 * mount among them. 0, or -errno with the failed step's name in @ret_step. capabilities(7),
 * prctl(2), seccomp(2).
 */
int lockdown(const char **ret_step);

/** The last step alone, for tests. 0 or -errno. */
int lockdown_filter(void);
