/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A cell while it is made in the spawner, for the files that make its parts. */

#include "common/wire/wire_spawner.h"
#include "worker/spare.h"
#include "worker/spawner/cell/cell_id.h"
#include "worker/spawner/cell/cell_sockets.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cell_cgroup;
struct cell_cgroups;
struct cell_homes;
struct cell_layers;
struct cell_private;
struct cell_privates;
struct cell_spare;
struct cell_spares;
struct cell_start;
struct cell_starts;
struct copies;
struct live_cell;
struct live_home;
struct live_layers;
struct place;
struct policy;
struct template_memory;

/* The parts that the spawner makes all cells with. */
struct cell_maker {
	int worker_program; /* O_PATH */
	int files_program;
	int unpack_program;
	struct cell_ids *ids;
	struct cell_homes *homes;
	struct cell_layers *layers;
	struct copies *copies;
	struct template_memory *templates;
	struct cell_privates *privates;
	struct cell_cgroups *cgroups;
	struct cell_spares *spares;
	struct cell_starts *starts;
	const struct policy *policy; /* NULL: user mode without a configuration */
	/* without a configuration: the user's own read-only paths, one a line */
	const char *readonly;
	bool network; /* without a configuration: the user has allowed hosts */
	/*
	 * -errno: the caller's session keyring could not be left, and all cells would inherit it,
	 * so none is made
	 */
	int keyring_error;
};

/*
 * A cell while it is made. Its processes are the spawner's children and are killed unless the cell
 * is completed.
 */
struct cell {
	const struct cell_maker *maker;
	uint64_t number;
	const struct spawner_open *request;
	const int *fds;
	const int *worker_fds, *files_fds; /* of them: the channels */
	char visible[PATH_MAX];
	const char *readonly; /* policy_readonly_paths */
	bool allows_filters;  /* policy_allows_filters */
	struct place *place;  /* borrowed: the path resolver's result */
	int root;             /* the checked directory, in this mount namespace */
	int home;             /* detached mount of its kept home; -1: the home is temporary */
	struct live_home *live_home;
	int trees[2]; /* detached clones for worker and files process */
	int layers;   /* that of the layers, for the files process; -1: there are none */
	int private;  /* the spawner's end of FD_WORKER_PRIVATE */
	struct cell_private *kept; /* of an earlier cell; NULL: it gets a new one */
	int pidfds[SPAWNER_OPENED_FDS];
	pid_t pids[SPAWNER_OPENED_FDS];
	struct cell_sockets network;
	struct cell_cgroup *cgroup; /* NULL: none is delegated */
	enum spare_kind spare;      /* a spare: trees holds the sockets at which it waits */
	int sockets[2];             /* their other ends */
	struct cell_spare *waiting; /* that is assigned */
	struct cell_id id;          /* the id that 1000 inside is mapped to */
	struct live_cell *live;
	struct live_layers *live_layers; /* NULL: the workspace has no layers */
	struct cell_start *start;        /* of a new files process, while it starts */
	const char *reason;              /* of a refusal */
	const char *failed;              /* the failed step, when more can be said than its name */
};
