// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Answers come from the canary, whose processes are not trusted. */
#include "supervisor/selftest/selftest_results.h"

#include "supervisor/base/log.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LOGGED 20 /* failures of one run that are logged */

/* Whether @answer is one of those in @wanted. */
static bool is_wanted(const char *wanted, const char *answer)
{
	struct text rest = text_from(wanted);

	while (rest.len > 0)
		if (text_equal(text_take(&rest, '|'), text_from(answer)))
			return true;
	return false;
}

void selftest_note(struct selftest_results *results, size_t at, struct text answer)
{
	char *noted = results->of[at].answer;

	snprintf(noted, SELFTEST_ANSWER_BYTES, "%.*s", (int)answer.len, answer.data);
	if (strcmp(noted, "skipped") == 0)
		results->of[at].outcome = SELFTEST_SKIPPED;
	else
		results->of[at].outcome =
			is_wanted(selftest_suite[at].wanted, noted) ? SELFTEST_OK : SELFTEST_WRONG;
}

void selftest_skip(struct selftest_results *results, size_t at, const char *why)
{
	snprintf(results->of[at].answer, SELFTEST_ANSWER_BYTES, "%s", why);
	results->of[at].outcome = SELFTEST_SKIPPED;
}

void selftest_note_lines(
	struct selftest_results *results, size_t at, size_t next, struct text output)
{
	while (output.len > 0) {
		struct text line = text_take(&output, '\n'), name = text_take(&line, ' ');

		for (size_t i = at; i < next; i++)
			if (results->of[i].outcome == SELFTEST_NOT_TRIED &&
				text_equal(text_from(selftest_suite[i].name), name))
				selftest_note(results, i, line);
	}
}

struct selftest_counts selftest_count(struct selftest_results *results, const char *obstacle)
{
	struct selftest_counts counts = {0};

	for (size_t i = 0; i < selftest_suite_count; i++) {
		const struct selftest_probe *probe = &selftest_suite[i];

		if (results->of[i].outcome == SELFTEST_NOT_TRIED)
			selftest_note(results, i, text_from(obstacle));
		counts.passed += results->of[i].outcome == SELFTEST_OK;
		counts.skipped += results->of[i].outcome == SELFTEST_SKIPPED;
		if (results->of[i].outcome == SELFTEST_WRONG && counts.failed++ < LOGGED)
			log_about(LOG_ERR,
				LOG_FIELDS({"CLOISTER_PROBE", text_from(probe->name)},
					{"CLOISTER_ROW", text_from(probe->row)}),
				"self-test: %s (%s): wanted %s, got %s", probe->name, probe->row,
				probe->wanted, results->of[i].answer);
	}
	if (counts.failed > LOGGED)
		log_error("self-test: and %zu more probes failed", counts.failed - LOGGED);
	return counts;
}

const char *selftest_outcome_name(enum selftest_outcome outcome)
{
	static const char *const names[] = {
		[SELFTEST_OK] = "passed",
		[SELFTEST_WRONG] = "failed",
		[SELFTEST_SKIPPED] = "skipped",
	};

	return names[outcome];
}
