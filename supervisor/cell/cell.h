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

#include "common/text.h"
#include "supervisor/cell/cell_owner.h"

struct cell;
struct event_base;
struct spare_cells;
struct spawner_link;

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

/** Notes a change. The loop calls the owner's need and settled later. */
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
