/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* All workspaces: opens them for clients, and acts on each, as at a reload. */

#include "supervisor/workspace/workspace.h"

#include <dirent.h>
#include <sys/queue.h>

/* What is refused because another generation is to do it. */
#define WORKSPACES_RETIRE                                                              \
	"Another generation of the service takes over: connect again, and repeat the " \
	"request there"

struct config;
struct egress_link;
struct elsewhere;
struct event_base;
struct leases;
struct properties;
struct scheduler;
struct spare_cells;
struct spawner_link;

/**
 * @scheduler is borrowed. @spawner is NULL where nothing is opened. @own_directories is as in
 * workspace_root.h (borrowed). @managed_fd is the directory of managed workspaces, or -1. Returns
 * NULL if memory is out.
 */
struct workspaces *workspaces_new(struct event_base *base, struct spawner_link *spawner,
	struct scheduler *scheduler, const char *const *own_directories, int managed_fd);

/**
 * cloisterd may have so many @descriptors open; workspaces may hold a part of them. Call it before
 * workspaces_reload(); otherwise they may hold any number.
 */
void workspaces_limit_descriptors(struct workspaces *workspaces, uint64_t descriptors);

struct workspaces_room_view {
	uint64_t used;    /* descriptors that workspaces hold */
	uint64_t limit;   /* 0: all that tenants may have in use find room */
	uint64_t refused; /* openings of workspaces and cells, since cloisterd started */
};

struct workspaces_room_view workspaces_room(const struct workspaces *workspaces);

/** From here on, workspaces of tenants with network = egress have one over @egress (borrowed). */
void workspaces_use_egress(struct workspaces *workspaces, struct egress_link *egress);

/**
 * Returns the first read-only path of a tenant of @config that would show cloister's own
 * directories, wherever they are configured; NULL: there is none.
 */
const char *workspaces_own_shown(const struct workspaces *workspaces, const struct config *config);

/** From here on, what is in @elsewhere (borrowed) cannot be opened: BUSY. */
void workspaces_set_elsewhere(struct workspaces *workspaces, const struct elsewhere *elsewhere);

/** From here on, calls @left before a workspace that lingers (workspace.h) is freed without a cell.
 */
void workspaces_tell_left(struct workspaces *workspaces,
	void (*left)(void *context, struct workspace *workspace), void *context);

/**
 * Another generation of cloisterd takes over, or no longer does. Meanwhile begun copies go on, and
 * no copy begins that would choose an id for a fork.
 */
void workspaces_retire(struct workspaces *workspaces, bool retire);

/** Begins to make spare cells, as those of @tenant's workspaces are, before one is opened. */
void workspaces_prepare(struct workspaces *workspaces, const struct tenant *tenant);

/**
 * Whether another cloisterd may use the state now: no managed workspace is being opened, removed or
 * given other layers. Look-ups, copies and openings of directories do not count, because a hung
 * file system may delay them.
 */
bool workspaces_are_settled(const struct workspaces *workspaces);

/**
 * Answers BUSY to operations that wait for calls, such as a checkpoint, and to new ones of that
 * kind until workspaces_retire() is called next.
 */
void workspaces_settle(struct workspaces *workspaces);

/** Ends every cell, without callbacks. */
void workspaces_free(struct workspaces *workspaces);

/**
 * Call it with the first configuration and after every reload. Each workspace continues under the
 * tenant of the same name. If that no longer exists, it keeps the old one and cannot be opened
 * again.
 */
void workspaces_reload(struct workspaces *workspaces, const struct config *config);

/** Returns the number of workspaces with a cell or on the way to or from one. */
size_t workspaces_count(const struct workspaces *workspaces);

/** Returns how many there may be: as many as @config allows, or as find room now. */
uint64_t workspaces_most(const struct workspaces *workspaces, const struct config *config);

/**
 * Like root_look_begin(): the first half of opening a directory. workspaces_get_directory() is the
 * second.
 */
enum tool_error workspaces_look_up(struct workspaces *workspaces, const struct tenant *tenant,
	struct text path, root_looked_up looked, void *context, struct root_look **ret,
	struct refusal *ret_refusal);

