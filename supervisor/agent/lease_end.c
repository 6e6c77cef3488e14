// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. What runs in the workspace is hostile, and may take its time to end. */
#include "supervisor/agent/lease_end.h"

#include "common/cleanup.h"
#include "common/links.h"
#include "supervisor/agent/tool/tool_transaction.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/log.h"
#include "supervisor/base/timer.h"
#include "supervisor/call/call_info.h"
#include "supervisor/call/service.h"
#include "supervisor/config/config.h"
#include "supervisor/connection/agent_conn.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/session/session.h"
#include "supervisor/workspace/managed/leases.h"
#include "supervisor/workspace/managed/workspace_properties.h"
#include "supervisor/workspace/workspaces.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_MS 10 /* between two looks at whether all has ended */

/* A workspace in use, whose lease has ended. */
struct ending {
	LIST_ENTRY(ending) entry;
	struct service *service;
	struct workspace *workspace; /* held */
	enum lease_end at_end;
	struct timer timer;
};

static LIST_HEAD(, ending) endings = LIST_HEAD_INITIALIZER(endings);

static struct ending *find_lease_end(const struct workspace *workspace)
{
	struct ending *ending;

	LIST_FOREACH (ending, &endings, entry)
		if (ending->workspace == workspace)
			return ending;
	return NULL;
}

static void ending_free(struct ending *ending)
{
	timer_cancel(&ending->timer);
	LIST_REMOVE(ending, entry);
	workspace_release(ending->workspace);
	free(ending);
}

static void tell_lease_end(struct service *service, const struct tenant *tenant, const char *name,
	enum lease_end at_end)
{
	tenant->usage->leases_ended++;
	audit_lease_ended(service->audit, tenant, name, at_end);
	if (at_end == LEASE_REMOVE)
		session_forget(tenant, name);
}

static void log_failed(const struct tenant *tenant, const char *name, enum tool_error error)
{
	log_about(LOG_ERR,
		LOG_FIELDS({"CLOISTER_TENANT", text_from(tenant->name)},
			{"CLOISTER_WORKSPACE", text_from(name)}),
		"the lease of the workspace %s has ended, and its end cannot be kept: %s", name,
		tool_error_sentence(error));
}

/* Nothing runs in it any more. */
static void close_or_remove(struct ending *ending)
{
	static const struct properties without = {.given = PROPERTY_LEASE};
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct workspace *workspace = ending->workspace;
	const struct tenant *tenant = workspace_tenant(workspace);
	const char *name = workspace_name(workspace);
	enum tool_error error =
		ending->at_end == LEASE_REMOVE
			? workspaces_remove(ending->service->workspaces, tenant, name)
			: workspace_set_properties(workspace, &without, &refusal);

	if (error != TOOL_OK)
		log_failed(tenant, name, error);
	else
		tell_lease_end(ending->service, tenant, name, ending->at_end);
}

static void on_look(void *context)
{
	struct ending *ending = context;

	/* Its calls, sessions and requests hold it. */
	if (workspace_users(ending->workspace) > 1) {
		timer_set(&ending->timer, LOOK_MS);
		return;
	}
	if (!ending->service->retired)
		close_or_remove(ending);
	workspace_set_expired(ending->workspace, false);
	ending_free(ending);
}

static void end_call(void *context, struct call *call)
{
	const struct ending *ending = context;
	struct call_info info;

	call_get_info(call, &info);
	if (info.workspace == ending->workspace)
		call_cancel(call, ENDED_BY_LEASE);
}

static void close_in(void *context, struct client *client)
{
	const struct ending *ending = context;

	tool_transaction_close(client, ending->workspace);
	client_drop_workspace(client, ending->workspace);
}

/* Ends all that uses the workspace, whose hold it takes. */
static bool begin_lease_end(
	struct service *service, struct workspace *workspace, enum lease_end at_end)
{
	struct ending *ending = calloc(1, sizeof(*ending));

	if (!ending) {
		workspace_release(workspace);
		return false;
	}
	*ending = (struct ending){.service = service, .workspace = workspace, .at_end = at_end};
	timer_init(&ending->timer, on_look, ending);
	LIST_INSERT_HEAD(&endings, ending, entry);
	workspace_set_expired(workspace, true);
	call_foreach(end_call, ending);
	agent_conns_foreach(close_in, ending);
	timer_set(&ending->timer, 0);
	return true;
}

/* Nobody uses it. */
static void end_unused(
	struct service *service, struct tenant *tenant, const char *name, enum lease_end at_end)
{
	enum tool_error error = at_end == LEASE_REMOVE
					? workspaces_remove(service->workspaces, tenant, name)
					: workspaces_end_lease(service->workspaces, tenant, name);

	if (error == TOOL_OK)
		tell_lease_end(service, tenant, name, at_end);
	else
		log_failed(tenant, name, error);
}

static int64_t on_lease_ended(
	void *context, const char *tenant_name, const char *name, const struct lease *lease)
{
	struct service *service = context;
	struct tenant *tenant = config_find_tenant(service->config, tenant_name);
	struct workspace *workspace = NULL;
	enum tool_error error;

	/* A reload may bring it back. */
	if (!tenant)
		return LIMIT_LEASE_CLOCK_MS;
	if (service->shutting_down || (service->retiring && !service->retired))
		return LIMIT_LEASE_RETRY_MS;
	error = workspaces_find_managed(service->workspaces, tenant, name, &workspace);
	if (error != TOOL_OK)
		return error == TOOL_WORKSPACE_NOT_FOUND ? 0 : LIMIT_LEASE_RETRY_MS;
	if (workspace && !find_lease_end(workspace))
		return begin_lease_end(service, workspace, lease->at_end) ? 0
									  : LIMIT_LEASE_RETRY_MS;
	workspace_release(workspace);
	if (!workspace && !service->retired)
		end_unused(service, tenant, name, lease->at_end);
	return 0;
}

void lease_end_begin(struct service *service)
{
	leases_tell(workspaces_leases(service->workspaces), on_lease_ended, service);
}

void lease_end_free_all(void)
{
	while (!LIST_EMPTY(&endings))
		ending_free(LIST_FIRST(&endings));
}
