/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The cells whose commands have a network, as cloister-egress knows them, and the calls in them.
 * Runs in cloisterd.
 */

#include "supervisor/workspace/network/network_use.h"

#include <stdbool.h>

struct egress_cell;
struct egress_link;

struct egress_cell_words {
	const char *tenant, *workspace; /* copied */
	const char *allow;              /* what the workspace is narrowed to; NULL: it is not */
	/* Called when the cell cannot be served, with why, as a clause. NULL is allowed. */
	void (*troubled)(void *context, const char *what);
	void *context;
};

/**
 * Has the commands of a cell served at its CELL_SOCKETS_EGRESS @sockets (enum cell_socket; the last
 * may be -1), which are taken. Returns NULL if memory is out.
 */
struct egress_cell *egress_cell_new(
	struct egress_link *link, const struct egress_cell_words *words, const int *sockets);

/** The cell and all its connections end; waiters for their end are called. NULL is allowed.
 */
void egress_cell_end(struct egress_cell *cell);
/** The same without callbacks, for the shutdown. */
void egress_cell_free(struct egress_cell *cell);

const char *egress_cell_tenant(const struct egress_cell *cell);
const char *egress_cell_workspace(const struct egress_cell *cell);
/** The port at which the cell's commands reach cloister-egress. */
uint16_t egress_cell_port(const struct egress_cell *cell);

/** A command @call begins: @use, whose ended and context are set, gets an address in @cell. */
void egress_use_begin(struct egress_cell *cell, struct network_use *use, uint64_t call);

/** The command's processes, of which none has begun, will be in the cgroup with this inode. */
void egress_use_cgroup(struct network_use *use, uint64_t cgroup);

/**
 * Nothing is left of the command. Returns true if ended is called later, once cloister-egress has
 * reported all connections; false: nothing more comes.
 */
bool egress_use_end(struct network_use *use);

/** The caller needs no result: ended is not called any more. */
void egress_use_forget(struct network_use *use);

/* For egress_link.c: */

/** Tells a cloister-egress that is ready of the cell, with its sockets, and of its calls. */
void egress_cell_tell(struct egress_cell *cell);
/**
 * Nothing serves the cell any more; its owner gets @why unless that is NULL. The sockets are closed
 * everywhere, so that clients are refused at once and do not wait.
 */
void egress_cell_refuse(struct egress_cell *cell, const char *why);
/** Returns the use of @call, or NULL. */
struct network_use *egress_cell_use(const struct egress_cell *cell, uint64_t call);
/** The call's part is over: nothing more comes about it. */
void egress_use_over(struct network_use *use);
