/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a cell's owner is told of its failures, for the log and for administrators: once for each
 * cell or files process that is lost, cannot be made, or is not gone after it was killed. Of the
 * last the spawner says where it waits.
 */

#include <stdint.h>

struct cell;

/** Returns the cell's last failure, as its owner was told, borrowed; NULL: none. */
const char *cell_trouble(const struct cell *cell, int64_t *ret_age_ms);

/** Tells the owner: "WHAT: WHY". @why may be NULL: nobody used the cell. */
void cell_trouble_tell(struct cell *cell, const char *what, const char *why);

/**
 * Tells the owner the same with where the processes wait that are not gone, when the spawner has
 * answered.
 */
void cell_trouble_tell_where(struct cell *cell, const char *what, const char *why);

/** They are gone: what has not been told yet is told without where they waited. */
void cell_trouble_end(struct cell *cell);

/** The cell is freed. Tells nobody. */
void cell_trouble_done(struct cell *cell);
