/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The start of cloister-unpack, which makes a template of an archive: in namespaces of its own, of
 * users, mounts, processes, IPC, names and the network, and with one id, cloister's own.
 */

#include "worker/spawner/cell_id.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct unpacker {
	int program;        /* O_PATH; borrowed */
	int source, target; /* detached mounts; both are taken */
	int report;         /* borrowed */
	struct cell_id id;
	bool drops_groups; /* system mode: the supplementary groups are dropped */
	uint64_t max_bytes, max_files;
};

/** Starts it. Returns its pid, to be reaped by the caller, or -errno. */
pid_t unpacker_start(struct unpacker *unpacker);

/** What the exit @status says: 0; -EBADMSG if it has told why it failed; or another -errno. */
int unpacker_result(int status);
