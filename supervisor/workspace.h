/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A workspace as cloisterd knows it: a root, and, while it is used, a cell with its worker and
 * files process. This file owns the lifecycle and the queue of what waits for its turn; what a call
 * is, it does not know.
 *
 *   CLOSED ──someone needs it──► OPENING ──both processes ready──► OPEN
 *      ▲                            │ failed, a process lost,       │
 *      └─── all are gone ─── ENDING ◄┴── or nobody uses it ◄─────────┘
 *
 * A lost process takes the cell with it: what ran in it is lost, what still waited opens it again.
 */

#include "common/channel.h"
#include "common/errors.h"
#include "supervisor/workspace_root.h"

#include <sys/queue.h>

struct event_base;
struct config;
struct spawner_link;
struct tenant;
struct workspace;
struct workspaces;

/* How many of each kind may run at once in a workspace; the others wait in the order they came. */
enum workspace_slot {
	WORKSPACE_SLOT_SHORT,   /* answered at once: reads and flat listings */
	WORKSPACE_SLOT_WRITE,   /* LIMIT_FILE_WRITES */
	WORKSPACE_SLOT_JOB,     /* LIMIT_FILE_JOBS */
	WORKSPACE_SLOT_COMMAND, /* what the tenant allows */
	WORKSPACE_SLOTS,
};

/* A call's place in a workspace, part of whoever waits there. Callbacks never come from inside
 * workspace_enter. */
struct workspace_ticket {
	TAILQ_ENTRY(workspace_ticket) entry;
	uint64_t call; /* its number on the wire, unique in this process */
	enum workspace_slot slot;
	bool begun;
	const struct workspace_ticket_owner *owner;
	void *context;
};

struct workspace_ticket_owner {
	void (*begin)(void *context); /* its turn has come: send the request */
	/* A frame for this call, from the worker or the files process. -EBADMSG: the peer is
	 * dropped. */
	int (*frame)(void *context, const struct channel_frame *frame);
	/* The cell is gone, or could not be made: no frame will come. @message is borrowed and may
	 * be NULL. The ticket has left. */
	void (*lost)(void *context, enum tool_error error, const char *message);
};

/** @own_directories as in workspace_root.h (borrowed). @managed_fd: where managed workspaces lie,
 * or -1. NULL: out of memory. */
struct workspaces *workspaces_new(struct event_base *base, struct spawner_link *spawner,
	const char *const *own_directories, int managed_fd);

/** Ends every cell; no callbacks. */
void workspaces_free(struct workspaces *workspaces);

/** After a reload: each workspace goes on under the tenant of its own name; one whose tenant is no
 * more keeps what it had, and nobody can open it again. */
void workspaces_reload(struct workspaces *workspaces, const struct config *config);

/** How many workspaces there are with a cell or on their way to or from one. */
size_t workspaces_count(const struct workspaces *workspaces);

/**
 * The workspace of @tenant at the directory @root, which is made if there is none; the caller
 * becomes a user of it and calls workspace_release. A directory that is not below the tenant's
 * roots is FORBIDDEN. Tenants share no workspace, also where they name the same. TOOL_OK, or a code
 * with a sentence in @ret_message (malloc'ed, may be NULL).
 */
enum tool_error workspaces_get_directory(struct workspaces *workspaces, struct tenant *tenant,
	struct text root, enum workspace_kind kind, struct workspace **ret, char **ret_message);

/** The managed workspace @name; with @create it is made if there is none. As
 * workspaces_get_directory. */
enum tool_error workspaces_get_managed(struct workspaces *workspaces, struct tenant *tenant,
	struct text name, bool create, struct workspace **ret, char **ret_message);

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
/** Users and tickets: who keeps it. */
size_t workspace_users(const struct workspace *workspace);
bool workspace_is_open(const struct workspace *workspace);

/* What of a workspace may be looked at from outside, at one moment. */
struct workspace_view {
	const char *state; /* of workspace_states */
	size_t users;      /* connections that have it open, and calls */
	size_t waiting;    /* tickets that have not begun */
	size_t running;
	size_t commands; /* of those that are running */
};

#define WORKSPACE_STATES 5
extern const char *const workspace_states[WORKSPACE_STATES];

/** Every workspace there is, of all tenants, each given to @each, which must not change which there
 * are. */
void workspaces_look(struct workspaces *workspaces,
	void (*each)(void *context, struct workspace *workspace), void *context);

void workspace_look(const struct workspace *workspace, struct workspace_view *ret);

/** How many open cells were lost: their processes died, or were killed because they did not do what
 * they must. */
uint64_t workspaces_lost(const struct workspaces *workspaces);

/** Queues @ticket, whose fields but entry and begun the caller has set; begins it when there is a
 * cell and a free slot. */
void workspace_enter(struct workspace *workspace, struct workspace_ticket *ticket);

/** The ticket's call is over, whichever way. Not to be called for one that was lost. */
void workspace_leave(struct workspace *workspace, struct workspace_ticket *ticket);

/** Sends to the files process, or to the worker, of an open workspace. As peer_send. */
void workspace_send_files(
	struct workspace *workspace, uint8_t type, uint64_t call, struct text payload);
void workspace_send_worker(struct workspace *workspace, uint8_t type, uint64_t call,
	struct text payload, const int *fds, unsigned n_fds);

/** Kills the cell of a workspace whose process does not do what it must: every ticket that has
 * begun is lost. */
void workspace_abandon(struct workspace *workspace);

/** Whether it is being removed: nobody new gets it meanwhile (BUSY). */
void workspace_set_removing(struct workspace *workspace, bool removing);

/** Removes the directory of a managed workspace that has been cleared. 0 or -errno. */
int workspace_remove_directory(const struct workspace *workspace);
