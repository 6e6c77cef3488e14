/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sandboxes that requests of the data plane use: for each a link to cloisterd that has its
 * workspace open, so that its processes live on between requests. A sandbox that nobody has asked
 * for since the gate started is looked up by its labels. Nothing here outlives the gate.
 */

#include "common/text.h"
#include "gate/e2b/op.h"
#include "gate/e2b/sandbox_id.h"

#include <stdbool.h>
#include <stdint.h>

struct gate;
struct json_object;
struct op;
struct sandbox;

/**
 * Finds the running sandbox @id for @op, holds it, and calls @then. If there is none, or it does
 * not run, answers as the clients expect of a sandbox that is gone. @then decides whether the
 * client may use it: sandbox_admits().
 */
void sandbox_find(struct op *op, struct text id, void (*then)(struct op *op));

/** Opens the sandbox of @row, an element of workspace.list, which was just made for @tenant. */
void sandbox_warm(struct gate *gate, const char *tenant, struct json_object *row);

/** Whether the request of @op has the access token of its sandbox, or needs none. */
bool sandbox_admits(const struct op *op);
/** Whether the request has the traffic token of the sandbox, or needs none. */
bool sandbox_admits_traffic(const struct op *op);
/** Whether @signature signs the URL of @path; texts may be empty. */
bool sandbox_admits_url(const struct op *op, struct text path, struct text operation,
	struct text user, struct text expiration, struct text signature);

/** Releases what sandbox_find() held. NULL is allowed. */
void sandbox_release(struct sandbox *sandbox);

/** Whether the next request would find this one, and its link. */
bool sandbox_is_listed(const struct sandbox *sandbox);

/** Closes the link: the next request looks the sandbox up again. */
void sandbox_forget(struct sandbox *sandbox);
/** The lease of a sandbox ends at @ends_ms now. */
void sandbox_renew(struct text id, int64_t ends_ms);
/** The same by id, after it was paused or killed. */
void sandbox_forget_id(struct text id);

/** Answers that the sandbox is gone, as the clients expect it. */
void sandbox_answer_gone(struct op *op);
/** Asks for the sandbox's row of workspace.list; without one, it does not run any more. */
void sandbox_ask_row(struct op *op, op_next *next);
/** Whether @row, which was asked for, is of a sandbox that runs. */
bool sandbox_row_runs(const struct op *op, const struct cloister_message *reply);
/** Returns the parameters by which workspace.open opens the sandbox on another connection. */
struct json_object *sandbox_opening(const struct sandbox *sandbox);
/** Writes the Host that a server at @port is to see, as maskRequestHost has it; "": none is given.
 */
void sandbox_mask_host(const struct sandbox *sandbox, uint16_t port, char *ret_host, size_t size);
/** Whether it has a user root. */
bool sandbox_has_root(const struct sandbox *sandbox);

struct text sandbox_id_of(const struct sandbox *sandbox);
struct text sandbox_workspace(const struct sandbox *sandbox);
const char *sandbox_tenant(const struct sandbox *sandbox);
/** Where its files are seen from on: "/" for a whole root file system. */
const char *sandbox_root(const struct sandbox *sandbox);
bool sandbox_is_rootfs(const struct sandbox *sandbox);
