/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The directories of managed workspaces, below one that is cloister's own: TENANT/NAME, so that two
 * tenants' workspaces of one name are two; in user mode without a configuration, where there is one
 * tenant, just NAME. Only names in the state directory are looked up here, never what is inside a
 * workspace.
 */

#include "supervisor/base/refusal.h"
#include "supervisor/workspace/workspace_root.h"

#include <stdbool.h>

struct tenant;

/**
 * Opens the tenant's workspace @name below @managed_fd (-1: there is no state directory); with
 * @create it is made if there is none. TOOL_OK and *ret to be released with workspace_root_done;
 * otherwise the code and @ret_refusal filled in.
 */
enum tool_error managed_open(int managed_fd, const struct tenant *tenant, struct text name,
	bool create, struct workspace_root *ret, struct refusal *ret_refusal);

/** Gives the name of each of the tenant's workspaces to @each. 0 or -errno. */
int managed_each(int managed_fd, const struct tenant *tenant,
	void (*each)(void *context, const char *name), void *context);

/** Removes the empty directory of a workspace. 0 or -errno. */
int managed_remove(int managed_fd, const struct tenant *tenant, const char *name);

/*
 * The mark of a workspace that is being removed: an empty directory beside it. Whatever ends
 * cloisterd meanwhile, the next one finds it and finishes (removal.h).
 */
void managed_mark(int managed_fd, const struct tenant *tenant, const char *name);
void managed_unmark(int managed_fd, const struct tenant *tenant, const char *name);
bool managed_is_marked(int managed_fd, const struct tenant *tenant, const char *name);

/** Gives the name of each of the tenant's workspaces that are marked to @each. 0 or -errno. */
int managed_each_marked(int managed_fd, const struct tenant *tenant,
	void (*each)(void *context, const char *name), void *context);
