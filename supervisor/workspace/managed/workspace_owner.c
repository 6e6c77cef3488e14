// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The directory belongs to its owner, who may be hostile; only the open
 * descriptor is examined.
 */
#include "supervisor/workspace/managed/workspace_owner.h"

#include "common/cleanup.h"
#include "common/directory_parents.h"
#include "supervisor/host/id_range.h"

#include <stdio.h>
#include <string.h>

/*
 * Suggests an id for the directory: one of the lower half, because managed workspaces have the
 * upper one. It is always the same for one directory and different for others.
 */
static uint32_t suggest(const struct workspace_root *root,
	bool (*is_used)(const void *context, uid_t id), const void *context)
{
	const struct id_range *range = id_range();
	uint32_t half = range->count > 1 ? range->count / 2 : 1;
	uint64_t start = ((uint64_t)root->ino * 2654435761U + root->dev) % half;

	for (uint32_t i = 0; i < half; i++) {
		uint32_t n = (uint32_t)((start + i) % half);

		if (!is_used(context, range->uid_first + n))
			return n;
	}
	return (uint32_t)start;
}

/* Quotes @path as a word of the shell, malloc'ed. */
static char *quote(const char *path)
{
	char *quoted = malloc(4 * strlen(path) + 3), *end = quoted;

	if (!quoted)
		return NULL;
	*end++ = '\'';
	for (; *path; path++)
		end = *path == '\'' ? stpcpy(end, "'\\''") : (*end = *path, end + 1);
	*end++ = '\'';
	*end = '\0';
	return quoted;
}

enum tool_error workspace_owner_check(const struct workspace_root *root,
	bool (*is_used)(const void *context, uid_t id), const void *context,
	struct refusal *ret_refusal)
{
	const struct id_range *range = id_range();
	const char *reason = NULL;
	_cleanup_free_ char *path = NULL;
	struct directory_known known;
	uint32_t n;

	if (!range)
		return TOOL_OK;
	if (directory_known(root->fd, &known) < 0)
		return refusal_set(ret_refusal, TOOL_EXECUTION_ERROR, NULL);
	n = known.uid - range->uid_first;
	if (known.uid < range->uid_first || n >= range->count)
		reason = "must belong to an id of cloister's range that no other workspace has";
	else if (is_used(context, known.uid))
		reason = "belongs to the id of another workspace";
	else if (known.gid != range->gid_first + n && known.gid >= range->gid_first &&
		 known.gid - range->gid_first < range->count)
		reason = "belongs to the group of another workspace";
	if (!reason)
		return TOOL_OK;
	path = quote(root->path);
	n = suggest(root, is_used, context);
	if (!path)
		return refusal_set(ret_refusal, TOOL_FORBIDDEN, NULL);
	return refusal_format(ret_refusal, TOOL_FORBIDDEN,
		"The directory %s; run: chown -R %u:%u %s", reason, range->uid_first + n,
		range->gid_first + n, path);
}
