/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The control plane: requests with a key about the sandboxes of its tenant. */

#include "gate/e2b/facts.h"
#include "gate/e2b/op.h"

/* The state of an op that is about one sandbox; own_find() makes it. */
struct own {
	struct json_object *row;
	struct facts facts;
	void *more; /* the handler's */
	void (*free_more)(void *more);
};

/* Functions of routes (gate/face.h) */

/** Begins an op of a key, with a link of its tenant, and collects the body. */
void own_begin(struct gate_request *request);
/** The same, with a link that can use the workspace of the path's sandbox alone. */
void own_begin_one(struct gate_request *request);

/** Finds the sandbox that the path names; answers 404 if there is none. */
void own_find(struct op *op);

/** Returns the facts of the sandbox that own_find() found. */
struct facts *own_facts(struct op *op);

/** Returns what a client of the sandbox gets: its id and tokens. Takes nothing. */
struct json_object *own_admission(struct op *op, const struct facts *facts);

/** Returns the seconds that the client asks for in "timeout", as milliseconds, or -1 if wrong. */
int64_t own_timeout(struct op *op);

/**
 * The network of a sandbox: E2B's rules as those of workspace.open, which only ever narrow. Reads
 * "allow_internet_access" of the body of @op, and the rules in @network, which is the body or a
 * member of it. Returns 0 with *ret_network, the parameter network of workspace.open, or NULL if
 * the tenant's rules hold as they are. Otherwise returns -EINVAL, and the op has been answered with
 * the rule that cannot hold.
 */
int network_read(struct op *op, struct json_object *network, struct json_object **ret_network);

/* Handlers of routes. Handlers for one sandbox run after own_find(). */
void sandbox_create(struct op *op);
void sandbox_connect(struct op *op);
void sandbox_resume(struct op *op);
void sandbox_kill(struct op *op);
void sandbox_pause(struct op *op);
void sandbox_timeout(struct op *op);
void sandbox_info(struct op *op);
void sandbox_metrics(struct op *op);
void sandbox_network(struct op *op);
void sandboxes_list(struct op *op);
void sandbox_snapshot(struct op *op);
void sandbox_fork(struct op *op);
void snapshots_list(struct op *op);
void templates_list(struct op *op);
void template_alias(struct op *op);
void template_delete(struct op *op);
void template_build(struct gate_request *request);
