/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The inside of a cell, for cell.c (its life) and cell_process.c (its processes). */

#include "supervisor/base/loop_turn.h"
#include "supervisor/base/timer.h"
#include "supervisor/workspace/cell.h"

struct process_link;

#define CELL_PROCESSES 2

#define CELL_SPARE_TRIES 3 /* that a workspace takes one which dies, before its own is made */
/* Before a cell or files process that died again is made again; it doubles from death to death. */
#define CELL_REST_MIN_MS 20
#define CELL_REST_MAX_MS 1000
#define CELL_HEALTHY_MS  10000 /* after so long its next death counts as the first */

enum state {
	STATE_CLOSED,
	STATE_RESTING, /* it died, and is not made again at once */
	STATE_OPENING,
	STATE_OPEN,
	STATE_FILES_ENDING, /* the files process is killed and not gone; commands go on */
	STATE_FILES_HELD,   /* and not gone in time */
	STATE_FILES_RESTING,
	STATE_FILES_OPENING,
	STATE_ENDING, /* both are killed and not all gone */
	STATE_QUARANTINED,
	STATES,
};

/* What may hold when a cell is looked at, in the order in which it is. */
enum cell_event {
	EVENT_FAILED,       /* the worker is lost, or something that both need */
	EVENT_FILES_FAILED, /* the files process is lost */
	EVENT_UNUSED,
	EVENT_IDLE,
	EVENT_READY,   /* each process there is has said so */
	EVENT_GONE,    /* each that was killed is gone */
	EVENT_OVERDUE, /* the state's time is over */
	EVENT_CALLED,
	EVENTS,
};

typedef void (*cell_act)(struct cell *cell);

/* What every event does in every state. */
extern const cell_act cell_acts[STATES][EVENTS];

/** For events that may hold, and of which nothing comes in this state. */
void cell_stay(struct cell *cell);

/** For events that cannot hold in a state. */
void cell_impossible(struct cell *cell);

struct process {
	struct cell *cell;
	enum cell_process which;
	struct process_link *link;
	bool ready, lost; /* lost: hung up or dead */
	char *failure;    /* why it must go */
};

struct cell {
	struct event_base *base;
	struct spawner_link *spawner;
	struct spare_cells *spares;
	const struct cell_owner *owner;
	void *context;
	struct cell_counts *counts;
	enum state state;
	uint64_t asked; /* of the spawner and not answered; 0: nothing */
	struct process processes[CELL_PROCESSES];
	struct timer deadline; /* of the state */
	struct loop_turn_task settle;
	bool overdue, idle, failed;
	bool had_opened;              /* ENDING: it had been OPEN */
	enum cell_loss not_made;      /* what it is if the spawner does not make it */
	bool was_ahead;               /* OPENING: its processes were made ahead */
	bool died_ahead;              /* and had died when they were needed, or just then */
	unsigned wasted;              /* such cells one after the other */
	bool swept;                   /* of what dead writes left */
	unsigned consecutive_crashes; /* without a frame of a call between them */
	unsigned losses;              /* deaths one after the other that came soon */
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

static inline const char *cell_why(struct cell *cell)
{
	return cell_worker(cell)->failure ? cell_worker(cell)->failure : cell_files(cell)->failure;
}
