/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What is left of the host's files for cloisterd to use by name. */
struct lockdown_place {
	const char *path; /* a directory; NULL, or one that is not there: nothing */
	uint64_t access;  /* common/landlock.h */
};

/**
 * Gives up for good what cloisterd does not need any more once it is started: capabilities, new
 * privileges, being traced, and every system call that is not on its list, execve, fork, ptrace and
 * mount among them; and, where there is Landlock, all files but those beneath the @n @places. 0, or
 * -errno with the failed step's name in @ret_step. capabilities(7), prctl(2), seccomp(2).
 */
int lockdown(const struct lockdown_place *places, size_t n, const char **ret_step);

/** The step before the last alone, for tests. 0 or -errno. */
int lockdown_ruleset(const struct lockdown_place *places, size_t n);

/** The last step alone, for tests. 0 or -errno. */
int lockdown_filter(void);
