/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A workspace in cloisterd: its root, its users, its cell (cell.h: the processes and their life)
 * and its calls (workspace_calls.h). It exists while a connection has it open or a call is in it,
 * and knows nothing about its calls. workspaces.h has the set of all workspaces.
 */

#include "common/text.h"
#include "supervisor/workspace/managed/workspace_root.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct network_use;
struct tenant;
struct workspace;

/* A way through the workspaces in pieces, between which some may come and go. Zeroed: none. */
struct workspaces_walk {
	LIST_ENTRY(workspaces_walk) entry;
	struct workspace *next;
};

struct workspace *workspace_hold(struct workspace *workspace);
/** Ends a use of the workspace; the last one's end closes the cell. NULL is allowed. */
void workspace_release(struct workspace *workspace);

/** Returns its name for clients: a managed workspace's own, otherwise its path. */
const char *workspace_name(const struct workspace *workspace);
enum workspace_kind workspace_kind(const struct workspace *workspace);
/** Returns its tenant as configured now. */
struct tenant *workspace_tenant(const struct workspace *workspace);

/** Returns the sum for descriptors that its processes share (shared_fd.h), borrowed. */
struct shared_fd_sum *workspace_fd_sum(const struct workspace *workspace);

/** A connection opens the workspace, which it holds, or closes it. */
void workspace_attend(struct workspace *workspace, bool open);
/** Returns since when no connection has it open, as clock_now(); 0: one has. */
int64_t workspace_unattended_since(const struct workspace *workspace);

/** Returns the path at which commands see it: where its client wants it, its own path, or "/". */
struct text workspace_visible(const struct workspace *workspace);

/** Returns the path of its directory on the host. */
const char *workspace_host_path(const struct workspace *workspace);

/** Whether it is a whole root, and seen as "/". */
bool workspace_is_root(const struct workspace *workspace);
/**
 * Whether its commands are root in a nested user namespace: it is a fork that is a whole root, of a
 * tenant with root_inside. A reload that changes the key takes effect with its next cell.
 */
bool workspace_root_inside(const struct workspace *workspace);
/** Returns the number of its users and entries. */
size_t workspace_users(const struct workspace *workspace);
bool workspace_is_open(const struct workspace *workspace);

/** A command of the workspace has ended. */
void workspace_add_cpu(struct workspace *workspace, uint64_t us);

/**
 * Narrows its network to @allow, rules separated by blanks. Returns false if it is in use with
 * another network.
 */
bool workspace_narrow(struct workspace *workspace, const char *allow);

/** Whether its commands reach cloister-egress. */
bool workspace_has_network(const struct workspace *workspace);

/** Returns the rules to which it was narrowed; NULL: all that its tenant has. */
const char *workspace_narrowed(const struct workspace *workspace);

/** A command @call begins: as egress_use_begin(), if the workspace has a network. */
void workspace_begin_use(struct workspace *workspace, struct network_use *use, uint64_t call);

/** Send to the files process, or to the worker, of an open workspace. Like process_link_send(). */
void workspace_send_files(
	struct workspace *workspace, uint8_t type, uint64_t call, struct text payload);
void workspace_send_worker(struct workspace *workspace, uint8_t type, uint64_t call,
	struct text payload, const int *fds, unsigned n_fds);

/** Notes that it is to be removed as soon as its sessions have ended: it cannot be opened. */
void workspace_set_removing(struct workspace *workspace, bool removing);

/** Notes, and returns, with which move of the service's work to another host it has moved; 0: none.
 */
void workspace_set_moved(struct workspace *workspace, uint64_t move);
uint64_t workspace_moved(const struct workspace *workspace);

/**
 * Records and returns whether it stays with this generation of cloisterd, because something runs in
 * it, while another one serves.
 */
void workspace_set_lingers(struct workspace *workspace, bool lingers);
bool workspace_lingers(const struct workspace *workspace);

/** Ends its cell unless a call or a preview is in it. Returns whether the cell is gone. */
bool workspace_let_go(struct workspace *workspace);

/** Its directory and the directory's owner; -1: unknown. */
void workspace_where(
	const struct workspace *workspace, dev_t *ret_dev, ino_t *ret_ino, uid_t *ret_owner);
