// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/selftest/selftest_requests.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/call/service.h"
#include "supervisor/config/config.h"
#include "supervisor/workspace/templates/forks.h"
#include "supervisor/workspace/templates/templates.h"
#include "supervisor/workspace/workspaces.h"

#include <stdio.h>
#include <string.h>

static void on_selftest_looked_up(
	void *context, const struct refusal *refusal, struct workspace_root *root)
{
	(void)context;
	(void)refusal;
	workspace_root_done(root);
}

enum tool_error selftest_open(
	const struct service *service, struct tenant *tenant, const char *path)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct root_look *look = NULL;
	enum tool_error error = workspaces_look_up(service->workspaces, tenant, text_from(path),
		on_selftest_looked_up, NULL, &look, &refusal);

	root_look_forget(look);
	return error;
}

enum tool_error selftest_make(
	const struct service *service, struct tenant *tenant, const char *name)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct workspace *workspace = NULL;
	enum tool_error error = workspaces_get_managed(
		service->workspaces, tenant, text_from(name), true, &workspace, &refusal);

	workspace_release(workspace);
	return error;
}

static void take_first(void *context, const struct template_info *info)
{
	char *name = context;

	if (!name[0])
		snprintf(name, LIMIT_TEMPLATE_NAME_BYTES + 1, "%s", info->name);
}

/* Stores the name of a template that a tenant of the configuration has, if one has any. */
static void find_template(
	const struct service *service, char ret[static LIMIT_TEMPLATE_NAME_BYTES + 1])
{
	const struct config *config = service->config;

	ret[0] = '\0';
	for (size_t i = 0; i < config->n_tenants; i++)
		(void)templates_each(service->workspaces, config->tenants[i], take_first, ret);
	if (!ret[0])
		snprintf(ret, LIMIT_TEMPLATE_NAME_BYTES + 1, "template");
}

static void never_made(void *context, enum tool_error error, const char *why)
{
	(void)context;
	(void)error;
	(void)why;
}

enum tool_error selftest_fork(const struct service *service, struct tenant *tenant, const char *how)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	char template[LIMIT_TEMPLATE_NAME_BYTES + 1];
	struct forking *forking = NULL;
	enum tool_error error;

	find_template(service, template);
	if (strcmp(how, "*") != 0)
		snprintf(template, sizeof(template), "%s", how);
	error = forks_begin(service->workspaces, tenant,
		&(struct forks_wanted){.template = text_from(template), .count = 1}, never_made,
		NULL, &forking, &refusal);
	forking_free(forking);
	return error;
}
