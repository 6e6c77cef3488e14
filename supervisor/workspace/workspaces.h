/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* All workspaces: who gets which, and what is done with every one of them. */

#include "supervisor/workspace/workspace.h"

struct config;
struct event_base;
struct spare_cells;
struct spawner_link;

/** @scheduler is borrowed. @own_directories as in workspace_root.h (borrowed). @managed_fd: where
 * managed workspaces lie, or -1. NULL: out of memory. */
struct workspaces *workspaces_new(struct event_base *base, struct spawner_link *spawner,
	struct scheduler *scheduler, const char *const *own_directories, int managed_fd);

/** The first read-only path of a tenant of @config that would show what cloister keeps of its own,
 * wherever it has been told to keep it; NULL: there is none. */
const char *workspaces_own_shown(const struct workspaces *workspaces, const struct config *config);

/** Ends every cell; no callbacks. */
void workspaces_free(struct workspaces *workspaces);

/** With the first configuration, and after a reload: each workspace goes on under the tenant of its
 * own name; one whose tenant is no more keeps what it had, and nobody can open it again. */
void workspaces_reload(struct workspaces *workspaces, const struct config *config);

/** How many workspaces there are with a cell or on their way to or from one. */
size_t workspaces_count(const struct workspaces *workspaces);

/** As root_look_begin: the first half of opening a directory, workspaces_get_directory being the
 * second. */
enum tool_error workspaces_look_up(struct workspaces *workspaces, const struct tenant *tenant,
	struct text path, root_looked_up looked, void *context, struct root_look **ret,
	struct refusal *ret_refusal);

/**
 * The workspace of @tenant at the directory @root, which was looked up and is taken, and which is
 * made a workspace if it is none; the caller becomes a user of it and calls workspace_release. A
 * directory that is not below the tenant's roots is FORBIDDEN. Tenants share no workspace, also
 * where they name the same. TOOL_OK, or a code with @ret_refusal filled in.
 */
enum tool_error workspaces_get_directory(struct workspaces *workspaces, struct tenant *tenant,
	struct workspace_root *root, enum workspace_kind kind, struct workspace **ret,
	struct refusal *ret_refusal);

/** The managed workspace @name; with @create it is made if there is none. As
 * workspaces_get_directory. */
enum tool_error workspaces_get_managed(struct workspaces *workspaces, struct tenant *tenant,
	struct text name, bool create, struct workspace **ret, struct refusal *ret_refusal);

/** The tenant's managed workspaces whose removal an earlier cloisterd began: the names, each given
 * to
 * @each, and one of them, for whoever goes on with it. As workspaces_get_managed. */
int workspaces_each_marked(struct workspaces *workspaces, const struct tenant *tenant,
	void (*each)(void *context, const char *name), void *context);
enum tool_error workspaces_get_marked(struct workspaces *workspaces, struct tenant *tenant,
	const char *name, struct workspace **ret);

/** The names of the tenant's managed workspaces that exist, each given to @each. 0 or -errno. */
int workspaces_each_managed(struct workspaces *workspaces, const struct tenant *tenant,
	void (*each)(void *context, const char *name), void *context);

/** Every workspace of the tenant that somebody uses, each given to @each, which must not change
 * which there are.
 */
void workspaces_each(struct workspaces *workspaces, const struct tenant *tenant,
	void (*each)(void *context, struct workspace *workspace), void *context);

/** Every workspace there is, of all tenants, each given to @each, which must not change which there
 * are. */
void workspaces_foreach(struct workspaces *workspaces,
	void (*each)(void *context, struct workspace *workspace), void *context);

/** What became of cells since the start. */
const struct cell_counts *workspaces_counts(const struct workspaces *workspaces);

/** What is made ahead. */
const struct spare_cells *workspaces_spares(const struct workspaces *workspaces);
