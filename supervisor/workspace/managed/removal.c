// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Looks only at names in the state directory, which only cloisterd writes. */
#include "supervisor/workspace/managed/removal.h"

#include "supervisor/base/log.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/loop_share.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/managed/managed.h"
#include "supervisor/workspace/templates/forks.h"
#include "supervisor/workspace/workspace_state.h"
#include "supervisor/workspace/workspaces.h"

#include <stdio.h>
#include <stdlib.h>

#define NAMES_A_SLICE 64

/* A tenant whose directory is read. */
struct look {
	STAILQ_ENTRY(look) entry;
	struct tenant *tenant; /* held */
	DIR *directory;        /* NULL: not begun */
};

struct removal {
	struct workspaces *workspaces;
	struct loop_share_task slice;
	STAILQ_HEAD(, look) looks;
};

static void finish_removal(struct removal *removal, const struct look *look, const char *found)
{
	const int managed_fd = removal->workspaces->managed_fd;
	char name[LIMIT_TEMPLATE_NAME_BYTES + 1];
	enum tool_error error;

	snprintf(name, sizeof(name), "%s", found);
	if (managed_exists(managed_fd, look->tenant, name)) {
		if (!managed_unmark(managed_fd, look->tenant, name))
			return;
		error = workspaces_remove(removal->workspaces, look->tenant, name);
		log_about(error == TOOL_OK ? LOG_INFO : LOG_ERR,
			LOG_FIELDS({"CLOISTER_TENANT", text_from(look->tenant->name)},
				{"CLOISTER_WORKSPACE", text_from(name)}),
			"the removal of the workspace %s %s", name,
			error == TOOL_OK ? "is finished" : "cannot be finished");
	} else if (!forks_make(removal->workspaces, look->tenant, name)) {
		(void)managed_unmark(managed_fd, look->tenant, name);
		workspaces_forget_removed(removal->workspaces, look->tenant, name);
	}
}

static void end_look(struct removal *removal)
{
	struct look *look = STAILQ_FIRST(&removal->looks);

	STAILQ_REMOVE_HEAD(&removal->looks, entry);
	if (look->directory)
		closedir(look->directory);
	tenant_release(look->tenant);
	free(look);
}

static void look_soon(struct removal *removal)
{
	const struct look *look = STAILQ_FIRST(&removal->looks);

	if (look)
		loop_share_wait(&removal->slice, &look->tenant->usage->share);
}

static void look_at_some(void *context)
{
	struct removal *removal = context;
	struct look *look = STAILQ_FIRST(&removal->looks);
	size_t left = NAMES_A_SLICE;
	const char *name;

	if (!look->directory)
		(void)managed_list(removal->workspaces->managed_fd, look->tenant, &look->directory);
	do {
		name = look->directory ? managed_left_next(look->directory, &left) : NULL;
		if (name)
			finish_removal(removal, look, name);
	} while (name && !loop_share_is_used_up());
	if (!name && left > 0)
		end_look(removal);
	look_soon(removal);
}

struct removal *removal_new(struct workspaces *workspaces, const struct config *config)
{
	struct removal *removal = calloc(1, sizeof(*removal));

	if (!removal)
		return NULL;
	removal->workspaces = workspaces;
	STAILQ_INIT(&removal->looks);
	removal->slice = (struct loop_share_task){.act = look_at_some, .context = removal};
	if (config)
		removal_look_again(removal, config);
	return removal;
}

void removal_look_again(struct removal *removal, const struct config *config)
{
	for (size_t i = 0; i < config->n_tenants; i++) {
		struct look *look = calloc(1, sizeof(*look));

		/* What is not looked at is found at the next start. */
		if (!look)
			return;
		look->tenant = tenant_hold(config->tenants[i]);
		STAILQ_INSERT_TAIL(&removal->looks, look, entry);
	}
	look_soon(removal);
}

void removal_free(struct removal *removal)
{
	if (!removal)
		return;
	loop_share_cancel(&removal->slice);
	while (!STAILQ_EMPTY(&removal->looks))
		end_look(removal);
	free(removal);
}
