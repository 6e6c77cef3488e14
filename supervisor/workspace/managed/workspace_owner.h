/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* System mode: a directory that becomes a workspace must belong to an id of cloister's range. */

#include "supervisor/workspace/managed/workspace_root.h"

#include <stdbool.h>

/**
 * Whether @root, the directory of no managed workspace, belongs to an id of the range, and to none
 * for which @is_used is true. Returns TOOL_OK, in user mode always; otherwise TOOL_FORBIDDEN, with
 * @ret_refusal saying what to do.
 */
enum tool_error workspace_owner_check(const struct workspace_root *root,
	bool (*is_used)(const void *context, uid_t id), const void *context,
	struct refusal *ret_refusal);
