/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A workspace as cloisterd knows it: a root, who uses it, its cell (cell.h: the processes and their
 * life) and its entries (workspace_entries.h: the calls, waiting or begun). It is there while
 * somebody has it open or calls; what a call is, it does not know.
 */

#include "supervisor/workspace/cell.h"
#include "supervisor/workspace/workspace_entries.h"
#include "supervisor/workspace/workspace_root.h"

struct config;
struct spare_cells;
struct tenant;
struct workspace;
struct workspaces;

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
	char **ret_message);

/**
 * The workspace of @tenant at the directory @root, which was looked up and is taken, and which is
 * made a workspace if it is none; the caller becomes a user of it and calls workspace_release. A
 * directory that is not below the tenant's roots is FORBIDDEN. Tenants share no workspace, also
 * where they name the same. TOOL_OK, or a code with a sentence in @ret_message (malloc'ed, may be
 * NULL).
 */
enum tool_error workspaces_get_directory(struct workspaces *workspaces, struct tenant *tenant,
	struct workspace_root *root, enum workspace_kind kind, struct workspace **ret,
	char **ret_message);

/** The managed workspace @name; with @create it is made if there is none. As
 * workspaces_get_directory. */
enum tool_error workspaces_get_managed(struct workspaces *workspaces, struct tenant *tenant,
	struct text name, bool create, struct workspace **ret, char **ret_message);

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

struct workspace *workspace_hold(struct workspace *workspace);
/** One user less; the last one's leaving closes the cell. NULL is fine. */
void workspace_release(struct workspace *workspace);

/** The name by which clients call it: a managed one's own, otherwise its path. */
const char *workspace_name(const struct workspace *workspace);
enum workspace_kind workspace_kind(const struct workspace *workspace);
/** Whose it is. As the configuration has it now. */
struct tenant *workspace_tenant(const struct workspace *workspace);
/** Whether its tenant may still have it open. */
bool workspace_is_allowed(const struct workspace *workspace);
/** Where it is seen inside: "/workspace", its own path, or "/". */
struct text workspace_visible(const struct workspace *workspace);
/** Users and entries: who keeps it. */
size_t workspace_users(const struct workspace *workspace);
bool workspace_is_open(const struct workspace *workspace);

/* What of a workspace may be looked at from outside, at one moment. */
struct workspace_info {
	enum cell_status cell;
	size_t users;   /* connections that have it open, and calls */
	size_t waiting; /* entries that have not begun */
	size_t running;
	size_t commands; /* of those that are running */
};

/** Every workspace there is, of all tenants, each given to @each, which must not change which there
 * are. */
void workspaces_foreach(struct workspaces *workspaces,
	void (*each)(void *context, struct workspace *workspace), void *context);

void workspace_get_info(const struct workspace *workspace, struct workspace_info *ret);

/** What became of cells since the start. */
const struct cell_counts *workspaces_counts(const struct workspaces *workspaces);

/** What is made ahead. */
const struct spare_cells *workspaces_spares(const struct workspaces *workspaces);

/** Queues @entry, of which the caller has set call, class, owner and context; begins it when there
 * is a cell and its class has room. */
void workspace_enter(struct workspace *workspace, struct workspace_entry *entry);

/** The entry's call is over, whichever way. Not to be called for one that was lost. */
void workspace_leave(struct workspace *workspace, struct workspace_entry *entry);

/** Sends to the files process, or to the worker, of an open workspace. As process_link_send. */
void workspace_send_files(
	struct workspace *workspace, uint8_t type, uint64_t call, struct text payload);
void workspace_send_worker(struct workspace *workspace, uint8_t type, uint64_t call,
	struct text payload, const int *fds, unsigned n_fds);

/** As process_link_said and process_link_has_heard, of the process that has @entry's call. */
uint64_t workspace_said(const struct workspace *workspace, const struct workspace_entry *entry);
bool workspace_has_heard(
	struct workspace *workspace, const struct workspace_entry *entry, uint64_t said);

/** The process that has @entry's call does not do what it must and is killed: the files process
 * alone, or the worker and with it the cell. */
void workspace_abandon(struct workspace *workspace, const struct workspace_entry *entry);

/** Whether it is being removed: nobody new gets it meanwhile (BUSY), and should cloisterd end, the
 * next one goes on with it. */
void workspace_set_removing(struct workspace *workspace, bool removing);

/** Removes the directory of a managed workspace that has been cleared. 0 or -errno. */
int workspace_remove_directory(const struct workspace *workspace);
