/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Templates and forks in the spawner. A template is a tree, TENANT/NAME in "templates" beside the
 * directory of the managed workspaces. cloisterd makes an empty directory for a copy, and gives it
 * its final name when the copy is complete; the spawner gives it to its future owner. A template
 * belongs to cloister's id, a fork in system mode to another one. In user mode forks are layers
 * above their template, which is mounted below them (cell_layers.h).
 */

#include "common/wire/wire_spawner.h"
#include "worker/spawner/job/job.h"

struct cell_maker;
struct place;

/* The copy of the request @number has ended with @result, 0 or -errno. */
typedef void (*copies_tell)(void *context, uint64_t number, int result);

struct copies {
	struct job_queue copying, unpacking;
	copies_tell tell;
	void *context;
};

void copies_init(struct copies *copies, struct jobs *jobs, copies_tell tell, void *context);

/**
 * Carries out SPAWNER_FREEZE, @number, of the workspace at @place with the pidfd @worker of its
 * cell, when it is the tenant's turn. Returns 0; -SPAWNER_REFUSAL with the reason in @ret_step; or
 * -errno with the step.
 */
int copies_freeze(const struct cell_maker *maker, uint64_t number,
	const struct spawner_copy *request, struct place *place, int worker, const char **ret_step);

/** Carries out SPAWNER_IMPORT of the directory at @place. As above. */
int copies_import(const struct cell_maker *maker, uint64_t number,
	const struct spawner_copy *request, struct place *place, const char **ret_step);

/**
 * Carries out SPAWNER_UNPACK of the file or directory at @place, with the pipe @report. As
 * above.
 */
int copies_unpack(const struct cell_maker *maker, uint64_t number,
	const struct spawner_copy *request, struct place *place, int report, const char **ret_step);

/** Carries out SPAWNER_FORK. As above. */
int copies_fork(const struct cell_maker *maker, uint64_t number, const struct spawner_copy *request,
	const char **ret_step);
