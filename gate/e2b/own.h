/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The control plane: requests with a key about the sandboxes of its tenant. */

#include "gate/e2b/facts.h"
#include "gate/e2b/op.h"

/* The state of an op that is about one sandbox; own_find() makes it. */
struct own {
	struct json_object *row;
	struct facts facts;
	void (*then)(struct op *op);
	void *more; /* the handler's */
	void (*free_more)(void *more);
};

/** Begins an op of a key, with a link of its tenant. Returns NULL if it has been answered. */
struct op *own_op(struct gate_request *request);
/** The same, with a link that can use the workspace of the path's sandbox alone. */
struct op *own_op_of_one(struct gate_request *request);

/** Finds the sandbox that the path names, and calls @then; answers 404 if there is none. */
void own_find(struct op *op, void (*then)(struct op *op));
/** What own_find() found. */
struct facts *own_facts(struct op *op);

/** Changes the lease of the found sandbox to end in @ms. */
void own_lease(struct op *op, int64_t ms, bool pauses, op_next *next);

/** What a client that may use the sandbox gets: its id, its tokens. Takes nothing. */
struct json_object *own_admission(struct op *op, const struct facts *facts);

/** Returns the seconds that the client asks for in "timeout", as milliseconds, or -1 if wrong. */
int64_t own_timeout(struct op *op);

/* Handlers of routes. */
void sandbox_create(struct gate_request *request);
void sandbox_connect(struct gate_request *request);
void sandbox_resume(struct gate_request *request);
void sandbox_kill(struct gate_request *request);
void sandbox_pause(struct gate_request *request);
void sandbox_timeout(struct gate_request *request);
void sandbox_info(struct gate_request *request);
void sandbox_metrics(struct gate_request *request);
void sandbox_network(struct gate_request *request);
void sandboxes_list(struct gate_request *request);
void sandbox_snapshot(struct gate_request *request);
void sandbox_fork(struct gate_request *request);
void snapshots_list(struct gate_request *request);
void templates_list(struct gate_request *request);
void template_alias(struct gate_request *request);
void template_delete(struct gate_request *request);
void template_build(struct gate_request *request);
