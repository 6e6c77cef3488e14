/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Properties of a new sandbox, also of a fork. */

#include "gate/e2b/op.h"

/** Returns the labels of a sandbox @id that is a copy of one with @labels, or NULL. */
struct json_object *creation_copy_labels(struct json_object *labels, const char *id);

/** Adds the kind of a workspace that is forked of a template, and where it is shown. */
void creation_put_kind(struct json_object *params, bool is_managed);

/** Adds the environment: that of all sandboxes, and @given, which may be NULL. */
void creation_put_env(struct json_object *params, struct json_object *given);

/**
 * The sandbox with @labels and a lease of @ms was made as @workspace: opens it, and returns what
 * its client gets, or NULL.
 */
struct json_object *creation_admit(
	struct op *op, struct json_object *labels, int64_t ms, const char *workspace);
