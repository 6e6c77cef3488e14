/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The processes of one workspace as cloisterd knows them, worker and files process, and their life:
 * made when a call needs them, ended when nobody does, made anew after a death. cell.c has the
 * table of it.
 */
/* clang-format off */
/*
 *   CLOSED ──a call──► OPENING ──both ready──► OPEN ◄──────────────── files process ready ──────────────┐
 *     ▲                   │ failed              │ files process lost                                    │
 *     │ rested            ▼                     ├──► FILES_ENDING ──gone──► FILES_RESTING ──rested──► FILES_OPENING
 *   RESTING ◄──gone──── ENDING ◄────────────────┘
 *                             worker lost, or no longer used: also from any FILES_ state
 */
/* clang-format on */
/*
 * What was killed and the kernel still holds after a bound: QUARANTINED, or FILES_HELD, in which
 * commands go on.
 */

#include "common/wire_spawner.h"

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

/* How much somebody wants of a cell at the moment. */
enum cell_need {
	CELL_UNUSED, /* nobody has its workspace open */
	CELL_KEPT,
	CELL_CALLED, /* calls are there */
};

/* How a cell is, for those who look: cell.c has more states. */
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

/* What became of it, for the calls. */
enum cell_loss {
	CELL_LOST,       /* what had begun is lost; what waits may wait for the next */
	CELL_GIVEN_UP,   /* so are those that wait: it died again and again */
	CELL_NOT_MADE,   /* it could not be made */
	CELL_REFUSED,    /* it must not be made */
	CELL_SILENT,     /* its directory's file system does not answer */
	CELL_HELD,       /* the kernel holds a killed process of it: nobody is to wait for that */
	CELL_FILES_LOST, /* as CELL_LOST and CELL_HELD, but for what the files process does */
	CELL_FILES_HELD,
	CELL_LOSSES,
};

struct cell_owner {
	enum cell_need (*need)(void *context);
	/* What a cell for it is made of: @ret_root is borrowed. */
	void (*describe)(void *context, struct spawner_open *ret, int *ret_root);
	/* Of a process that is ready. -EBADMSG: it is dropped. */
	int (*frame)(void *context, enum cell_process from, const struct channel_frame *frame);
	/* Nothing is alive any more of what is lost, but for what is HELD. @why may be NULL. */
	void (*lost)(void *context, enum cell_loss loss, const char *why);
	/* After every change: calls may begin. The one callback that may free the cell. */
	void (*settled)(void *context);
	/* Whose turns of the loop hearing its processes takes. */
	struct loop_share_flow *(*share)(void *context);
};

/* Of all cells together. */
struct cell_counts {
	uint64_t lost;       /* cells that were open and died, or were killed for not answering */
	uint64_t files_lost; /* likewise files processes alone */
	uint64_t idle_ended; /* ended for want of calls */
};

/** A closed cell. @spares and @counts are borrowed. NULL: out of memory. */
struct cell *cell_new(struct event_base *base, struct spawner_link *spawner,
	struct spare_cells *spares, const struct cell_owner *owner, void *context,
	struct cell_counts *counts);

/** Kills its processes, without callbacks. Not from inside a callback but settled. NULL is fine. */
void cell_free(struct cell *cell);

/** Something has changed that need or settled look at: the loop comes round to it. */
void cell_settle(struct cell *cell);

/** Whether calls to @process may begin. */
bool cell_serves(const struct cell *cell, enum cell_process process);

/** A call got a frame from it: deaths of its processes are counted from zero again. */
void cell_reset_crash_count(struct cell *cell);

/** As process_link_send, to a process that the cell serves. */
void cell_send(struct cell *cell, enum cell_process process, uint8_t type, uint64_t call,
	struct text payload, const int *fds, unsigned n_fds);

/** As process_link_said and process_link_has_heard. One that is lost has nothing more to hear. */
uint64_t cell_said(const struct cell *cell, enum cell_process process);
bool cell_has_heard(struct cell *cell, enum cell_process process, uint64_t said);

/** @process does not do what it must: it is killed. Without the worker the whole cell is. */
void cell_abandon(struct cell *cell, enum cell_process process);

/** Nobody has called for a long time: an open cell ends, and the next call makes another. */
void cell_rest(struct cell *cell);

/** How it is, as others are told. */
enum cell_status cell_status(const struct cell *cell);
/** The status as the protocol and the metrics write it. Static. */
const char *cell_status_name(enum cell_status status);

/** For the end of everything: kills, without waiting; then waits. No callbacks. */
void cell_kill(struct cell *cell);
void cell_wait(struct cell *cell, int milliseconds);
