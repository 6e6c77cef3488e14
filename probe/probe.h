/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The probe program: what an attacker would bring into a workspace and run there. The self-test
 * (supervisor/selftest/selftest.h) writes it into its canary workspace with write_file and starts
 * it with run_command, as an agent's own program; cloister itself never executes it. It needs no
 * library and no file of the host's, so it runs wherever a command runs. Nobody trusts it: what it
 * says is compared with what the walls should have made of the attempt.
 */

#include "worker/commands/raw_syscall.h"

#include <stddef.h>
#include <stdint.h>

/* One attempt: says in a word what came of it. Runs in a process of its own. Static storage. */
typedef const char *probe_fn(void);

struct probe {
	const char *name;
	probe_fn *run;
};

/* Ended by a probe without a name. */
extern const struct probe probes_of_processes[]; /* processes.c */
extern const struct probe probes_of_files[];     /* files.c */
extern const struct probe probes_of_calls[];     /* calls.c */
extern const struct probe probes_of_budgets[];   /* budgets.c */

/* What the suite calls a probe for which this host has no object. */
#define PROBE_SKIPPED "skipped"

/** The name of the error -@result of a system call, or "OK". */
const char *probe_answer(long result);

/** "OK" after opening @path with @flags, or the error. */
const char *probe_open(const char *path, int flags);

/** The first bytes of the file @path, ended by a NUL, or the error. Static storage. */
const char *probe_read(const char *path);

/** @number in decimal. Static storage. */
const char *probe_number(long number);

size_t probe_length(const char *string);
int probe_equal(const char *a, const char *b);
int probe_begins(const char *string, const char *beginning);

/** The environment that the program was started with. */
extern char **probe_environment;
