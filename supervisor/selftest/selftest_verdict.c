// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. What keeps a run from its end for want of something, such as room on a disk,
 * shows nothing about the walls, and every tenant can bring it about. So it counts neither for nor
 * against them: what the last run has shown stands, and the run is made again soon.
 */
#include "supervisor/selftest/selftest_verdict.h"

#include "common/limits.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/log.h"
#include "supervisor/call/service.h"
#include "supervisor/config/config.h"
#include "supervisor/selftest/selftest_run.h"

#include <stdio.h>
#include <string.h>

/*
 * Whether what ended the step @at for perhaps no want has ended it too often for that. Runs that
 * come soon after one another, as an administrator may ask for them, count as one.
 */
static bool is_too_often(struct selftest *selftest, size_t at)
{
	const int64_t now = clock_now();

	selftest->is_doubtful = true;
	if (selftest->doubted != at)
		selftest->doubts = 0;
	if (selftest->doubts == 0 ||
		now - selftest->doubted_at >= LIMIT_SELFTEST_DOUBT_MS * CLOCK_NS_PER_MS) {
		selftest->doubted_at = now;
		selftest->doubts++;
	}
	selftest->doubted = at;
	return selftest->doubts >= LIMIT_SELFTEST_DOUBTS;
}

bool selftest_is_want(struct selftest *selftest, enum tool_error error)
{
	/* A cell that cannot be made says no more than that. */
	return selftest_hinders(error) ||
	       (error == TOOL_EXECUTION_ERROR && !is_too_often(selftest, selftest->at));
}

/*
 * A probe that the walls do not stop may wait for ever, or end its worker. Then it is ended at the
 * same place again and again.
 */
static bool is_its_own(struct selftest *selftest, size_t at)
{
	return selftest_is_doubtful(selftest->results.of[at].answer) && is_too_often(selftest, at);
}

void selftest_see_wants(struct selftest *selftest)
{
	struct selftest_results *results = &selftest->results;

	if (selftest->tearing_down || selftest->obstacle[0])
		return;
	for (size_t i = selftest->at; i < selftest->next; i++) {
		if (results->of[i].outcome != SELFTEST_HINDERED)
			continue;
		if (is_its_own(selftest, i)) {
			results->of[i].outcome = SELFTEST_WRONG;
			continue;
		}
		selftest->is_hindered = true;
		snprintf(selftest->obstacle, sizeof(selftest->obstacle), "%s: %.32s",
			selftest_suite[i].name, results->of[i].answer);
		return;
	}
}

static void log_verdict(const struct selftest *selftest)
{
	const struct selftest_summary *latest = &selftest->latest;

	if (latest->state == SELFTEST_PASSED)
		log_info("self-test: %zu probes passed, %zu skipped", latest->passed,
			latest->skipped);
	else if (latest->state == SELFTEST_NOT_DONE)
		log_warning("self-test: not done, which shows nothing about the walls: %s",
			selftest->obstacle);
	else
		log_error("self-test: FAILED: %zu of %zu probes%s%s", latest->failed,
			selftest_suite_count, selftest->obstacle[0] ? ": " : "",
			selftest->obstacle);
}

/* An answer that no want explains is one, also if the run then came to no end. */
void selftest_judge(struct selftest *selftest)
{
	struct selftest_counts counts =
		selftest_count(&selftest->results, selftest->obstacle, selftest->is_hindered);

	selftest->latest =
		(struct selftest_summary){.state = counts.failed > 0       ? SELFTEST_FAILED
						   : selftest->is_hindered ? SELFTEST_NOT_DONE
									   : SELFTEST_PASSED,
			.passed = counts.passed,
			.failed = counts.failed,
			.skipped = counts.skipped,
			.ended_ms = clock_unix_ms(),
			.duration_ms = (clock_now() - selftest->began) / CLOCK_NS_PER_MS};
	log_verdict(selftest);
	if (selftest->latest.state == SELFTEST_NOT_DONE) {
		memcpy(selftest->undone, selftest->obstacle, sizeof(selftest->undone));
		selftest->latest.obstacle = selftest->last.obstacle = selftest->undone;
		selftest->undone_runs++;
		return;
	}
	selftest->last = selftest->latest;
	selftest->undone_runs = 0;
	if (selftest->last.state == SELFTEST_PASSED)
		selftest->doubts = 0;
}

int64_t selftest_pause_ms(const struct selftest *selftest)
{
	const struct config_host *host = &selftest->service->config->host;
	const int64_t interval = (int64_t)host->selftest_interval_ms;
	int64_t ms = LIMIT_SELFTEST_RETRY_MIN_MS;

	if (host->selftest == SELFTEST_OFF && interval == 0)
		return interval;
	/* One that failed may have: a moment without processes and a hole look the same. */
	if (selftest->undone_runs == 0 && selftest->is_doubtful)
		ms = LIMIT_SELFTEST_RETRY_MAX_MS;
	else if (selftest->undone_runs == 0)
		return interval;
	for (unsigned i = 1; i < selftest->undone_runs && ms < LIMIT_SELFTEST_RETRY_MAX_MS; i++)
		ms *= 2;
	if (ms > LIMIT_SELFTEST_RETRY_MAX_MS)
		ms = LIMIT_SELFTEST_RETRY_MAX_MS;
	return interval > 0 && interval < ms ? interval : ms;
}
