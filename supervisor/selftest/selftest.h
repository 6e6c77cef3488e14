/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloisterd tries its own walls on the host it runs on: it opens a canary workspace, which is no
 * tenant's, and makes there the calls that an attacker would make, each with the answer that must
 * come. The calls go the way of every agent's, from the JSON of their params on; what runs in the
 * commands is a program that cloisterd brings along as data (probe/) and writes into the canary as
 * an agent would. The workspace's processes are trusted with nothing here: they can only say
 * something else than they should.
 *
 * It is a state machine of the loop's: one call after the other, nothing waits for it.
 */

#include "common/errors.h"
#include "supervisor/selftest/selftest_suite.h"

#include <stdbool.h>
#include <stdint.h>

#define SELFTEST_RETRY_MS 1000 /* after a self-test that the audit log forbade */

struct selftest;
struct refusal;
struct service;

/* The key selftest of the configuration, in its order. */
enum selftest_mode {
	SELFTEST_OFF,      /* when an administrator asks for it */
	SELFTEST_START,    /* and at start */
	SELFTEST_REQUIRED, /* and nothing is served unless the last one passed */
};

enum selftest_state {
	SELFTEST_NEVER, /* none has ended yet */
	SELFTEST_PASSED,
	SELFTEST_FAILED,
};

struct selftest_summary {
	enum selftest_state state; /* of the last one that ended */
	bool running;
	bool required;
	size_t passed, failed, skipped; /* likewise */
	int64_t ended_ms;               /* since the epoch; 0: never */
	int64_t duration_ms;
};

struct selftest_result {
	const struct selftest_probe *probe;
	const char *outcome; /* "passed", "failed", "skipped", or NULL: not tried yet */
	const char *answer;  /* what came */
};

/** Reads from the service's configuration when it is to run. @ended hears of the end of each run.
 * NULL: out of memory. */
struct selftest *selftest_new(
	struct service *service, void (*ended)(const struct selftest *selftest));

/** The loop is over: a call in flight is forgotten. NULL is fine. */
void selftest_free(struct selftest *selftest);

/** Begins the runs that the configuration asks for. */
void selftest_start(struct selftest *selftest);

/** Why it cannot be run now, a sentence with static storage: where no call is admitted because the
 * audit log must have a line of each, none of its own is either. NULL: it can be, or runs. */
const char *selftest_obstacle(const struct selftest *selftest);

/** Runs it now, unless it runs. Its calls are refused as any others: one that the audit log forbids
 * while it runs ends it as failed, and it is run again soon if it runs by itself. */
void selftest_run(struct selftest *selftest);

void selftest_look(const struct selftest *selftest, struct selftest_summary *ret);

/** Gives the result of each probe, in the suite's order, to @each. */
void selftest_each(const struct selftest *selftest,
	void (*each)(void *context, const struct selftest_result *result), void *context);

/** Whether nothing is served: TOOL_OK, or the code of @ret_refusal. */
enum tool_error selftest_refuses(const struct selftest *selftest, struct refusal *ret_refusal);

/** "never", "passed" or "failed". */
const char *selftest_state_name(enum selftest_state state);
