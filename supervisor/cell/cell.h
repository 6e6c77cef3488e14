/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs in cloisterd. A cell is the worker and the files process of one workspace. cloisterd has
 * them made when a call needs them, ends them when no client has the workspace open, and has them
 * made again after a death. cell.c has the table of states and events; these are the main ways:
 */
/* clang-format off */
/*
 *   CLOSED ─► OPENING ─► OPEN ─► ENDING ─► RESTING ─► CLOSED    a worker dies, or is not needed
 *   OPEN ─► FILES_ENDING ─► FILES_RESTING ─► FILES_OPENING ─► OPEN    a files process dies alone
 */
/* clang-format on */
/*
 * A killed process that the kernel does not let go keeps the cell QUARANTINED, or FILES_HELD, in
 * which commands go on.
 */

#include "common/wire/wire_spawner.h"

#include <stdbool.h>

struct cell;
struct channel_frame;
struct event_base;
struct loop_share_flow;
struct spare_cells;
struct spawner_link;

enum cell_process {
	CELL_WORKER,
	CELL_FILES,
};

/* How much a workspace needs its cell now. */
enum cell_need {
	CELL_UNUSED, /* no client has its workspace open */
	CELL_KEPT,
	CELL_CALLED, /* there are calls */
};

/* The status of a cell for clients and metrics. cell.c distinguishes more states. */
enum cell_status {
	CELL_STATUS_CLOSED,
	CELL_STATUS_RESTING,
	CELL_STATUS_OPENING,
	CELL_STATUS_OPEN,
	CELL_STATUS_MENDING, /* its files process is replaced; commands go on */
	CELL_STATUS_ENDING,
	CELL_STATUS_QUARANTINED,
	CELL_STATUSES,
};

/* Why calls have lost their cell. */
enum cell_loss {
	/* calls that had begun are lost; waiting ones may wait for the next cell */
	CELL_LOST,
	CELL_GIVEN_UP,   /* waiting calls are lost too, because the cell has died repeatedly */
	CELL_NOT_MADE,   /* the cell could not be made */
	CELL_REFUSED,    /* the spawner refuses it: SPAWNER_REFUSAL */
	CELL_OVER_QUOTA, /* its id has no room on disk for a cell's files */
	CELL_UNFIT,      /* its files are in the way: SETUP_UNFIT */
	/*
	 * SPAWNER_NOT_NOW, its template cannot be loaded into memory now, or the host is short of
	 * processes, memory or open files for a moment
	 */
	CELL_NOT_NOW,
	CELL_SILENT, /* its directory's file system does not answer */
	CELL_HELD,   /* the kernel does not end a killed process of it, so calls must not wait */
	CELL_FILES_LOST, /* like CELL_LOST and CELL_HELD, for calls of the files process only; */
	CELL_FILES_HELD, /* or the spawner has no room to start one: SPAWNER_NOT_NOW */
	CELL_LOSSES,
};

struct cell_owner {
	enum cell_need (*need)(void *context);
	/* Returns why the cell cannot be made now, static; NULL: it can. */
	const char *(*refuses)(void *context);
	/* Describes the cell that the workspace needs; @ret_root is borrowed. */
	void (*describe)(void *context, struct spawner_open *ret, int *ret_root);
	/* A frame of a process that is ready. Returns -EBADMSG to drop the process. */
	int (*frame)(void *context, enum cell_process from, const struct channel_frame *frame);
	/*
	 * All lost processes are gone, except for CELL_HELD and CELL_FILES_HELD. @why may be NULL.
	 */
	void (*lost)(void *context, enum cell_loss loss, const char *why);
	/* Called after every change: calls may begin. The only callback that may free the cell. */
	void (*settled)(void *context);
	/* Returns the flow whose share of the loop reading its processes takes. */
	struct loop_share_flow *(*share)(void *context);
	/* Returns the sum for descriptors that its processes share. */
	struct shared_fd_sum *(*sum)(void *context);
	/* Returns the sum that the memory of requests that they have not read is added to. */
	uint64_t *(*unread)(void *context);
	/*
	 * The cell's sockets, which the function takes (enum cell_socket; -1: it does not have it);
	 * NULL: the cell ends.
	 */
	void (*network)(void *context, const int *sockets);
	/*
	 * A failure of the cell (cell_trouble.h) as a clause; borrowed. Not called for what its
	 * tenant has to change.
	 */
	void (*troubled)(void *context, const char *what);
	/* It is open for the first time, or after a death: writes may have left temporary files. */
	void (*sweep)(void *context);
};

/* Totals over all cells. */
struct cell_counts {
	uint64_t lost;       /* open cells that died, or were killed because they did not answer */
	uint64_t files_lost; /* the same for files processes alone */
	uint64_t idle_ended; /* ended because no call came */
	/*
	 * That could not be made, although they might be, one after the other: since a worker last
	 * told of a command. When that was for the last one (clock_now()), and why.
	 */
	unsigned unmade;
	int64_t unmade_at;
	char unmade_why[LIMIT_NAME_BYTES];
};

/** Makes a closed cell. @spares and @counts are borrowed. Returns NULL if memory is out. */
struct cell *cell_new(struct event_base *base, struct spawner_link *spawner,
	struct spare_cells *spares, const struct cell_owner *owner, void *context,
	struct cell_counts *counts);

/**
 * Kills its processes, without callbacks. May be called from the callback settled, from no other.
 * NULL is allowed.
 */
void cell_free(struct cell *cell);

/** Returns the quota of its id that the kernel enforced when it was opened; 0: none. */
uint64_t cell_disk_limit(const struct cell *cell);

/** Returns the pidfd of its worker, borrowed; it must be open. */
int cell_worker_pidfd(const struct cell *cell);

/** Returns the number that names its cgroup; 0 if it is not open. */
uint64_t cell_group(const struct cell *cell);

/** Notes a change that need or settled must look at; the loop does so later. */
void cell_settle(struct cell *cell);

/** Whether calls to @process may begin. */
bool cell_serves(const struct cell *cell, enum cell_process process);

/** A call got a frame from the cell, so the count of consecutive crashes starts again. */
void cell_reset_crash_count(struct cell *cell);

/** Like process_link_send(), to a process for which cell_serves() is true. */
void cell_send(struct cell *cell, enum cell_process process, uint8_t type, uint64_t call,
	struct text payload, const int *fds, unsigned n_fds);

/**
 * Like process_link_said() and process_link_has_heard(). A lost process counts as having read
 * everything.
 */
uint64_t cell_said(const struct cell *cell, enum cell_process process);
bool cell_has_heard(struct cell *cell, enum cell_process process, uint64_t said);

/** Kills @process, which does not do what it must; for the worker, the whole cell. */
void cell_abandon(struct cell *cell, enum cell_process process, const char *why);

/** No call has come for a long time: ends an open cell. The next call makes another. */
void cell_rest(struct cell *cell);

/**
 * With @replace, an open cell ends as soon as it has no calls, or at once if it opens; without it,
 * it stays. It is made again when it is needed.
 */
void cell_replace(struct cell *cell, bool replace);

/** Returns the status for clients and metrics. */
enum cell_status cell_status(const struct cell *cell);
/** The status as the protocol and the metrics write it. Static. */
const char *cell_status_name(enum cell_status status);

/** Whether a process of it was killed and the kernel has not let it go in time. */
bool cell_is_held(const struct cell *cell);

/** For the shutdown: first kills without waiting, then waits. No callbacks. */
void cell_kill(struct cell *cell);
void cell_wait(struct cell *cell, int milliseconds);
