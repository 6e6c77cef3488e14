// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/workspace/workspace_access.h"

#include "supervisor/config/tenant.h"
#include "supervisor/workspace/workspace_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int workspace_access_copy(const struct workspace *workspace, struct workspace_access *ret)
{
	const struct workspace_root *root = &workspace->root;
	struct directory_id *parents = calloc(root->n_parents + 1, sizeof(*parents));

	if (!parents)
		return -ENOMEM;
	if (root->n_parents > 0)
		memcpy(parents, root->parents, root->n_parents * sizeof(*parents));
	*ret = (struct workspace_access){workspace->kind, parents, root->n_parents};
	return 0;
}

bool workspace_access_allows(const struct workspace_access *access, const struct tenant *tenant)
{
	if (access->kind == WORKSPACE_MANAGED)
		return tenant->managed;
	return tenant_allows_root(tenant, access->parents, access->n_parents);
}

void workspace_access_done(struct workspace_access *access)
{
	free(access->parents);
	*access = (struct workspace_access){0};
}

bool workspace_is_allowed(const struct workspace *workspace)
{
	const struct workspace_access access = {
		workspace->kind, workspace->root.parents, workspace->root.n_parents};

	return workspace_access_allows(&access, workspace->tenant);
}
