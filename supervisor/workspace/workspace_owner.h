/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* System mode: a directory that becomes a workspace must belong to an id of cloister's range. */

#include "supervisor/workspace/workspace_root.h"

#include <stdbool.h>

/**
 * Whether @root, which is no managed workspace's, belongs to an id of the range that no other
 * directory has for which @is_used is true. TOOL_OK, as always in user mode; or TOOL_FORBIDDEN with
 * @ret_refusal saying what to do.
 */
enum tool_error workspace_owner_check(const struct workspace_root *root,
	bool (*is_used)(const void *context, uid_t id), const void *context,
	struct refusal *ret_refusal);
