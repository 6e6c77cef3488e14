// SPDX-License-Identifier: Apache-2.0
/* Runs in cloister-egress. */
#include "egress/usage.h"

#define HOUR_MS 3600000

bool usage_attempt(struct usage *usage, uint64_t limit, uint64_t now_ms)
{
	uint64_t second = now_ms / 1000;

	if (usage->second != second) {
		usage->second = second;
		usage->attempts = 0;
	}
	usage->attempts++;
	return limit == 0 || usage->attempts <= limit;
}

static void begin_hour(struct usage *usage, uint64_t now_ms)
{
	uint64_t hour = now_ms / HOUR_MS;

	if (usage->hour == hour)
		return;
	usage->hour = hour;
	usage->bytes_in = usage->bytes_out = 0;
}

static uint64_t left(uint64_t limit, uint64_t used)
{
	return limit == 0 ? UINT64_MAX : used >= limit ? 0 : limit - used;
}

uint64_t usage_left_in(struct usage *usage, uint64_t limit, uint64_t now_ms)
{
	begin_hour(usage, now_ms);
	return left(limit, usage->bytes_in);
}

uint64_t usage_left_out(struct usage *usage, uint64_t limit, uint64_t now_ms)
{
	begin_hour(usage, now_ms);
	return left(limit, usage->bytes_out);
}
