/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The turns in which cells end. When a cell is gone the kernel frees its system call filters, and
 * thousands of them at one moment can stop it for good (doc/kernel-filter-fault.md). So
 * LIMIT_CELLS_ENDING unused cells at a time are killed, whether a client left with all its
 * workspaces, or a reload or idle time ended their use.
 */

#include <stdbool.h>
#include <sys/queue.h>

struct cell_ending {
	TAILQ_ENTRY(cell_ending) entry;
	bool waits, runs;
	void (*kill)(void *context); /* kills its processes */
	void *context;
};

/** Calls kill() now, or when it is the cell's turn. @at_once: now, whatever else ends. */
void cell_ending_begin(struct cell_ending *ending, bool at_once);

/**
 * The cell is gone, is quarantined, or is freed: the next one has its turn. May be called before
 * the beginning.
 */
void cell_ending_done(struct cell_ending *ending);
