// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Looks only at names in the state directory, which only cloisterd writes. */
#include "supervisor/workspace/managed/removal.h"

#include "supervisor/base/log.h"
#include "supervisor/config/config.h"
#include "supervisor/workspace/managed/managed.h"
#include "supervisor/workspace/managed/tenant_walk.h"
#include "supervisor/workspace/templates/forks.h"
#include "supervisor/workspace/templates/templates.h"
#include "supervisor/workspace/workspace_state.h"
#include "supervisor/workspace/workspaces.h"

#include <stdio.h>
#include <stdlib.h>

/* A tenant whose directory is read. */
struct removal {
	struct workspaces *workspaces;
	struct tenant_walk walk;
};

static void finish_removal(
	void *context, struct tenant *tenant, DIR *directory, const char *found, bool again)
{
	struct removal *removal = context;
	const int managed_fd = removal->workspaces->managed_fd;
	char name[LIMIT_TEMPLATE_NAME_BYTES + 1];
	enum tool_error error;

	(void)directory;
	(void)again;
	snprintf(name, sizeof(name), "%s", found);
	if (managed_exists(managed_fd, tenant, name)) {
		if (!managed_unmark(managed_fd, tenant, name))
			return;
		error = workspaces_remove(removal->workspaces, tenant, name);
		log_about(error == TOOL_OK ? LOG_INFO : LOG_ERR,
			LOG_FIELDS({"CLOISTER_TENANT", text_from(tenant->name)},
				{"CLOISTER_WORKSPACE", text_from(name)}),
			"the removal of the workspace %s %s", name,
			error == TOOL_OK ? "is finished" : "cannot be finished");
	} else if (!forks_make(removal->workspaces, tenant, name)) {
		(void)managed_unmark(managed_fd, tenant, name);
		workspaces_forget_removed(removal->workspaces, tenant, name);
	}
}

static void list_tenant(void *context, const struct tenant *tenant, DIR **ret)
{
	const struct removal *removal = context;

	(void)managed_list(removal->workspaces->managed_fd, tenant, ret);
}

/* All forks whose removal was not finished are gone. */
static void end_of_tenant(void *context, struct tenant *tenant)
{
	const struct removal *removal = context;

	templates_measure(removal->workspaces, tenant);
}

struct removal *removal_new(struct workspaces *workspaces, const struct config *config)
{
	static const struct tenant_walk_owner owner = {
		list_tenant, managed_left_next, finish_removal, end_of_tenant};
	struct removal *removal = calloc(1, sizeof(*removal));

	if (!removal)
		return NULL;
	removal->workspaces = workspaces;
	tenant_walk_init(&removal->walk, &owner, removal);
	if (config)
		removal_look_again(removal, config);
	return removal;
}

void removal_look_again(struct removal *removal, const struct config *config)
{
	/* What is not looked at is found at the next start. */
	for (size_t i = 0; i < config->n_tenants; i++)
		tenant_walk_add(&removal->walk, config->tenants[i], false);
}

void removal_free(struct removal *removal)
{
	if (!removal)
		return;
	tenant_walk_done(&removal->walk);
	free(removal);
}
