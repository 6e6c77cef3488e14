/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The private tmpfs of workspaces, in the spawner: /tmp, /run, /dev/shm and a temporary HOME. A
 * worker makes it and, before it reads its first request, sends a second mount of it to the
 * spawner. When a cell has ended because nobody used it, that mount keeps the files. cloisterd
 * names the ended cell in its request for the workspace's next one, whose worker gets the mount and
 * sends another. The spawner gives it to no other workspace, and looks at nothing in it.
 */

#include "worker/spawner/job/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#define CELL_PRIVATE_LISTS 1024

struct cell;
struct cell_private;

LIST_HEAD(cell_private_list, cell_private);

struct cell_privates {
	struct cell_private_list live;                     /* their workers live */
	struct cell_private_list looked_at;                /* by a taker: the worker's message */
	struct cell_private_list kept[CELL_PRIVATE_LISTS]; /* by the number of the ended cell */
	size_t n_kept;
	struct job_queue closers; /* of tmpfs that are not needed any more */
};

void cell_privates_init(struct cell_privates *privates, struct jobs *jobs);

/** Makes the socketpair between the spawner and a worker. Returns 0 or -errno. */
int cell_private_pair(int *ret_ours, int *ret_workers);

/**
 * Takes the private tmpfs that the request of @cell names, if it is kept and is the workspace's.
 * The cell gets a new one if it is not. Returns 0; or -SPAWNER_NOT_NOW, with the reason in @cell,
 * if too many files of the tenant are still being removed, or if a taker still examines the last
 * worker's message.
 */
int cell_private_take(struct cell *cell);
/** Sends it to the cell's worker. Returns 0 or -errno. */
int cell_private_give(struct cell *cell);
/** The cell was created and has the mount, or could not be created and does not need it. */
void cell_private_given(struct cell *cell);

/**
 * The cell is made: keeps the private tmpfs that its worker sends, unless memory is out. Takes the
 * spawner's end of the socketpair.
 */
void cell_private_hold(struct cell *cell);

/** @pid has been reaped. */
void cell_privates_reaped(struct cell_privates *privates, pid_t pid);

/** The private tmpfs of the cell @number is not needed. */
void cell_privates_let_go(struct cell_privates *privates, uint64_t number);
