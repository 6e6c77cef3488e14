/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A workspace in cloisterd: its root, its users, its cell (cell.h: the processes and their life)
 * and its entries. Each entry stands for a call that waits for the cell, waits to be scheduled, or
 * has begun; entries are in the order of arrival. A workspace exists while a connection has it open
 * or it has a call. It does not know what its calls do. workspaces.h has the set of all workspaces.
 */

#include "common/channel.h"
#include "common/errors.h"
#include "supervisor/schedule/scheduler.h"
#include "supervisor/workspace/cell.h"
#include "supervisor/workspace/workspace_root.h"

#include <stdbool.h>
#include <sys/queue.h>

struct network_use;
struct tenant;
struct usage_now;
struct workspace;
struct workspaces;

/*
 * Classes of calls; each limits how many run at once in a workspace. Others wait in the order in
 * which they came; jobs and commands also wait to be scheduled among all workspaces.
 */
enum call_class {
	CALL_CLASS_SHORT, /* answered at once: reads and flat listings */
	/* LIMIT_FILE_WRITES; also removals, which have no deadline; not scheduled */
	CALL_CLASS_WRITE,
	CALL_CLASS_JOB,     /* LIMIT_FILE_JOBS */
	CALL_CLASS_COMMAND, /* what the tenant allows */
	/* LIMIT_SESSIONS_PER_WORKSPACE; not scheduled, since it may run for hours */
	CALL_CLASS_SESSION,
	CALL_CLASSES,
};

/*
 * The entry of a call in a workspace, a member of the structure that waits. workspace_enter() never
 * calls the callbacks itself.
 */
struct workspace_entry {
	TAILQ_ENTRY(workspace_entry) link;
	struct sched_entry sched; /* the workspace's concern */
	uint64_t call;            /* its number on the wire, unique in this process */
	enum call_class class;
	bool inside; /* it is of the workspace's preview (workspace_preview.h) */
	bool looks;  /* it waits for the cell and does nothing there: no preview holds it up */
	bool parked; /* the workspace's concern: it waits for the beginning or end of a preview */
	bool begun;
	const struct workspace_entry_owner *owner;
	void *context;
};

struct workspace_entry_owner {
	void (*begin)(void *context); /* it may begin: send the request */
	/*
	 * A frame for this call, from the worker or the files process. Returns -EBADMSG to drop the
	 * process.
	 */
	int (*frame)(void *context, const struct channel_frame *frame);
	/*
	 * The cell is gone or could not be made: no more frames come. @message is borrowed and may
	 * be NULL. The entry has left.
	 */
	void (*lost)(void *context, enum tool_error error, const char *message);
	/* The workspace's commands have written more than it may have. NULL: it has no command. */
	void (*disk_full)(void *context, uint64_t at_least_ms);
};

/**
 * For workspaces.c: adds a workspace of @tenant at @root, which is taken in any case, to
 * @workspaces. Returns NULL if memory is out.
 */
struct workspace *workspace_new(struct workspaces *workspaces, struct tenant *tenant,
	struct workspace_root *root, enum workspace_kind kind, const char *name);
/** For workspaces.c: ends the cell, without callbacks, and removes the workspace from the list. */
void workspace_free(struct workspace *workspace);
/**
 * For workspaces.c, after a reload: sets the tenant as it is configured now. NULL: the tenant does
 * not exist any more, and the workspace keeps the old one.
 */
void workspace_reload(struct workspace *workspace, struct tenant *tenant);

struct workspace *workspace_hold(struct workspace *workspace);
/** Ends a use of the workspace; the last one's end closes the cell. NULL is allowed. */
void workspace_release(struct workspace *workspace);

/** Returns its name for clients: a managed workspace's own, otherwise its path. */
const char *workspace_name(const struct workspace *workspace);
enum workspace_kind workspace_kind(const struct workspace *workspace);
/** Returns its tenant as configured now. */
struct tenant *workspace_tenant(const struct workspace *workspace);
/** Whether its tenant may still have it open. */
bool workspace_is_allowed(const struct workspace *workspace);

/** A connection opens the workspace, which it holds, or closes it. */
void workspace_attend(struct workspace *workspace, bool open);
/** Returns since when no connection has it open, as clock_now(); 0: one has. */
int64_t workspace_unattended_since(const struct workspace *workspace);

