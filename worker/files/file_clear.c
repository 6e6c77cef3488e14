// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a job of the files process, because only a process with the workspace's id can delete its
 * files.
 */
#include "worker/files/file_clear.h"

#include "worker/tree_clear.h"

#include <errno.h>

void file_clear(const struct root *root, struct reply *reply)
{
	struct files_end end = {.path = TEXT_LITERAL(".")};
	uint64_t removed = 0;
	int r = tree_clear(root->fd, -1, &removed);

	if (r == -ENOMEM)
		reply_error(reply, TOOL_EXECUTION_ERROR, "Out of memory");
	else if (r < 0)
		reply_error(reply, tool_error_from_errno(-r), "%s", tool_errno_sentence(-r));
	if (r < 0)
		return;
	end.count = removed;
	reply_end(reply, &end);
}
