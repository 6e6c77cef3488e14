/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Opens managed workspaces, and makes them. */

#include "common/text.h"
#include "supervisor/base/refusal.h"
#include "supervisor/workspace/managed/workspace_root.h"

#include <stdbool.h>

struct properties;
struct tenant;

struct managed_wish {
	bool create;                   /* a missing one is made, */
	const struct properties *with; /* and keeps these; NULL: none */
	bool made;                     /* it was */
};

/**
 * Opens the tenant's workspace @name below @managed_fd (-1: there is no state directory). @wish may
 * be NULL: a missing one is not made. Returns TOOL_OK and *ret, to be released with
 * workspace_root_done(); otherwise returns the code, with @ret_refusal filled in.
 */
enum tool_error managed_open(int managed_fd, const struct tenant *tenant, struct text name,
	struct managed_wish *wish, struct workspace_root *ret, struct refusal *ret_refusal);
