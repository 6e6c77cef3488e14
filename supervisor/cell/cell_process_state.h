/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The inside of a cell, for its files. */

#include "supervisor/base/loop_turn.h"
#include "supervisor/base/timer.h"
#include "supervisor/cell/cell_ending.h"
#include "supervisor/cell/cell_owner.h"

#include <errno.h>

struct process_link;

#define CELL_PROCESSES 2

enum state {
	STATE_CLOSED,
	STATE_RESTING, /* it died, and waits before it is made again */
	STATE_OPENING,
	STATE_OPEN,
	STATE_FILES_ENDING, /* the files process was killed and is not gone yet; commands go on */
	STATE_FILES_HELD,   /* it was not gone in time */
	STATE_FILES_RESTING,
	STATE_FILES_OPENING,
	STATE_ENDING, /* both were killed and are not both gone */
	STATE_QUARANTINED,
	STATES,
};

struct process {
	struct cell *cell;
	enum cell_process which;
	struct process_link *link;
	bool ready, lost; /* lost: it closed its pipe or died */
	char *failure;    /* why it must be ended */
};

struct cell {
	struct event_base *base;
	struct spawner_link *spawner;
	struct spare_cells *spares;
	const struct cell_owner *owner;
	void *context;
	struct cell_counts *counts;
	enum state state;
	uint64_t asked; /* number of the pending request to the spawner; 0: none */
	uint64_t group; /* number of the request that made it, which names its cgroup */
	/*
	 * The number of an earlier, idle cell whose private tmpfs the next one gets; 0: none.
	 */
	uint64_t kept;
	uint64_t disk_limit; /* quota of its id, as its files process reported at its start; 0: none
			      */
	struct process processes[CELL_PROCESSES];
	struct timer deadline; /* of the state */
	struct cell_ending ending;
	struct {
		char *text;     /* of the last one; NULL: none */
		int64_t at;     /* as clock_now() */
		uint64_t asked; /* number of the request where its processes wait; 0: none */
	} trouble;              /* cell_trouble.h */
	struct loop_turn_task settle;
	bool overdue, idle, failed;
	bool replaced;           /* it is to end, and another is made */
	bool had_opened;         /* in ENDING: it had been OPEN */
	bool not_set_up;         /* its worker failed after it had said that it was ready */
	bool host_is_short;      /* it was not made because of EAGAIN, ENOMEM or ENFILE */
	bool rests;              /* in ENDING: nobody used it */
	enum cell_loss not_made; /* the loss to report if the spawner does not make it */
	bool was_ahead;          /* in OPENING: it was a spare cell */
	/* the processes of the spare cell died before or during the assignment */
	bool died_ahead;
	unsigned wasted;              /* number of such cells in a row */
	bool swept;                   /* the owner was told to sweep */
	unsigned consecutive_crashes; /* without a frame for a call in between */
	unsigned losses;              /* number of deaths in quick succession */
	int64_t opened;               /* as clock_now() */
};

static inline struct process *cell_worker(struct cell *cell)
{
	return &cell->processes[CELL_WORKER];
}

static inline struct process *cell_files(struct cell *cell)
{
	return &cell->processes[CELL_FILES];
}

/**
 * Maps the errno @error of a failed step to what it means for calls; @otherwise: for an errno
 * without a meaning of its own.
 */
static inline enum cell_loss cell_loss_of(int error, enum cell_loss otherwise)
{
	if (error == EDQUOT)
		return CELL_OVER_QUOTA;
	return error == EAGAIN || error == ENOMEM || error == ENFILE ? CELL_NOT_NOW : otherwise;
}

static inline const char *cell_why(struct cell *cell)
{
	return cell_worker(cell)->failure ? cell_worker(cell)->failure : cell_files(cell)->failure;
}
