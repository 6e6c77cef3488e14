/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starts cloister-unpack, which makes a template of an archive, in new user, mount, pid, IPC, UTS
 * and network namespaces, and with only cloister's id.
 */

#include "worker/spawner/cell/cell_id.h"

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

/** Decodes the exit @status: 0; -EBADMSG if it has reported why it failed; or another -errno. */
int unpacker_result(int status);
