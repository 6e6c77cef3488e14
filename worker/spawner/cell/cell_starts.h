/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The starts of files processes. A helper, forked from the spawner, joins the worker's namespaces,
 * clones the files process there and exits. A worker that has served commands may be hostile and
 * freeze processes in its cgroup (cgroup.freeze). Each start in an existing cell therefore has a
 * deadline, after which it is killed. Only its request waits for it. A tenant may have as many
 * starts as it leaves free (common/budget.h). A new cell has no such worker. cgroups(7), clone(2).
 */

#include "common/limits.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

/* A report from a child before its exec, over a pipe that the exec closes. */
struct child_report {
	char what; /* REPORT_* */
	int value; /* errno */
};

enum { REPORT_READY = 'r', REPORT_JOINED = 'j', REPORT_FAILED = 'f' };

/**
 * Returns 1 and a report; 0 if the pipe @fd was closed by the child's exec (or death); -ETIMEDOUT
 * if neither has come at @deadline (monotonic.h); or another -errno.
 */
int child_report_receive(int fd, uint64_t deadline, struct child_report *ret);

struct cell_start {
	LIST_ENTRY(cell_start) entry;
	pid_t helper; /* 0 once it has been reaped */
	/*
	 * In memory shared with the helper. The kernel stores the pid of the files process here
	 * before that runs; 0 until then.
	 */
	volatile pid_t *files;
	/* of the cell's workspace, which has its share of the starts; unused where is_new */
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1];
	bool is_new; /* of a new cell */
	bool is_files_reaped, failed;
	int report;        /* pipe from both; -1 once the start has succeeded or failed */
	uint64_t deadline; /* monotonic.h */
	uint64_t number;   /* of the request that waits for it; 0: none waits */
};

struct cell_starts {
	LIST_HEAD(, cell_start) list;
};

void cell_starts_init(struct cell_starts *starts);

/**
 * Makes a start without a helper, to be completed with cell_starts_add() or freed with
 * cell_start_drop(). It starts a process in an existing cell of @tenant; NULL: in a new cell, where
 * nothing can hold it up, so that it is short and needs no place among the others. Returns 0;
 * -ENOMEM; or -SPAWNER_NOT_NOW, with the reason in @ret_reason (static storage), if the tenant or
 * all tenants together have too many.
 */
int cell_start_new(const struct cell_starts *starts, const char *tenant, struct cell_start **ret,
	const char **ret_reason);
void cell_start_drop(struct cell_start *start);

/** Adds @start with its helper and the pipe @report, which it takes. */
void cell_starts_add(
	struct cell_starts *starts, struct cell_start *start, pid_t helper, int report);

/**
 * Waits until the start's deadline for its next report. Returns 1 if the files process has executed
 * its program, 0 if more reports will come, -ETIMEDOUT after the deadline, or another -errno if it
 * failed. @go receives a byte once the helper has joined the worker's namespaces; -1: none.
 */
int cell_start_hear(struct cell_start *start, int go);

/**
 * Ends the start with @result, 0 or -errno; the caller no longer owns @start. Returns a pidfd of
 * the files process; or -errno, and then its processes are killed.
 */
int cell_start_end(struct cell_start *start, int result);

/**
 * @pid has been reaped. Returns true if it was a helper; @ret_files is the files process that it
 * has made, or 0.
 */
bool cell_starts_reaped(struct cell_starts *starts, pid_t pid, pid_t *ret_files);
