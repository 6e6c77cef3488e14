/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A cell while it is made in the spawner, and its processes. */

#include "worker/spare.h"
#include "worker/spawner/cell/cell_make.h"
#include "worker/spawner/cell/cell_sockets.h"

#include <limits.h>

/* A report from a child before its exec, over a pipe that the exec closes. */
struct child_report {
	char what; /* REPORT_* */
	int value; /* errno */
};

enum { REPORT_READY = 'r', REPORT_JOINED = 'j', REPORT_FAILED = 'f' };

/**
 * Returns 1 and a report; 0 if the pipe @fd was closed by the child's exec (or death); -ETIMEDOUT
 * if neither has come at @deadline (monotonic.h); or another -errno.
 */
int child_report_receive(int fd, uint64_t deadline, struct child_report *ret);

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

/**
 * Starts the worker in new namespaces, and in the cell's cgroup if there is one, and the files
 * process beside it. Returns 0 when both have executed their programs, with their pids and pidfds
 * in @cell, and its sockets; or -errno.
 */
int cell_start_both(struct cell *cell);
/**
 * Begins to start only the files process, which joins the namespaces of the worker in @cell.
 * Returns 0 and cell->start, or -errno.
 */
int cell_start_files(struct cell *cell);
/**
 * Maps the agent's ids in the user namespace of the worker @pid to the cell's. Returns 0 or -errno.
 */
int cell_write_maps(const struct cell *cell, pid_t pid);

/** Maps @id to the agent's in the new user namespace of the child @pid. Returns 0 or -errno. */
int child_write_maps(pid_t pid, struct cell_id id);
/** Kills the processes of a cell that failed, and closes its pidfds and its sockets. */
void cell_abandon(struct cell *cell);