/** Returns the path at which commands see it: "/workspace", its own path, or "/". */
struct text workspace_visible(const struct workspace *workspace);

/** Returns the path of its directory on the host. */
const char *workspace_host_path(const struct workspace *workspace);

/** Whether it is a whole root, and seen as "/". */
bool workspace_is_root(const struct workspace *workspace);
/**
 * Whether its commands are root in a user namespace of their own: it is a fork that is a whole
 * root, of a tenant with root_inside. A reload that changes the key takes effect with its next
 * cell.
 */
bool workspace_root_inside(const struct workspace *workspace);

/**
 * Whether its network namespace is that of the tenant's other workspaces (network_namespace =
 * shared): of its present cell or, while it has none, of its next one.
 */
bool workspace_shares_network(const struct workspace *workspace);
/** Returns the number of its users and entries. */
size_t workspace_users(const struct workspace *workspace);
bool workspace_is_open(const struct workspace *workspace);

/** A command of the workspace has ended. */
void workspace_add_cpu(struct workspace *workspace, uint64_t us);

/**
 * Queues @entry, whose call, class, owner and context are set, and begins it when there is a cell
 * and its class has room.
 */
void workspace_enter(struct workspace *workspace, struct workspace_entry *entry);

/**
 * The command of @entry, which has begun, goes on as that of a session: it gives its turn back. The
 * caller has seen to it that there is room for one more session.
 */
void workspace_become_session(struct workspace *workspace, struct workspace_entry *entry);

/** The entry's call is over. Must not be called for one that was lost. */
void workspace_leave(struct workspace *workspace, struct workspace_entry *entry);

/**
 * Narrows its network to @allow, rules separated by blanks. Returns false if it is in use with
 * another network.
 */
bool workspace_narrow(struct workspace *workspace, const char *allow);

/** Whether its commands reach cloister-egress. */
bool workspace_has_network(const struct workspace *workspace);

/** Returns the rules that it was narrowed to; NULL: all that its tenant has. */
const char *workspace_narrowed(const struct workspace *workspace);

/** A command @call begins: as egress_use_begin(), if the workspace has a network. */
void workspace_begin_use(struct workspace *workspace, struct network_use *use, uint64_t call);

/** Send to the files process, or to the worker, of an open workspace. Like process_link_send(). */
void workspace_send_files(
	struct workspace *workspace, uint8_t type, uint64_t call, struct text payload);
void workspace_send_worker(struct workspace *workspace, uint8_t type, uint64_t call,
	struct text payload, const int *fds, unsigned n_fds);

/**
 * Like process_link_said() and process_link_has_heard(), for the process that has @entry's call.
 */
uint64_t workspace_said(const struct workspace *workspace, const struct workspace_entry *entry);
bool workspace_has_heard(
	struct workspace *workspace, const struct workspace_entry *entry, uint64_t said);

/**
 * Kills the process that runs @entry's call, because it breaks its duties: the files process alone,
 * or the worker and with it the cell.
 */
void workspace_abandon(struct workspace *workspace, const struct workspace_entry *entry);

/**
 * Notes whether it is being removed. Until then it cannot be opened again (BUSY), and if cloisterd
 * dies, the next one finishes the removal.
 */
void workspace_set_removing(struct workspace *workspace, bool removing);

/** Notes, and returns, with which move of the service's work to another host it has moved; 0: none.
 */
void workspace_set_moved(struct workspace *workspace, uint64_t move);
uint64_t workspace_moved(const struct workspace *workspace);

/**
 * Notes, and returns, whether it stays with this generation of cloisterd for what runs in it while
 * another one serves.
 */
void workspace_set_lingers(struct workspace *workspace, bool lingers);
bool workspace_lingers(const struct workspace *workspace);

/** Ends its cell unless a call or a preview is in it. Returns whether the cell is gone. */
bool workspace_let_go(struct workspace *workspace);

/** Its directory, and that one's owner; -1: not known. */
void workspace_where(
	const struct workspace *workspace, dev_t *ret_dev, ino_t *ret_ino, uid_t *ret_owner);

/** Removes the directory of a managed workspace that has been cleared. Returns 0 or -errno. */
int workspace_remove_directory(struct workspace *workspace);
