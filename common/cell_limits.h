/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a workspace and a command are held to. cloisterd decides; the spawner and the worker write
 * what cgroups hold them to where there is one to write it to, and the worker does the rest.
 */

#include <stdint.h>

struct workspace_limits {
	uint64_t memory_bytes; /* at least LIMIT_MEMORY_MIN_BYTES */
	uint32_t processes;    /* threads too; at least 1 */
	uint32_t cpu_weight;   /* 1 to 10000, of all workspaces' sum */
	uint32_t cpu_percent;  /* of one CPU; 0: no maximum */
	uint32_t io_weight;    /* as cpu_weight */
	/* Of the worker's root, and of any file that a command writes; at least
	 * LIMIT_TMP_MIN_BYTES each. */
	uint64_t tmp_bytes;
	uint64_t file_size_bytes;
};

struct command_limits {
	uint64_t memory_bytes;
	uint32_t processes;
};
