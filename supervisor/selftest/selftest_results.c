// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Answers come from the canary, whose processes are not trusted. */
#include "supervisor/selftest/selftest_results.h"

#include "common/cleanup.h"
#include "supervisor/base/log.h"
#include "supervisor/call/command_io.h"
#include "supervisor/call/result/observation.h"

#include <stdio.h>
#include <string.h>

#define LOGGED 20 /* failures of one run that are logged */

/* Answers that come where the host lacks something, whatever the walls are. */
static const struct hindrance {
	const char *answer;
	/* A probe that nothing stops may come to the same: it waits, or ends the worker. */
	bool is_doubtful;
	bool is_errno;
} hindrances[] = {
	{"NO_SPACE", false, false},
	{"QUOTA_EXCEEDED", false, false},
	{"BUSY", false, false},
	{"SHUTTING_DOWN", false, false},
	{"TIMEOUT", true, false},
	{"WORKER_LOST", true, false},
	{"MEMORY_LIMIT", true, false},
	{"PROCESS_LIMIT", true, false},
	{"ENOSPC", false, true},
	{"EDQUOT", false, true},
	{"EAGAIN", true, true},
	{"ENOMEM", true, true},
};

static const struct hindrance *find_hindrance(const char *answer)
{
	for (size_t i = 0; i < ARRAY_SIZE(hindrances); i++)
		if (strcmp(hindrances[i].answer, answer) == 0)
			return &hindrances[i];
	return NULL;
}

bool selftest_hinders(enum tool_error error)
{
	return find_hindrance(tool_error_name(error)) != NULL;
}

bool selftest_is_doubtful(const char *answer)
{
	const struct hindrance *hindrance = find_hindrance(answer);

	return hindrance && hindrance->is_doubtful;
}

/* Whether @answer is one of those in @wanted. */
static bool is_wanted(const char *wanted, const char *answer)
{
	struct text rest = text_from(wanted);

	while (rest.len > 0)
		if (text_equal(text_take(&rest, '|'), text_from(answer)))
			return true;
	return false;
}

/* Where a system call must be refused, the wall comes first: it fails for no want. */
static bool shows_nothing(const char *wanted, const char *answer)
{
	const struct hindrance *hindrance = find_hindrance(answer);

	return hindrance && !(hindrance->is_errno && wanted[0] == 'E');
}

void selftest_note(struct selftest_results *results, size_t at, struct text answer)
{
	char *noted = results->of[at].answer;

	snprintf(noted, SELFTEST_ANSWER_BYTES, "%.*s", (int)answer.len, answer.data);
	if (strcmp(noted, "skipped") == 0)
		results->of[at].outcome = SELFTEST_SKIPPED;
	else if (is_wanted(selftest_suite[at].wanted, noted))
		results->of[at].outcome = SELFTEST_OK;
	else
		results->of[at].outcome = shows_nothing(selftest_suite[at].wanted, noted)
						  ? SELFTEST_HINDERED
						  : SELFTEST_WRONG;
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

static bool is_program(enum probe_kind kind)
{
	return kind == PROBE_PROGRAM || kind == PROBE_ALONE || kind == PROBE_LAYERS ||
	       kind == PROBE_EGRESS || kind == PROBE_EMPTY || kind == PROBE_FORKED ||
	       kind == PROBE_SIBLING || kind == PROBE_ROOT;
}

static struct text output_of(const struct observation *observation)
{
	const struct stream_capture *capture =
		observation->io ? command_io_capture(observation->io, COMMAND_STREAM_STDOUT) : NULL;

	/* An answer that was cut off cannot be the wanted one. */
	if (!capture || stream_capture_truncated(capture))
		return (struct text){NULL, 0};
	return (struct text){capture->data, capture->len};
}

/* Trailing white space is not part of an answer. */
static struct text first_line(struct text output)
{
	struct text line = text_take(&output, '\n');

	while (line.len > 0 && line.data[line.len - 1] == ' ')
		line.len--;
	return line;
}

/* Returns the answer of a probe of @kind, which may be in @buffer. */
static struct text answer_of(enum probe_kind kind, const struct observation *observation,
	char buffer[static SELFTEST_ANSWER_BYTES])
{
	if (observation->error != TOOL_OK)
		return text_from(tool_error_name(observation->error));
	if (kind == PROBE_SHELL)
		return first_line(output_of(observation));
	if (kind == PROBE_CALL || kind == PROBE_UNREAD)
		return TEXT_LITERAL("OK");
	if (kind != PROBE_COUNT || !observation->files)
		return TEXT_LITERAL("no answer");
	snprintf(buffer, SELFTEST_ANSWER_BYTES, "OK %llu",
		(unsigned long long)observation->files->count);
	return text_from(buffer);
}

void selftest_note_call(struct selftest_results *results, size_t at, size_t next,
	const struct observation *observation)
{
	const enum probe_kind kind = selftest_suite[at].kind;
	char buffer[SELFTEST_ANSWER_BYTES];

	if (is_program(kind))
		selftest_note_lines(results, at, next, output_of(observation));
	for (size_t i = at; i < next; i++)
		if (results->of[i].outcome == SELFTEST_NOT_TRIED)
			selftest_note(results, i, answer_of(kind, observation, buffer));
}

struct selftest_counts selftest_count(
	struct selftest_results *results, const char *obstacle, bool is_hindered)
{
	struct selftest_counts counts = {0};

	for (size_t i = 0; i < selftest_suite_count; i++) {
		const struct selftest_probe *probe = &selftest_suite[i];

		if (results->of[i].outcome == SELFTEST_NOT_TRIED && is_hindered)
			selftest_skip(results, i, obstacle);
		else if (results->of[i].outcome == SELFTEST_NOT_TRIED)
			selftest_note(results, i, text_from(obstacle));
		counts.passed += results->of[i].outcome == SELFTEST_OK;
		counts.skipped += results->of[i].outcome == SELFTEST_SKIPPED ||
				  results->of[i].outcome == SELFTEST_HINDERED;
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
		[SELFTEST_HINDERED] = "skipped",
	};

	return names[outcome];
}
