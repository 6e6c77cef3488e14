/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What cgroups hold a workspace and a command to. cloisterd decides, the spawner and the worker
 * write it where there is a cgroup to write it to.
 */

#include <stdint.h>

struct workspace_limits {
	uint64_t memory_bytes; /* at least LIMIT_MEMORY_MIN_BYTES */
	uint32_t processes;    /* threads too; at least 1 */
	uint32_t cpu_weight;   /* 1 to 10000, of all workspaces' sum */
	uint32_t cpu_percent;  /* of one CPU; 0: no maximum */
	uint32_t io_weight;    /* as cpu_weight */
};

struct command_limits {
	uint64_t memory_bytes;
	uint32_t processes;
};
