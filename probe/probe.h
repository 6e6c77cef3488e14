/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The probe program: an attacker's program in a workspace. The self-test
 * (supervisor/selftest/selftest.h) writes it into its canary workspace with write_file and starts
 * it with run_command, as an agent would; cloister itself never executes it. It needs no library
 * and no file of the host, so it runs wherever a command runs. Its output is not trusted: the
 * self-test compares it with the result that the confinement must give.
 */

#include "worker/commands/raw_syscall.h"

#include <stddef.h>
#include <stdint.h>

/* One attempt: returns its result in one word, in static storage. Runs in a process of its own. */
typedef const char *probe_fn(void);

struct probe {
	const char *name;
	probe_fn *run;
};

/* The last entry has no name. */
extern const struct probe probes_of_processes[]; /* processes.c */
extern const struct probe probes_of_files[];     /* files.c */
extern const struct probe probes_of_calls[];     /* calls.c */
extern const struct probe probes_of_budgets[];   /* budgets.c */
extern const struct probe probes_of_egress[];    /* egress.c */
extern const struct probe probes_of_layers[];    /* layers.c */
extern const struct probe probes_of_archives[];  /* archives.c */
extern const struct probe probes_of_forks[];     /* forks.c */

/* The self-test's result for a probe that does not apply to this host. */
#define PROBE_SKIPPED "skipped"

/** Returns the name of the error -@result of a system call, or "OK". */
const char *probe_answer(long result);

/** Returns "OK" after opening @path with @flags, or the name of the error. */
const char *probe_open(const char *path, int flags);

/** Returns the first bytes of the file @path, or the name of the error. Static storage. */
const char *probe_read(const char *path);

/** Returns @number in decimal. Static storage. */
const char *probe_number(long number);

size_t probe_length(const char *string);
int probe_equal(const char *a, const char *b);
int probe_begins(const char *string, const char *beginning);

/** The environment that the program was started with. */
extern char **probe_environment;
