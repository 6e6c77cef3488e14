/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloisterd tests its own confinement on the host it runs on. It opens a canary workspace, of a
 * tenant that no configuration has, and makes the calls in it that an attacker would make, each
 * with the answer that must come. The calls take the same way as an agent's, from the JSON of their
 * params on. The commands run a program that cloisterd carries as data (probe/) and writes into the
 * canary as an agent would. The workspace's processes are not trusted: a wrong answer can only make
 * a probe fail.
 *
 * It is a state machine of the event loop: one call after the other, and nothing waits for it.
 */

#include "supervisor/selftest/selftest_results.h"

#include <stdbool.h>

struct selftest;
struct refusal;
struct service;

struct selftest_result {
	const struct selftest_probe *probe;
	const char *outcome; /* "passed", "failed", "skipped", or NULL: not run yet */
	const char *answer;  /* the answer that came */
};

/**
 * Reads from the service's configuration when to run. Calls @ended at the end of each run. Returns
 * NULL if memory is out.
 */
struct selftest *selftest_new(
	struct service *service, void (*ended)(const struct selftest *selftest));

/** Frees it when the loop is over, without a call in flight. NULL is allowed. */
void selftest_free(struct selftest *selftest);

/** Begins the runs that the configuration asks for. */
void selftest_start(struct selftest *selftest);

/**
 * Returns NULL if it can run or runs, otherwise a sentence in static storage: another generation
 * of cloisterd takes over, or the audit log, which must have a line for each call, refuses them.
 */
const char *selftest_obstacle(const struct selftest *selftest);

/**
 * Starts a run, unless one runs already. Its calls can fail like all others if something is
 * missing: room on the disk, a place in a queue, or a writable audit log. Such a run is not done,
 * and it is repeated soon if the self-test runs by itself.
 */
void selftest_run(struct selftest *selftest);

/** Looks at the last run that was done. */
void selftest_look(const struct selftest *selftest, struct selftest_summary *ret);

/** Looks at the last run that ended, whose probes are those of selftest_each(). */
void selftest_look_latest(const struct selftest *selftest, struct selftest_summary *ret);

/** Gives the result of each probe, in the suite's order, to @each. */
void selftest_each(const struct selftest *selftest,
	void (*each)(void *context, const struct selftest_result *result), void *context);

/** Whether the self-test refuses all calls. Returns TOOL_OK, or the code of @ret_refusal. */
enum tool_error selftest_refuses(const struct selftest *selftest, struct refusal *ret_refusal);

/** Returns "never", "passed", "failed" or "not_done". */
const char *selftest_state_name(enum selftest_state state);
