/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The result of each probe of a run, in the suite's order. */

#include "common/errors.h"
#include "common/text.h"
#include "supervisor/selftest/selftest_suite.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct observation;

#define SELFTEST_ANSWER_BYTES 64

enum selftest_outcome {
	SELFTEST_NOT_TRIED,
	SELFTEST_OK,
	SELFTEST_WRONG,
	SELFTEST_SKIPPED,
	SELFTEST_HINDERED, /* something was missing, so it shows nothing */
};

struct selftest_results {
	struct {
		enum selftest_outcome outcome;
		char answer[SELFTEST_ANSWER_BYTES]; /* what came, cut */
	} of[SELFTEST_PROBES_MAX];
};

/* The values of the configuration's key selftest, in its order. */
enum selftest_mode {
	SELFTEST_OFF,      /* runs when an administrator asks for it */
	SELFTEST_START,    /* runs at start as well */
	SELFTEST_REQUIRED, /* and no call is served unless the last run that was done passed */
};

enum selftest_state {
	SELFTEST_NEVER, /* no run has shown anything yet */
	SELFTEST_PASSED,
	SELFTEST_FAILED,
	SELFTEST_NOT_DONE, /* only of a run: it lacked something and has shown nothing */
};

struct selftest_summary {
	enum selftest_state state;
	bool running;
	bool required;
	size_t passed, failed, skipped; /* probes */
	int64_t ended_ms;               /* since the epoch; 0: never */
	int64_t duration_ms;
	/* why the latest run was not done; NULL: it was; valid until the next one ends */
	const char *obstacle;
};

struct selftest_counts {
	size_t passed, failed, skipped;
};

/** Whether a call of the set-up has failed because the host lacks something at present. */
bool selftest_hinders(enum tool_error error);

/** Whether @answer of a probe that was hindered may be the probe's own doing. */
bool selftest_is_doubtful(const char *answer);

/**
 * Stores the answer of the probe @at: "skipped", a wanted answer, an answer for lack of something,
 * or another one.
 */
void selftest_note(struct selftest_results *results, size_t at, struct text answer);

/** Stores that the probe @at says nothing in this run, and @why. */
void selftest_skip(struct selftest_results *results, size_t at, const char *why);

/**
 * Stores the answers in @output, one a line: the name of a probe, a space and its answer. Takes one
 * each of the probes from @at to before @next, and ignores all else.
 */
void selftest_note_lines(
	struct selftest_results *results, size_t at, size_t next, struct text output);

/**
 * Stores the result of the call @observation, in one word, for the probes from @at to before @next
 * without an answer; probes of the probe program have one in its output.
 */
void selftest_note_call(struct selftest_results *results, size_t at, size_t next,
	const struct observation *observation);

/**
 * Counts the results, and logs the first failures. Probes that were not tried have failed by
 * @obstacle, or are skipped if the run @is_hindered.
 */
struct selftest_counts selftest_count(
	struct selftest_results *results, const char *obstacle, bool is_hindered);

/** Returns "passed", "failed" or "skipped"; NULL: not tried. Static. */
const char *selftest_outcome_name(enum selftest_outcome outcome);
