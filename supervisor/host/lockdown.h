/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A directory that cloisterd may still use by name after lock-down. */
struct lockdown_place {
	const char *path; /* a directory; NULL or a missing one: nothing */
	uint64_t access;  /* common/landlock.h */
};

/**
 * Irrevocably drops everything that cloisterd does not need after its start: capabilities, gaining
 * privileges by exec, being traced, every system call that is not on its list (such as execve,
 * fork, ptrace and mount), and, with Landlock, all files that are not beneath the @n @places.
 * Returns 0, or -errno with the failed step's name in @ret_step. capabilities(7), prctl(2),
 * seccomp(2).
 */
int lockdown(const struct lockdown_place *places, size_t n, const char **ret_step);

/** For tests: only the step before the last. Returns 0 or -errno. */
int lockdown_ruleset(const struct lockdown_place *places, size_t n);

/** For tests: only the last step. Returns 0 or -errno. */
int lockdown_filter(void);
