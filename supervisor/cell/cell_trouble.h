/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reports failures of a cell to its owner, for the log and for administrators: once for each cell
 * or files process that is lost, cannot be created, or does not end after it was killed. For the
 * last, the spawner says where the process waits.
 */

#include <stdint.h>

struct cell;

/** Returns the cell's last reported failure, borrowed; NULL: none. */
const char *cell_trouble(const struct cell *cell, int64_t *ret_age_ms);

/** Tells the owner: "WHAT: WHY". @why may be NULL: nobody used the cell. */
void cell_trouble_tell(struct cell *cell, const char *what, const char *why);

/**
 * Tells the owner the same, with the place where the remaining processes wait, once the spawner has
 * answered.
 */
void cell_trouble_tell_where(struct cell *cell, const char *what, const char *why);

/**
 * The processes are gone: a failure that has not been reported yet is reported without the place.
 */
void cell_trouble_end(struct cell *cell);

/** The cell is freed. Tells nobody. */
void cell_trouble_done(struct cell *cell);