/**
 * Returns the workspace of @tenant at the directory @root, which was looked up and is taken; makes
 * one if there is none. The caller becomes a user of it and calls workspace_release(). A directory
 * that is not below the tenant's roots is FORBIDDEN. Tenants never share a workspace, even if they
 * open the same directory. Returns TOOL_OK, or a code with @ret_refusal filled in.
 */
enum tool_error workspaces_get_directory(struct workspaces *workspaces, struct tenant *tenant,
	struct workspace_root *root, enum workspace_kind kind, struct workspace **ret,
	struct refusal *ret_refusal);

/**
 * Returns the managed workspace @name; with @create makes a missing one. Returns like
 * workspaces_get_directory().
 */
enum tool_error workspaces_get_managed(struct workspaces *workspaces, struct tenant *tenant,
	struct text name, bool create, struct workspace **ret, struct refusal *ret_refusal);

/** The same; a missing one is made with the properties @with, another one gets those given. */
enum tool_error workspaces_get_managed_with(struct workspaces *workspaces, struct tenant *tenant,
	struct text name, bool create, const struct properties *with, struct workspace **ret,
	struct refusal *ret_refusal);

/**
 * Finds the managed workspace @name if it is in use: *ret is held then, otherwise NULL. Returns
 * TOOL_OK; WORKSPACE_NOT_FOUND if there is none, or another code if it cannot be told or used yet.
 */
enum tool_error workspaces_find_managed(struct workspaces *workspaces, const struct tenant *tenant,
	const char *name, struct workspace **ret);

/**
 * Removes the managed workspace @name, in which nothing runs: gives its directory another name, by
 * which the spawner clears it as the id that the files belong to. The workspace is gone when this
 * returns TOOL_OK; it counts for its tenant until it is cleared (managed_quota.h).
 */
enum tool_error workspaces_remove(
	struct workspaces *workspaces, const struct tenant *tenant, const char *name);

/** Forgets what is recorded of the workspace @name, which is gone, beside its directory. */
void workspaces_forget_removed(
	struct workspaces *workspaces, const struct tenant *tenant, const char *name);

/** Takes the lease of the managed workspace @name, which is not in use, away. */
enum tool_error workspaces_end_lease(
	struct workspaces *workspaces, const struct tenant *tenant, const char *name);

/** The leases of managed workspaces, borrowed. */
struct leases *workspaces_leases(const struct workspaces *workspaces);

/** Gives the names of the tenant's existing managed workspaces to @each. Returns 0 or -errno. */
int workspaces_each_managed(struct workspaces *workspaces, const struct tenant *tenant,
	void (*each)(void *context, const char *name), void *context);

/** Opens the directory of the tenant's managed workspaces. Returns like managed_list(). */
int workspaces_list_managed(
	const struct workspaces *workspaces, const struct tenant *tenant, DIR **ret);

/** Opens the directory of their properties. Returns like properties_list(). */
int workspaces_list_properties(
	const struct workspaces *workspaces, const struct tenant *tenant, DIR **ret);

void workspaces_walk_begin(struct workspaces *workspaces, struct workspaces_walk *walk);

/**
 * Returns the next one of @tenant that is in use; NULL at the end, or when *left (workspaces of any
 * tenant, counted down) is 0.
 */
struct workspace *workspaces_walk_next(
	struct workspaces_walk *walk, const struct tenant *tenant, size_t *left);
bool workspaces_walk_is_over(const struct workspaces_walk *walk);
void workspaces_walk_end(struct workspaces_walk *walk);

/** Gives every workspace of all tenants to @each, which must not add or remove any. */
void workspaces_foreach(struct workspaces *workspaces,
	void (*each)(void *context, struct workspace *workspace), void *context);

/** The directory of the cells' cgroups, for their use of resources, borrowed; -1: none. */
void workspaces_set_cgroups(struct workspaces *workspaces, int cgroups);

/** Returns the totals over all cells since the start. */
const struct cell_counts *workspaces_counts(const struct workspaces *workspaces);

/** Returns the spare cells. */
const struct spare_cells *workspaces_spares(const struct workspaces *workspaces);

/** Returns how many requests to the spawner for @tenant wait for their turn. */
size_t workspaces_openings_waiting(
	const struct workspaces *workspaces, const struct tenant *tenant);
