/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes cells, in the spawner. A cell is the namespaces of one workspace with its two processes,
 * worker and files process. The spawner keeps only the cell's cgroup and ids: cloisterd holds the
 * pidfds, and the kernel ends everything with the spawner.
 */

#include "worker/spawner/cell/cell.h"
#include "worker/spawner/cell/cell_cgroup.h"
#include "worker/spawner/cell/cell_home.h"
#include "worker/spawner/cell/cell_layers.h"
#include "worker/spawner/cell/cell_private.h"
#include "worker/spawner/cell/cell_spares.h"
#include "worker/spawner/cell/cell_starts.h"
#include "worker/spawner/cell/place.h"
#include "worker/spawner/policy.h"

#include <sys/types.h>

/** Returns the read-only paths of a cell for @tenant, one a line. As policy_readonly_paths(). */
const char *cell_readonly_paths(const struct cell_maker *maker, const char *tenant);

/**
 * Makes cell @number for @request with the checked directory and channels in @fds (SPAWNER_OPEN_FDS
 * of them, borrowed). @place is a path resolver's result for the directory; its descriptors are
 * taken. Returns 0, the pidfds of worker and files process and, if the request has a proxy_port,
 * the cell's sockets; or -errno with the failed step in @ret_step (static storage) and no process
 * left; or -SPAWNER_REFUSAL or -SPAWNER_NOT_NOW with the reason in @ret_step if the cell is
 * forbidden, or cannot be made yet.
 */
int cell_make(const struct cell_maker *maker, uint64_t number, const struct spawner_open *request,
	const int *fds, struct place *place, int ret_pidfds[SPAWNER_OPENED_FDS],
	struct cell_sockets *ret_network, const char **ret_step);

/**
 * Begins to make a new files process for a cell that has lost its own and whose worker lives, with
 * @fds (SPAWNER_OPEN_FILES_FDS, borrowed). Returns 0 and the start, which belongs to @maker's
 * starts and is ended by cell_start_end(); otherwise like cell_make().
 */
int cell_make_files(const struct cell_maker *maker, const struct spawner_open *request,
	const int *fds, struct place *place, struct cell_start **ret_start, const char **ret_step);

/**
 * Finds the cell of the workspace at @place by the pidfd of its @worker. Gives a detached mount of
 * its directory, or of its layers if it has any. Returns 0; -SPAWNER_REFUSAL with the reason; or
 * -errno.
 */
int cell_shown(const struct cell_maker *maker, struct place *place, int worker, int *ret_tree,
	const char **ret_reason);

/**
 * Makes cell @number as a spare: its processes wait for cell_assign(), and in system mode their ids
 * are mapped only then. @fds are SPAWNER_PREPARE_FDS; otherwise like cell_make().
 */
int cell_prepare(const struct cell_maker *maker, uint64_t number,
	const struct spawner_open *request, const int *fds, int ret_pidfds[SPAWNER_OPENED_FDS],
	const char **ret_step);

/**
 * Makes a spare cell the cell of the workspace in @fds (SPAWNER_ASSIGN_FDS, borrowed) at @place.
 * Returns like cell_make(); after a failure the spare cannot be used.
 */
int cell_assign(const struct cell_maker *maker, const struct spawner_open *request, const int *fds,
	struct place *place, struct cell_sockets *ret_network, const char **ret_step);
