/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The life cycle of a cell, for cell.c and its tests. */

#include "supervisor/cell/cell.h"
#include "supervisor/cell/cell_process_state.h"

/* how often a workspace takes a spare that has died, before it makes a cell */
#define CELL_SPARE_TRIES 3
/*
 * The rest before a cell or files process that died again is made again; it doubles from death to
 * death.
 */
#define CELL_REST_MIN_MS 20
#define CELL_REST_MAX_MS 1000
#define CELL_HEALTHY_MS  10000 /* after this time its next death counts as the first */

/* Events, in the order in which the loop checks whether they hold. */
enum cell_event {
	EVENT_FAILED,       /* the worker is lost, or something that both processes need */
	EVENT_FILES_FAILED, /* the files process is lost */
	EVENT_UNUSED,
	EVENT_IDLE,
	EVENT_READY,   /* both processes have reported that they are ready */
	EVENT_GONE,    /* each that was killed is gone */
	EVENT_OVERDUE, /* the state's time is over */
	EVENT_CALLED,
	EVENTS,
};

typedef void (*cell_act)(struct cell *cell);

/* The action of every event in every state. */
extern const cell_act cell_acts[STATES][EVENTS];

/** The action of events that may hold in a state and change nothing. */
void cell_stay(struct cell *cell);

/** For events that cannot hold in a state. */
void cell_impossible(struct cell *cell);
