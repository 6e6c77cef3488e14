/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The resource limits of a workspace and of a command. cloisterd chooses them. Where cgroups are
 * delegated, the spawner and the worker write them there; the worker applies the others with
 * setrlimit(2) and mount options.
 */

#include <stdint.h>

struct workspace_limits {
	uint64_t memory_bytes; /* at least LIMIT_MEMORY_MIN_BYTES */
	uint32_t processes;    /* including threads; at least 1 */
	uint32_t cpu_weight;   /* 1 to 10000, relative to the other workspaces */
	uint32_t cpu_percent;  /* percent of one CPU; 0 means unlimited */
	uint32_t io_weight;    /* like cpu_weight */
	/*
	 * Size of the worker's private tmpfs, and the largest file that a command may write; each
	 * at least LIMIT_TMP_MIN_BYTES.
	 */
	uint64_t tmp_bytes;
	uint64_t file_size_bytes;
	uint64_t data_bytes; /* of each process, RLIMIT_DATA, which it may raise; 0: none */
	uint32_t open_files; /* of each process, RLIMIT_NOFILE; at least 1 */
	uint32_t watches;    /* of inotify(7); at least 1 */
};

struct command_limits {
	uint64_t memory_bytes;
	uint32_t processes;
};
