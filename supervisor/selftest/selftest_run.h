/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A run of the self-test, for the files that make its steps. */

#include "supervisor/base/timer.h"
#include "supervisor/schedule/unread.h"
#include "supervisor/selftest/canaries.h"
#include "supervisor/selftest/selftest_results.h"

#include <event2/event.h>

struct selftest_forks;
struct selftest_import;

struct selftest {
	struct service *service;
	struct canary canaries[CANARY_PLACES];
	enum canary_place place; /* of the current step */
	struct call *call;       /* in flight */
	struct selftest_import *import;
	struct selftest_forks *forks;
	struct unread_account unread;
	struct event *step;
	struct timer interval;
	struct timer wait; /* for cloister-egress */
	unsigned waits;
	bool is_repeated; /* a batch that the end of cloister-egress interrupted */
	bool running;
	size_t at;   /* index of the current probe, or of the first of the batch */
	size_t next; /* index after the current probe or batch */
	bool tearing_down;
	bool has_left_forks;                  /* they were removed, as far as that went */
	char obstacle[SELFTEST_ANSWER_BYTES]; /* why the suite could not be run; empty: it could */
	bool is_hindered;                     /* by a want: the obstacle shows nothing */
	int64_t began;                        /* as clock_now() */
	struct selftest_results results;
	void (*ended)(const struct selftest *selftest);
	struct selftest_summary last;       /* of the runs that showed something */
	struct selftest_summary latest;     /* of all that ended */
	char undone[SELFTEST_ANSWER_BYTES]; /* the latest one's obstacle, if that was a want */
	unsigned undone_runs;               /* one after the other */
	/* the step at which runs ended with doubt, and the number of these runs */
	size_t doubted;
	unsigned doubts;
	int64_t doubted_at; /* as clock_now(), when the last one was counted */
	bool is_doubtful;   /* such a step ended the latest run, or failed it */
};

/** The step that is under way has ended: the next one begins from the loop. */
static inline void selftest_step_soon(struct selftest *selftest)
{
	event_active(selftest->step, EV_TIMEOUT, 0);
}

/** Returns where the current step is made. */
static inline struct canary *selftest_canary(struct selftest *selftest)
{
	return &selftest->canaries[selftest->place];
}
