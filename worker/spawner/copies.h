/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Templates and forks in the spawner. A template is a tree, TENANT/NAME in "templates" beside the
 * directory of the managed workspaces. cloisterd makes an empty directory for a copy, and gives it
 * its final name when the copy is complete; the spawner gives it to the id that it is to belong to.
 * A template belongs to cloister's own id, a fork in system mode to one of its own. In user mode
 * forks are layers above their template, which is mounted below them (cell_layers.h).
 */

#include "common/wire_spawner.h"

#include <sys/queue.h>
#include <sys/types.h>

struct cell_maker;
struct copy;
struct place;

struct copies {
	LIST_HEAD(, copy) list;
	size_t n, n_unpackers; /* the latter are among the former */
};

void copies_init(struct copies *copies);

/**
 * Opens the directory of the template @name of @tenant in this mount namespace (O_PATH). @tenant is
 * the name of its directory. Returns it or -errno.
 */
int template_open(int managed, const char *tenant, const char *name);

/**
 * Begins to carry out SPAWNER_FREEZE, @number, of the workspace at @place with the pidfd @worker of
 * its cell. Returns 0; -SPAWNER_REFUSAL with the reason in @ret_step; or -errno with the step.
 */
int copies_freeze(const struct cell_maker *maker, uint64_t number,
	const struct spawner_copy *request, struct place *place, int worker, const char **ret_step);

/** Begins to carry out SPAWNER_IMPORT of the directory at @place. As above. */
int copies_import(const struct cell_maker *maker, uint64_t number,
	const struct spawner_copy *request, struct place *place, const char **ret_step);

/**
 * Begins to carry out SPAWNER_UNPACK of the file or directory at @place, with the pipe @report. As
 * above.
 */
int copies_unpack(const struct cell_maker *maker, uint64_t number,
	const struct spawner_copy *request, struct place *place, int report, const char **ret_step);

/** Begins to carry out SPAWNER_FORK. As above. */
int copies_fork(const struct cell_maker *maker, uint64_t number, const struct spawner_copy *request,
	const char **ret_step);

/**
 * Kills what unpacks for longer than LIMIT_COPY_MS, or while the disk is nearly full. Returns ms
 * until the next look; -1: none is needed.
 */
int copies_bound(const struct copies *copies);

/**
 * @pid has been reaped. Returns whether it was the copier of the request *@ret_number; *@ret_result
 * is 0 or -errno.
 */
bool copies_reaped(
	struct copies *copies, pid_t pid, int status, uint64_t *ret_number, int *ret_result);
