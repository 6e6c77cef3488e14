// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd, on the loop's thread. The bound is the host's, so there is one for all. */
#include "supervisor/cell/cell_ending.h"

#include "common/limits.h"

#include <stddef.h>

static TAILQ_HEAD(, cell_ending) waiting = TAILQ_HEAD_INITIALIZER(waiting);
static unsigned running;

static void run_cell_ending(struct cell_ending *ending)
{
	ending->runs = true;
	running++;
	ending->kill(ending->context);
}

void cell_ending_begin(struct cell_ending *ending, bool at_once)
{
	if (at_once || running < LIMIT_CELLS_ENDING) {
		run_cell_ending(ending);
		return;
	}
	ending->waits = true;
	TAILQ_INSERT_TAIL(&waiting, ending, entry);
}

void cell_ending_done(struct cell_ending *ending)
{
	struct cell_ending *next;

	if (ending->waits)
		TAILQ_REMOVE(&waiting, ending, entry);
	if (ending->runs)
		running--;
	ending->waits = ending->runs = false;
	next = TAILQ_FIRST(&waiting);
	if (!next || running >= LIMIT_CELLS_ENDING)
		return;
	TAILQ_REMOVE(&waiting, next, entry);
	next->waits = false;
	run_cell_ending(next);
}
