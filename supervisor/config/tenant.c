// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The configuration is trusted; the requested directories are not. */
#include "supervisor/config/tenant.h"

#include "common/cleanup.h"
#include "common/directory_parents.h"
#include "common/fd_path.h"
#include "supervisor/config/command_policy.h"
#include "supervisor/config/config_keys.h"

#include <string.h>

struct tenant *tenant_new(const char *name)
{
	struct tenant *tenant = calloc(1, sizeof(*tenant));

	if (!tenant)
		return NULL;
	tenant->references = 1;
	config_keys_defaults(CONFIG_SECTION_TENANT, tenant);
	tenant->name = strdup(name);
	if (!tenant->name) {
		tenant_release(tenant);
		return NULL;
	}
	return tenant;
}

struct tenant *tenant_hold(struct tenant *tenant)
{
	tenant->references++;
	return tenant;
}

void tenant_release(struct tenant *tenant)
{
	if (!tenant || --tenant->references > 0)
		return;
	config_keys_release(CONFIG_SECTION_TENANT, tenant);
	command_policy_free(tenant->policy);
	if (tenant->usage)
		tenant->usage_release(tenant->usage);
	free(tenant->name);
	free(tenant);
}

static bool is_root(const struct tenant *tenant, const struct directory_id *id)
{
	for (size_t i = 0; i < tenant->roots.count; i++)
		if (tenant->roots.roots[i].dev == id->dev && tenant->roots.roots[i].ino == id->ino)
			return true;
	return false;
}

const char *tenant_home_name(const struct tenant *tenant)
{
	return tenant->home == TENANT_HOME_KEPT ? "kept" : "temporary";
}

bool tenant_allows_root(const struct tenant *tenant, const struct directory_id *parents, size_t n)
{
	for (size_t i = 0; !tenant->any_root && i < n; i++)
		if (is_root(tenant, &parents[i]))
			return true;
	return tenant->any_root;
}

const struct tenant_root *tenant_root_of(
	const struct tenant *tenant, const char *path, const char **ret_rest)
{
	const struct tenant_root *found = NULL;

	/* Compare all ids of all roots. A root that was renamed counts under its new name. */
	for (size_t i = 0; i < tenant->roots.count; i++) {
		_cleanup_free_ char *root = fd_path(tenant->roots.roots[i].fd);
		size_t len = root && strcmp(root, "/") != 0 ? strlen(root) : 0;

		if (!root || strncmp(path, root, len) != 0 ||
			(path[len] != '/' && path[len] != '\0'))
			continue;
		found = &tenant->roots.roots[i];
		*ret_rest = path + len + strspn(path + len, "/");
	}
	return found;
}
