/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Templates in memory, in the spawner, in system mode: each fork has another id and needs the
 * template's files as that id's. Without privileges the kernel maps ids only of a tmpfs
 * (template_holder.h). The template on disk is authoritative. It is loaded by a copier when
 * cloisterd asks for it, before a fork is made or opened, and stays as long as there is room or a
 * cell lies above it.
 *
 * template_memory bounds the memory of all of them, and of one tenant's. The templates of one
 * tenant take at most as much as they leave free (common/budget.h), because a tenant's forks may
 * stay open for any time. A load reserves the free memory and keeps the part that it has used. If
 * memory is short, templates that no cell uses are dropped, the least recently used first.
 */

#include "worker/spawner/cell/cell_id.h"
#include "worker/spawner/job/job.h"
#include "worker/spawner/policy.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <sys/types.h>

struct memory_template;

/* The answer to the request @number; @step is static storage. */
typedef void (*template_memory_answer)(void *context, uint64_t number, int error, const char *step);
/*
 * A template was loaded, or could not be, in @us; @name is "" when one was given up. @bytes: the
 * memory of all templates of the tenant afterwards.
 */
typedef void (*template_memory_tell)(void *context, const char *tenant, const char *name, int error,
	uint64_t us, uint64_t bytes);

struct template_memory {
	const struct cell_ids *ids;
	const struct policy *policy;
	TAILQ_HEAD(, memory_template) list;
	struct job_queue loads; /* of struct memory_template */
	size_t n_loads, n_waits;
	const char *step; /* of a load that could not begin */
	template_memory_answer answer;
	template_memory_tell tell;
	void *context;
};

void template_memory_init(struct template_memory *memory, struct jobs *jobs,
	const struct cell_ids *ids, template_memory_answer answer, template_memory_tell tell,
	void *context);

/**
 * Loads the template @name in the directory @tenant of the templates, unless it is loaded. The
 * answer to @number is 0; -EOPNOTSUPP if the configuration gives no memory; -EFBIG if it gives too
 * little for this template, -ENOSPC if others use it; -ENOSYS if the kernel cannot; or another
 * -errno.
 */
void template_memory_load(
	struct template_memory *memory, uint64_t number, const char *tenant, const char *name);

/**
 * Gives a detached mount of the template, whose directory on disk has the status @on_disk, to a
 * cell. Returns 0, -SPAWNER_NOT_LOADED if it is not in memory, or another -errno.
 */
int template_memory_take(struct template_memory *memory, const char *tenant, const char *name,
	const struct stat *on_disk, int *ret_tree, struct memory_template **ret);

/** The cell does not use it any more. NULL is allowed. */
void template_memory_leave(struct template_memory *memory, struct memory_template *template);

/** Drops templates of @tenant that are no longer on disk; with NULL, templates beyond the limit. */
void template_memory_tidy(struct template_memory *memory, const char *tenant);

/** @pid has been reaped. */
void template_memory_reaped(struct template_memory *memory, pid_t pid);
