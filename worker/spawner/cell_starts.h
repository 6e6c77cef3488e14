/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-spawner: the starts of files processes. A helper, forked from the spawner, joins the
 * worker's namespaces, clones the files process there and ends. Where the worker has been serving,
 * it may hold up whatever comes into its cgroup (cgroup.freeze); so each start has a deadline, and
 * nobody but who asked for it waits for it. cgroups(7), clone(2).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct cell_start {
	LIST_ENTRY(cell_start) entry;
	pid_t helper; /* 0 once it has been reaped */
	/* In memory that the helper shares: the kernel puts the files process's number here before
	 * that runs. 0: there is none. */
	volatile pid_t *files;
	bool is_files_reaped, failed;
	int report;        /* from both; -1: the start is over, one way or the other */
	uint64_t deadline; /* monotonic.h */
	uint64_t number;   /* of the request that waits for it; 0: none does */
};

struct cell_starts {
	LIST_HEAD(, cell_start) list;
	volatile pid_t *numbers; /* LIMIT_FILES_STARTS of them, -1 where free */
};

/** 0 or -errno. */
int cell_starts_init(struct cell_starts *starts);

/** A start whose helper is yet to be made, to be added with cell_starts_add or given up with
 * cell_start_drop. NULL: there are too many, or there is no memory. */
struct cell_start *cell_start_new(struct cell_starts *starts);
void cell_start_drop(struct cell_start *start);

/** Its helper @helper is made, and @report, taken, is where it will be heard from. */
void cell_starts_add(
	struct cell_starts *starts, struct cell_start *start, pid_t helper, int report);

/** Waits, to the start's deadline, for the next that is said in it. 1: the files process has become
 * its program; 0: there is more to come; -errno: it failed, -ETIMEDOUT: its time is over. @go: a
 * byte to it once the helper has joined the worker's namespaces; -1: to nobody. */
int cell_start_hear(struct cell_start *start, int go);

/** The start is over with @result, 0 or -errno, and @start is no longer the caller's: a pidfd of
 * the files process, or -errno when it failed or there is none, and then all that there is of it is
 * killed. */
int cell_start_end(struct cell_start *start, int result);

/** @pid has been reaped. True: it was a helper, in the place of which stands @ret_files, 0 for
 * none. */
bool cell_starts_reaped(struct cell_starts *starts, pid_t pid, pid_t *ret_files);
