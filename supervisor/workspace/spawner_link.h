/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloisterd's end of cloister-spawner, the one peer that has never touched a workspace and the one
 * whose descriptors are taken. Its death is cloisterd's, and its silence its death.
 */

#include "common/wire_spawner.h"

struct event_base;
struct id_range;
struct spawner_link;

/* What a spawner is started with. All borrowed. */
struct spawner_start {
	int cgroup_fd;                /* the delegated cgroup, or -1 */
	int managed_fd;               /* where managed workspaces lie, or -1 */
	const char *config;           /* the configuration's path; NULL: there is none */
	const struct id_range *range; /* system mode; NULL: user mode */
};

/**
 * Starts the spawner and waits until it is in its namespaces. Before lock-down: this is the one
 * fork and exec of cloisterd. 0, or -errno with a sentence in @ret_message (malloc'ed, may be NULL)
 * that says which step failed and what to do. In system mode the capabilities that its ids are
 * mapped with are gone afterwards.
 */
int spawner_link_start(
	const struct spawner_start *start, struct spawner_link **ret, char **ret_message);

/** The configuration that cloisterd goes by from now on is another: the spawner reads it too,
 * before any cell that is asked for later. */
void spawner_link_reload(struct spawner_link *link);

/** Serves the link from @base. @lost is called once if the spawner is gone, or was killed because
 * it answered nothing for LIMIT_SPAWNER_SILENT_MS. 0 or -errno. */
int spawner_link_watch(struct spawner_link *link, struct event_base *base,
	void (*lost)(void *context), void *context);

/* 0 and the pidfds, which the callee takes; or -errno and the step that failed (borrowed). */
typedef void (*spawner_answer)(
	void *context, int error, struct text step, int pidfds[SPAWNER_OPENED_FDS]);

/**
 * Asks for a cell (@type SPAWNER_OPEN, or SPAWNER_PREPARE for one that waits), a new files process
 * of one (SPAWNER_OPEN_FILES; the worker's pidfd in the answer is -1) or what a waiting one is for
 * (SPAWNER_ASSIGN; both are). @fds, as many as belong to the type, are taken. @answer is called
 * exactly once, later, also when the spawner is lost (-ECONNRESET), unless
 * spawner_link_forget(@cell) came before. 0 and a number in @ret_cell, or -errno.
 */
int spawner_link_open(struct spawner_link *link, uint8_t type, const struct spawner_open *request,
	const int *fds, spawner_answer answer, void *context, uint64_t *ret_cell);

/* 0, the directory (O_PATH), which the callee takes, and what it is and lies in (borrowed); or
 * -errno: -ETIMEDOUT: its file system does not answer, -EBUSY: too many wait. */
typedef void (*spawner_looked)(
	void *context, int error, int fd, const struct spawner_looked_up *where);

/**
 * Asks for the directory that @request names from @from (borrowed). It is looked up by a process
 * that can wait for its file system, for LIMIT_LOOK_UP_MS. @looked is called as the answer of
 * spawner_link_open is. 0 and a number for spawner_link_forget in @ret_number, or -errno.
 */
int spawner_link_look_up(struct spawner_link *link, const struct spawner_look_up *request, int from,
	spawner_looked looked, void *context, uint64_t *ret_number);

/** Nobody waits for @cell any more: its answer's processes are killed when it comes. */
void spawner_link_forget(struct spawner_link *link, uint64_t cell);

/** Hangs up, waits until the spawner has ended, and with it every process it started. */
void spawner_link_free(struct spawner_link *link);
