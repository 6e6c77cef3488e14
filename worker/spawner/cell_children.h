/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* cloister-spawner: a cell while it is made, and the processes that it is made of. */

#include "worker/spare.h"
#include "worker/spawner/cell_make.h"

#include <limits.h>

/* What a child under construction tells the spawner, over a pipe that its exec closes. */
struct child_report {
	char what; /* REPORT_* */
	int value; /* errno */
};

enum { REPORT_READY = 'r', REPORT_JOINED = 'j', REPORT_FAILED = 'f' };

/** 1 and a report; 0 when the child's exec (or death) has closed the pipe @fd; -ETIMEDOUT when
 * neither has come at @deadline (monotonic.h), or -errno. */
int child_report_receive(int fd, uint64_t deadline, struct child_report *ret);

/* A cell while it is made. Pids are the spawner's children; cleaned up unless the cell is handed
 * over. */
struct cell {
	const struct cell_maker *maker;
	uint64_t number;
	const struct spawner_open *request;
	const int *fds;
	const int *worker_fds, *files_fds; /* of them: the channels */
	char visible[PATH_MAX];
	const char *readonly; /* policy_readonly_paths */
	struct place *place;  /* borrowed: what a looker found where the workspace is to be */
	int root;             /* the checked directory, in this mount namespace */
	int trees[2];         /* detached clones for worker and files */
	int pidfds[SPAWNER_OPENED_FDS];
	pid_t pids[SPAWNER_OPENED_FDS];
	struct cell_cgroup *cgroup; /* NULL: none is delegated */
	enum spare_kind spare;      /* made ahead: trees are the sockets it waits at */
	int sockets[2];             /* their other ends */
	struct cell_spare *waiting; /* that is assigned */
	struct cell_id id;          /* what 1000 inside is mapped to */
	struct live_cell *live;
	struct cell_start *start; /* of another files process, on its way */
	const char *reason;       /* of a refusal */
	const char *failed;       /* the step, where more can be said of it than its name */
};

/**
 * Starts the worker in namespaces of its own, and in the cell's cgroup if there is one, and beside
 * it the files process. 0 when both have become their programs, with their pids and pidfds in
 * @cell, or -errno.
 */
int cell_start_both(struct cell *cell);
/** Begins the start of the files process alone, which joins the namespaces of the worker in @cell:
 * 0 and cell->start, or -errno. */
int cell_start_files(struct cell *cell);
/** Maps the agent's ids in the user namespace of the worker @pid to the cell's. 0 or -errno. */
int cell_write_maps(const struct cell *cell, pid_t pid);
/** Kills what has been started of a cell that failed, and closes its pidfds. */
void cell_abandon(struct cell *cell);
