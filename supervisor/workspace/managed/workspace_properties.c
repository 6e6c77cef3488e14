// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. What is given comes from a client, which is hostile. */
#include "supervisor/workspace/managed/workspace_properties.h"

#include "common/cleanup.h"
#include "supervisor/workspace/managed/leases.h"
#include "supervisor/workspace/managed/properties_store.h"
#include "supervisor/workspace/workspace_calls.h"
#include "supervisor/workspace/workspace_state.h"

#include <errno.h>
#include <json-c/json_object.h>

int workspace_read_properties(struct workspace *workspace)
{
	struct properties *properties = &workspace->properties;
	int r = properties_load(
		workspace->all->managed_fd, workspace->tenant, workspace->name, properties);

	if (r < 0 || !properties->network)
		return r;
	workspace->allow = strdup(properties->network);
	return workspace->allow ? 0 : -ENOMEM;
}

const struct properties *workspace_properties(const struct workspace *workspace)
{
	return &workspace->properties;
}

struct json_object *workspace_env(const struct workspace *workspace)
{
	return workspace->properties.env;
}

static enum tool_error check_new_properties(const struct workspace *workspace,
	const struct properties *given, struct refusal *ret_refusal)
{
	const struct properties *kept = &workspace->properties;

	if (given->given & PROPERTY_SHOWN_AT && strcmp(given->shown_at, kept->shown_at) != 0)
		return refusal_set(ret_refusal, TOOL_FORBIDDEN,
			"The workspace exists and is shown at another path, which cannot be "
			"changed: leave out shown_at, or make another workspace");
	if (given->given & PROPERTY_NETWORK && cell_status(workspace->cell) != CELL_STATUS_CLOSED)
		return refusal_set(ret_refusal, TOOL_BUSY,
			"The workspace is in use with another network: try again when its users "
			"have closed it");
	return TOOL_OK;
}

enum tool_error workspace_set_properties(
	struct workspace *workspace, const struct properties *given, struct refusal *ret_refusal)
{
	_cleanup_(properties_done) struct properties next = {0};
	enum tool_error error = check_new_properties(workspace, given, ret_refusal);
	char *allow = NULL;
	int r;

	if (error != TOOL_OK || given->given == 0)
		return error;
	next = properties_copy(&workspace->properties);
	properties_replace(&next, given);
	if (next.network)
		allow = strdup(next.network);
	r = next.network && !allow ? -ENOMEM
				   : properties_save(workspace->all->managed_fd, workspace->tenant,
					     workspace->name, &next);
	if (r < 0) {
		free(allow);
		return refusal_set(ret_refusal, tool_error_from_errno(-r), NULL);
	}
	if (given->given & PROPERTY_NETWORK) {
		free(workspace->allow);
		workspace->allow = TAKE_PTR(allow);
	}
	free(allow);
	properties_done(&workspace->properties);
	workspace->properties = next;
	next = (struct properties){0};
	leases_set(workspace->all->leases, workspace->tenant, workspace->name,
		&workspace->properties.lease);
	return TOOL_OK;
}

void workspace_set_expired(struct workspace *workspace, bool expired)
{
	struct workspace_entry *entry, *next;

	workspace->expired = expired;
	for (entry = TAILQ_FIRST(&workspace->entries); expired && entry; entry = next) {
		next = TAILQ_NEXT(entry, link);
		if (entry->looks && !entry->begun)
			workspace_lose(workspace, entry, TOOL_LEASE_ENDED, NULL);
	}
}
