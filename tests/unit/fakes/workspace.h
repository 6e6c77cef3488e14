/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Replaces the functions of workspace.c and workspace_calls.c that calls use by a workspace that
 * logs what a call does to it. The test begins the call's entry and gives it frames. */

#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspace_calls.h"
#include "supervisor/workspace/workspace_disk.h"

#define FAKE_WORKSPACE_FDS 4

struct workspace {
	size_t users;
	struct workspace_entry *entry; /* the entry of the call; NULL: none has entered */
	bool has_network;              /* calls that begin have one: fakes/egress_cell.h */
	struct disk_state disk;        /* what workspace_disk() returns */
	uint64_t streaming;            /* what workspace_disk_stream() has added */
	bool heard;                    /* what workspace_has_heard() returns */
	struct shared_fd_sum *fd_sum;  /* what workspace_fd_sum() returns */
	char log[256];                 /* "enter run body terminate kill cancel ..." */
	int fds[FAKE_WORKSPACE_FDS];   /* of a command, which the test closes */
	unsigned n_fds;
	char request[8192]; /* the last payload */
	size_t request_len;
};

/** Returns the log since the last call: words, each after a space. */
const char *fake_workspace_log(struct workspace *workspace);

/** Closes the descriptors of a command. */
void fake_workspace_close(struct workspace *workspace);
