/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "supervisor/workspace/workspace.h"

/*
 * The facts that decide whether a tenant may have a workspace open, for objects that outlive its
 * use.
 */
struct workspace_access {
	enum workspace_kind kind;
	struct directory_id *parents; /* of its root, as in struct workspace_root */
	size_t n_parents;
};

/** Stores a copy, to be freed with workspace_access_done(). Returns 0 or -ENOMEM. */
int workspace_access_copy(const struct workspace *workspace, struct workspace_access *ret);
/** Whether @tenant may have a workspace of this access open. */
bool workspace_access_allows(const struct workspace_access *access, const struct tenant *tenant);
/** Whether the tenant of @workspace may still have it open. */
bool workspace_is_allowed(const struct workspace *workspace);
void workspace_access_done(struct workspace_access *access);
