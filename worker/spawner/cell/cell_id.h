/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides which id a workspace runs as. Runs in the spawner. In user mode it is the caller's id. In
 * system mode it is the owner of the workspace's directory, as the kernel reports it, not as
 * cloisterd says. It must be an id of the range that is mapped from 1 here: never the supervisor's,
 * which is 0 here, and never another workspace's. A managed workspace's new and empty directory
 * still belongs to the supervisor; the spawner gives it a free id of the upper half of the range,
 * or of its tenant's disk class there, and the directory is the only record of that. The lower half
 * is for directories that an administrator assigns an id.
 */

#include "common/config/disk_classes.h"
#include "worker/spawner/cell/place.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <sys/types.h>

#define AGENT_ID 1000 /* uid and gid of everything inside */

struct cell_id {
	uid_t uid; /* as seen in the spawner's user namespace */
	gid_t gid;
};

struct live_cell;

struct cell_ids {
	struct cell_id own;
	uint32_t count; /* size of the range; 0 in user mode */
	int managed;    /* O_PATH: directory of the managed workspaces, or -1 */
	uint8_t *taken; /* one bit for each id: a managed workspace has it */
	struct {
		uint32_t first, last; /* of a span: its first id, and the one given last; 0: none */
	} spans[LIMIT_DISK_CLASSES + 1];
	LIST_HEAD(, live_cell) live;
};

/** User mode: every cell runs as @own. @managed may be -1. */
void cell_ids_init(struct cell_ids *ids, struct cell_id own, int managed);

/**
 * System mode: reads which ids are mapped and which of them managed workspaces have. Returns 0,
 * -EPERM if the maps do not have the expected form, or another -errno.
 */
int cell_ids_read(struct cell_ids *ids);

/**
 * If @place is a managed workspace, TENANT/NAME below @managed, stores its tenant in @ret_tenant
 * (NAME_MAX + 1 bytes) and returns true.
 */
bool cell_ids_managed_of(const struct cell_ids *ids, const struct place *place, char *ret_tenant);

/**
 * Chooses the id of the workspace at @root, whose status is @root_stat; @is_managed is the result
 * of cell_ids_managed_of(). A managed workspace without an id gets one of @span. Returns 0;
 * -SPAWNER_REFUSAL with the reason in @ret_reason (static storage); or another -errno.
 */
int cell_ids_choose(struct cell_ids *ids, int root, const struct stat *root_stat, bool is_managed,
	struct id_span span, struct cell_id *ret, const char **ret_reason);

/**
 * Records that a cell of @id at @root_stat has the processes @pids, 0 for none. Until all are
 * reaped, no other directory's cell gets that id. Call it before any process runs. Returns 0 or
 * -ENOMEM.
 */
int cell_ids_reserve(struct cell_ids *ids, struct cell_id id, const struct stat *root_stat,
	struct live_cell **ret);
void cell_ids_holds(struct live_cell *live, const pid_t pids[2]);

/** Returns the cell of @worker if it is at @root_stat, otherwise NULL. */
struct live_cell *cell_ids_find(
	const struct cell_ids *ids, pid_t worker, const struct stat *root_stat);

/** Whether the files process of @live is alive. Zombies do not count. */
bool cell_ids_has_files(const struct live_cell *live);

/** The process @by takes the place of @pid in its cell. */
void cell_ids_replace(struct cell_ids *ids, pid_t pid, pid_t by);

/** @pid has been reaped. */
void cell_ids_reaped(struct cell_ids *ids, pid_t pid);

/** Maps @id to the agent's in the new user namespace of the child @pid. Returns 0 or -errno. */
int cell_id_write_maps(struct cell_id id, pid_t pid);
