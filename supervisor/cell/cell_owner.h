/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The callbacks of a cell to its owner, the workspace. */

#include "common/wire/wire_spawner.h"

#include <stdbool.h>
#include <stdint.h>

struct cell;
struct channel_frame;
struct loop_share_flow;
struct shared_fd_sum;

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
	/* Returns the flow that pays for the loop's time in reading its processes. */
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
	 * A failure of the cell (cell_trouble.h) as a clause; borrowed. Not called for a failure
	 * that only its tenant can remove.
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
	 * The number of cells in a row that could not be made, although they are allowed, since a
	 * worker last reported a command. When the last one failed (clock_now()), and why.
	 */
	unsigned unmade;
	int64_t unmade_at;
	char unmade_why[LIMIT_NAME_BYTES];
};
