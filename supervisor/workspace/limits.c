// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. sysinfo(2). */
#include "supervisor/workspace/limits.h"

#include "common/limits.h"
#include "supervisor/config/tenant.h"

#include <sys/sysinfo.h>

#define WORKSPACE_MEMORY_PERCENT 75 /* of the machine's memory, if that is less */
#define COMMAND_MEMORY_PERCENT   50

static uint64_t machine_memory(void)
{
	static uint64_t bytes;
	struct sysinfo info;

	if (bytes == 0 && sysinfo(&info) == 0)
		bytes = (uint64_t)info.totalram * info.mem_unit;
	return bytes > 0 ? bytes : UINT64_MAX;
}

/*
 * Limits @bytes to @percent of the machine's memory, because a higher limit would have no effect.
 */
static uint64_t fitted(uint64_t bytes, unsigned percent)
{
	uint64_t share = machine_memory() / 100 * percent;

	if (share < LIMIT_MEMORY_MIN_BYTES)
		share = LIMIT_MEMORY_MIN_BYTES;
	return share < bytes ? share : bytes;
}

struct workspace_limits limits_of_workspace(const struct tenant_limits *limits)
{
	return (struct workspace_limits){
		.memory_bytes = fitted(limits->workspace_memory_bytes, WORKSPACE_MEMORY_PERCENT),
		.processes = (uint32_t)limits->workspace_processes,
		.cpu_weight = (uint32_t)limits->cpu_weight,
		.cpu_percent = (uint32_t)limits->cpu_max_percent,
		.io_weight = (uint32_t)limits->io_weight,
		.tmp_bytes = limits->tmp_bytes,
		.file_size_bytes = limits->file_size_bytes,
		.data_bytes = limits->process_data_bytes,
		.open_files = (uint32_t)limits->open_files,
		.watches = (uint32_t)limits->watches,
	};
}

struct command_limits limits_of_command(const struct tenant_limits *limits)
{
	return (struct command_limits){
		.memory_bytes = fitted(limits->command_memory_bytes, COMMAND_MEMORY_PERCENT),
		.processes = (uint32_t)limits->command_processes,
	};
}
