/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Counts the results of calls since cloisterd started, for metrics. */

#include "common/errors.h"
#include "common/tools.h"
#include "supervisor/call/result/ended_by.h"

#include <stdint.h>

struct observation;
struct tenant_usage;

/* Upper bounds of the histogram in microseconds; one more bucket counts the rest. */
#define CALL_STATS_BOUNDS 12
extern const uint64_t call_stats_bounds_us[CALL_STATS_BOUNDS];

struct call_stats {
	uint64_t calls[TOOL_KINDS][TOOL_ERROR_COUNT];
	uint64_t buckets[TOOL_KINDS][CALL_STATS_BOUNDS + 1];
	uint64_t sum_us[TOOL_KINDS];
	uint64_t commands[ENDED_BY_COUNT];  /* commands that have run, by the cause of their end */
	uint64_t refused[TOOL_ERROR_COUNT]; /* requests that never became a call */
};

/** Counts a call of @tool that ended with @observation. */
void call_stats_ended(
	struct call_stats *stats, enum tool_id tool, const struct observation *observation);

/** Counts the command of a session, which is not a call of a tool. */
void call_stats_session(struct call_stats *stats, const struct observation *observation);

/** Counts it for its tenant. */
void call_stats_tenant(struct tenant_usage *usage, const struct observation *observation);

void call_stats_refused(struct call_stats *stats, enum tool_error error);
