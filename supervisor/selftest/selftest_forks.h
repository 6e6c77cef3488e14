/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The forks that the self-test attacks its own template from. Its canary is frozen as a template,
 * and forks of it are made, as a tenant does: two siblings and, if a tenant has root_inside, a
 * whole root. All of it is removed at the run's end, or before the next run if cloisterd died.
 */

#include "common/errors.h"

#include <stdbool.h>

struct selftest_forks;
struct tenant;
struct workspace;
struct workspaces;

#define SELFTEST_TEMPLATE "canary"
/* The names of the forks. The canary is the tenant's only other workspace. */
#define SELFTEST_FORK    "fork-1"
#define SELFTEST_SIBLING "fork-2"
#define SELFTEST_ROOT    "root-1"

/**
 * The end: TOOL_OK with how the forks were made ("overlay", "memory" or "copy"), or a code with a
 * sentence. Both are borrowed.
 */
typedef void (*selftest_forks_ended)(void *context, enum tool_error error, const char *said);

/** Returns NULL if memory is out. The workspaces and the tenant outlive it. */
struct selftest_forks *selftest_forks_new(struct workspaces *all, struct tenant *tenant);

/** Frees it, after the loop's end or while no request is under way. NULL is allowed. */
void selftest_forks_free(struct selftest_forks *forks);

/**
 * Makes the template of @canary, which the caller holds, and the forks; with @as_root the whole
 * root, too. Calls @ended once, perhaps before it returns.
 */
void selftest_forks_make(struct selftest_forks *forks, struct workspace *canary, bool as_root,
	selftest_forks_ended ended, void *context);

/** Removes the existing ones, which must not be in use. Calls @ended as above. */
void selftest_forks_remove(struct selftest_forks *forks, selftest_forks_ended ended, void *context);

/** Whether the fork @name was made and is there. */
bool selftest_forks_has(const struct selftest_forks *forks, const char *name);

/** Whether there may be forks or a template to remove. */
bool selftest_forks_are_there(const struct selftest_forks *forks);
