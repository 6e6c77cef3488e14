/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What became of calls, counted since cloisterd started: what metrics are made of. */

#include "common/errors.h"
#include "common/tools.h"
#include "supervisor/call/ended_by.h"

#include <stdint.h>

struct observation;
struct tenant_usage;

/* Upper bounds of the histogram, in microseconds; one more bucket has what is above. */
#define CALL_STATS_BOUNDS 12
extern const uint64_t call_stats_bounds_us[CALL_STATS_BOUNDS];

struct call_stats {
	uint64_t calls[TOOL_COUNT][TOOL_ERROR_COUNT];
	uint64_t buckets[TOOL_COUNT][CALL_STATS_BOUNDS + 1];
	uint64_t sum_us[TOOL_COUNT];
	uint64_t commands[ENDED_BY_COUNT];  /* that have run, by why they ended */
	uint64_t refused[TOOL_ERROR_COUNT]; /* what never became a call */
};

/** Counts a call of @tool that came to @observation. */
void call_stats_ended(
	struct call_stats *stats, enum tool_id tool, const struct observation *observation);

/** Counts it for its tenant. */
void call_stats_tenant(struct tenant_usage *usage, const struct observation *observation);

void call_stats_refused(struct call_stats *stats, enum tool_error error);
