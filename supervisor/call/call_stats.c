// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/call/call_stats.h"

#include "supervisor/call/result/observation.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"

const uint64_t call_stats_bounds_us[CALL_STATS_BOUNDS] = {
	100,
	250,
	500,
	1000,
	2500,
	5000,
	10000,
	50000,
	250000,
	1000000,
	10000000,
	60000000,
};

void call_stats_session(struct call_stats *stats, const struct observation *observation)
{
	if (observation->io)
		stats->commands[observation->ended_by]++;
}

void call_stats_ended(
	struct call_stats *stats, enum tool_id tool, const struct observation *observation)
{
	size_t bucket = 0;

	while (bucket < CALL_STATS_BOUNDS && observation->wall_us > call_stats_bounds_us[bucket])
		bucket++;
	stats->calls[tool][observation->error]++;
	stats->buckets[tool][bucket]++;
	stats->sum_us[tool] += observation->wall_us;
	if (tool == TOOL_RUN_COMMAND)
		call_stats_session(stats, observation);
}

void call_stats_tenant(struct tenant_usage *usage, const struct observation *observation)
{
	const struct command_ended *command = observation->command;

	usage->calls_ended++;
	usage->calls_us += observation->wall_us;
	if (!command)
		return;
	usage->command_cpu_us += command->user_us + command->system_us;
	/* A command whose I/O was not measured adds nothing. */
	if (command->cgroup.has_io) {
		usage->io_read_bytes += command->cgroup.io_read_bytes;
		usage->io_write_bytes += command->cgroup.io_write_bytes;
	}
}

void call_stats_refused(struct call_stats *stats, enum tool_error error)
{
	stats->refused[error]++;
}
