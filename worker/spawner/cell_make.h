/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-spawner: one cell is the namespaces of one workspace with its two processes, worker and
 * files. The spawner makes it and forgets it but for its cgroup: cloisterd holds the pidfds, and
 * the kernel ends everything with the spawner.
 */

#include "common/wire_spawner.h"
#include "worker/spawner/cell_cgroup.h"
#include "worker/spawner/cell_id.h"
#include "worker/spawner/cell_spares.h"
#include "worker/spawner/cell_starts.h"
#include "worker/spawner/place.h"
#include "worker/spawner/policy.h"

#include <sys/types.h>

/* What the spawner starts cells with, for its whole life. */
struct cell_maker {
	int worker_program; /* O_PATH */
	int files_program;
	struct cell_ids *ids;
	struct cell_cgroups *cgroups;
	struct cell_spares *spares;
	struct cell_starts *starts;
	const struct policy *policy; /* NULL: user mode without a configuration */
	int keyring_error; /* -errno: all would have the caller's session keyring, so there is none
			    */
};

/**
 * Makes cell @number as @request says, for the checked directory and channels in @fds
 * (SPAWNER_OPEN_FDS of them, borrowed). @place is what a looker found that directory to be; what
 * is open in it is taken. 0 and the pidfds of worker and files process, or -errno
 * with the step that failed in @ret_step (static storage) and nothing left running.
 * -SPAWNER_REFUSAL and the reason in @ret_step: it must not be.
 */
int cell_make(const struct cell_maker *maker, uint64_t number, const struct spawner_open *request,
	const int *fds, struct place *place, int ret_pidfds[SPAWNER_OPENED_FDS],
	const char **ret_step);

/**
 * Begins to make another files process for a cell that has lost its own and whose worker lives,
 * with @fds (SPAWNER_OPEN_FILES_FDS, borrowed). 0 and the start, which is among @maker's and ends
 * with cell_start_end; otherwise as cell_make.
 */
int cell_make_files(const struct cell_maker *maker, const struct spawner_open *request,
	const int *fds, struct place *place, struct cell_start **ret_start, const char **ret_step);

/**
 * Makes cell @number ahead: its processes wait to be told by cell_assign for what, and their ids
 * are not mapped before. @fds are SPAWNER_PREPARE_FDS, otherwise as cell_make.
 */
int cell_prepare(const struct cell_maker *maker, uint64_t number,
	const struct spawner_open *request, const int *fds, int ret_pidfds[SPAWNER_OPENED_FDS],
	const char **ret_step);

/** Makes a waiting cell that of the workspace in @fds (SPAWNER_ASSIGN_FDS, borrowed) at @place, as
 * cell_make. 0 or -errno; then it is of no use any more. */
int cell_assign(const struct cell_maker *maker, const struct spawner_open *request, const int *fds,
	struct place *place, const char **ret_step);
