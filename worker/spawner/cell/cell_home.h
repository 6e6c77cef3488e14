/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kept homes of workspaces (home = kept), in the spawner: homes/TENANT/NAME beside the
 * directory of managed workspaces, each owned by its workspace's id. NAME is that of a managed
 * workspace, or the path of a directory with ':' for each '/' and with "%3A" and "%25" for ':' and
 * '%'. The path is the only record of a home's workspace. cloisterd never names a home: the spawner
 * derives it from the cell's tenant and directory.
 *
 * After a cell has ended, a home cleaner measures its home. The spawner removes a home that is
 * larger than home_size, and the home of a workspace that is gone. It first renames the home to
 * ".gone-N", so that no cell can get it any more.
 */

#include "common/wire/wire_spawner.h"
#include "worker/spawner/cell/cell_id.h"
#include "worker/spawner/cell/place.h"
#include "worker/spawner/job/home_sweep.h"
#include "worker/spawner/job/path_resolver.h"
#include "worker/spawner/policy.h"

#include <sys/queue.h>
#include <sys/types.h>

struct live_home;
struct home_job;

struct cell_homes {
	int managed; /* directory of the managed workspaces, or -1 */
	int root;    /* "homes", in this mount namespace; -1: not opened, or there is none */
	const struct policy *policy;
	bool beside;   /* cell_homes_set_beside() */
	uint64_t gone; /* number in the name of the next home that is put aside */
	LIST_HEAD(, live_home) live;
	LIST_HEAD(, home_job) jobs; /* all that is in @sweeps */
	struct sweep_queue sweeps;  /* held while another generation uses the homes */
};

/** Initialises @homes; @managed as in cell_ids_init(), borrowed. */
void cell_homes_init(struct cell_homes *homes, struct jobs *jobs, int managed);

/**
 * Call it when the spawner is in its namespaces: removes homes of workspaces that are gone, and
 * measures the others. @path resolvers find out which directories are gone.
 */
void cell_homes_sweep(struct cell_homes *homes, struct path_resolvers *resolvers);

/**
 * Opens the home of the workspace of @tenant at @place, which runs as @id, or makes it. Returns 0
 * with a clone of its mount in @ret_tree and the home's use in @ret_live; or with -1 and NULL if
 * the tenant's workspaces have temporary homes; -SPAWNER_REFUSAL or -SPAWNER_NOT_NOW with the
 * reason in @ret_reason (static storage); or another -errno.
 */
int cell_homes_take(struct cell_homes *homes, const char *tenant, const struct place *place,
	bool is_managed, struct cell_id id, int *ret_tree, struct live_home **ret_live,
	const char **ret_reason);

/**
 * While another generation of cloisterd may use homes, the spawner measures, clears and removes no
 * home.
 */
void cell_homes_set_beside(struct cell_homes *homes, bool beside);

/** Assigns the home to the cell whose worker is @worker; 0: the cell could not be made. */
void cell_homes_holds(struct live_home *live, pid_t worker);

/**
 * The managed workspace @name of @tenant was removed. Does nothing if it is still there; a newer
 * workspace of the same name does not keep the home.
 */
void cell_homes_forget(struct cell_homes *homes, const char *tenant, const char *name);

/** @pid has been reaped. */
void cell_homes_reaped(struct cell_homes *homes, pid_t pid);
