/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-spawner: which id a workspace runs as. In user mode the caller's. In system mode the one
 * that owns its directory, by the kernel's word and not by cloisterd's: one of the range that is
 * mapped here from 1, never the supervisor's, which is 0 here, and never one that another workspace
 * has. A managed workspace's directory that is new, empty and still the supervisor's is given a
 * free id of the upper half of the range; the directory is the only record of that. The lower half
 * is for directories that an administrator gives an id.
 */

#include "worker/spawner/place.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <sys/types.h>

struct cell_id {
	uid_t uid; /* in the spawner's user namespace */
	gid_t gid;
};

struct live_cell;

struct cell_ids {
	struct cell_id own;
	uint32_t count; /* of the range; 0: user mode */
	int managed;    /* O_PATH: where managed workspaces lie; -1: nowhere */
	uint8_t *taken; /* by managed workspaces, a bit each */
	uint32_t last;  /* given */
	LIST_HEAD(, live_cell) live;
};

/** User mode: every cell runs as @own. @managed may be -1. */
void cell_ids_init(struct cell_ids *ids, struct cell_id own, int managed);

/** System mode: reads which ids are mapped, and which of them managed workspaces have. 0, or -EPERM
 * for maps that are not what they must be, or another -errno. */
int cell_ids_read(struct cell_ids *ids);

/**
 * The tenant whose managed workspace @place is, below @managed by TENANT/NAME, in @ret_tenant
 * (NAME_MAX + 1 bytes). False: it is none.
 */
bool cell_ids_managed_of(const struct cell_ids *ids, const struct place *place, char *ret_tenant);

/**
 * The id of the workspace at @root, whose status is in @root_stat; @is_managed as
 * cell_ids_managed_of says. 0; or -SPAWNER_REFUSAL and why in @ret_reason (static storage); or
 * -errno.
 */
int cell_ids_choose(struct cell_ids *ids, int root, const struct stat *root_stat, bool is_managed,
	struct cell_id *ret, const char **ret_reason);

/** A cell of @id at @root_stat has the processes @pids, 0 for none: until all are reaped no other
 * directory's cell gets that id. 0 or -ENOMEM, before which nothing must run. */
int cell_ids_reserve(struct cell_ids *ids, struct cell_id id, const struct stat *root_stat,
	struct live_cell **ret);
void cell_ids_holds(struct live_cell *live, const pid_t pids[2]);

/** The cell of the worker @worker, if it is at @root_stat, or NULL. */
struct live_cell *cell_ids_find(
	const struct cell_ids *ids, pid_t worker, const struct stat *root_stat);

/** Whether the files process of @live is alive: what has ended and is not reaped is not. */
bool cell_ids_has_files(const struct live_cell *live);

/** What @pid was in a cell, @by is from now on. */
void cell_ids_replace(struct cell_ids *ids, pid_t pid, pid_t by);

/** @pid has been reaped. */
void cell_ids_reaped(struct cell_ids *ids, pid_t pid);
