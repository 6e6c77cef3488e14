// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/selftest/selftest_attempts.h"

#include "common/cleanup.h"
#include "common/errors.h"
#include "common/limits.h"
#include "supervisor/base/log.h"
#include "supervisor/call/service.h"
#include "supervisor/config/config.h"
#include "supervisor/host/id_range.h"
#include "supervisor/selftest/selftest_forks.h"
#include "supervisor/selftest/selftest_import.h"
#include "supervisor/selftest/selftest_run.h"
#include "supervisor/workspace/layers/workspace_layers.h"
#include "supervisor/workspace/templates/forks.h"
#include "supervisor/workspace/templates/templates.h"
#include "supervisor/workspace/workspaces.h"

#include <stdio.h>
#include <string.h>

/*
 * Requests that cloisterd makes in the name of the self-test's tenant, and that must be refused.
 * Each returns the code of the refusal, or TOOL_OK if there was none.
 */

static void on_looked_up(void *context, const struct refusal *refusal, struct workspace_root *root)
{
	(void)context;
	(void)refusal;
	workspace_root_done(root);
}

/* Asks to open the directory @path. The tenant has no roots, so that nothing is looked up. */
static enum tool_error selftest_open(
	const struct service *service, struct tenant *tenant, const char *path)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct root_look *look = NULL;
	enum tool_error error = workspaces_look_up(
		service->workspaces, tenant, text_from(path), on_looked_up, NULL, &look, &refusal);

	root_look_forget(look);
	return error;
}

/* Asks for the managed workspace @name. The tenant has as many as it may. */
static enum tool_error selftest_make(
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

/* Asks for a fork of the template @how; "*" stands for a name of another tenant. */
static enum tool_error selftest_fork(
	const struct service *service, struct tenant *tenant, const char *how)
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

static struct tenant *plain(struct selftest *selftest)
{
	return selftest->canaries[CANARY_PLAIN].tenant;
}

void selftest_note_request(struct selftest *selftest, enum tool_error error)
{
	selftest_note(&selftest->results, selftest->at,
		text_from(error == TOOL_OK ? "OK" : tool_error_name(error)));
	selftest_step_soon(selftest);
}

/* A disk that is nearly full, or tenants that copy, hinder an import and are no hole. */
static void on_imported(void *context, enum tool_error error, const char *answer)
{
	struct selftest *selftest = context;

	selftest->import = NULL;
	if (error == TOOL_NO_SPACE || error == TOOL_BUSY) {
		selftest_skip(&selftest->results, selftest->at, answer);
		log_warning("self-test: %s is skipped: %s", selftest_suite[selftest->at].name,
			tool_error_sentence(error));
	} else {
		selftest_note(&selftest->results, selftest->at, text_from(answer));
	}
	selftest_step_soon(selftest);
}

void selftest_try_import(struct selftest *selftest, const char *archive)
{
	const struct canary *plain = &selftest->canaries[CANARY_PLAIN];

	selftest_import(selftest->service->workspaces, plain->tenant, plain->workspace, archive,
		on_imported, selftest, &selftest->import);
}

/* What keeps the layers from being made, or the canary from being exchanged, is no hole. */
static void skip_foreign(struct selftest *selftest, enum tool_error error, const char *why)
{
	log_warning("self-test: %s is skipped: %s", selftest_suite[selftest->at].name, why);
	selftest_skip(&selftest->results, selftest->at, tool_error_name(error));
	selftest_step_soon(selftest);
}

static void on_foreign(void *context, enum tool_error error, const char *why)
{
	if (error == TOOL_OK || error == TOOL_FORBIDDEN)
		selftest_note_request(context, error);
	else
		skip_foreign(context, error, why ? why : tool_error_sentence(error));
}

/* In user mode all workspaces have one id, and there is no layer of another. */
void selftest_try_foreign(struct selftest *selftest)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	enum tool_error error;

	if (!id_range()) {
		selftest_skip(&selftest->results, selftest->at, "skipped");
		selftest_step_soon(selftest);
		return;
	}
	error = workspace_try_foreign(
		selftest_canary(selftest)->workspace, on_foreign, selftest, &refusal);
	if (error != TOOL_OK)
		skip_foreign(selftest, error, refusal_text(&refusal));
}

void selftest_try_open(struct selftest *selftest, const char *path)
{
	selftest_note_request(selftest, selftest_open(selftest->service, plain(selftest), path));
}

void selftest_try_make(struct selftest *selftest, const char *name)
{
	selftest_note_request(selftest, selftest_make(selftest->service, plain(selftest), name));
}

void selftest_try_fork(struct selftest *selftest, const char *how)
{
	selftest_note_request(selftest, selftest_fork(selftest->service, plain(selftest), how));
}

void selftest_try_steal(struct selftest *selftest)
{
	struct tenant *thief = selftest->canaries[CANARY_NETWORK].tenant;

	if (!selftest_forks_has(selftest->forks, SELFTEST_FORK)) {
		selftest_skip(&selftest->results, selftest->at, "skipped");
		selftest_step_soon(selftest);
		return;
	}
	selftest_note_request(selftest, selftest_fork(selftest->service, thief, SELFTEST_TEMPLATE));
}

/* Forks. */

/* As with imports, a host that is busy or full is no hole. */
static void on_forks(void *context, enum tool_error error, const char *said)
{
	struct selftest *selftest = context;

	if (error == TOOL_NO_SPACE || error == TOOL_BUSY) {
		selftest_skip(&selftest->results, selftest->at, tool_error_name(error));
		log_warning("self-test: the probes of forks are skipped: %s", said);
	} else {
		selftest_note(&selftest->results, selftest->at,
			text_from(error == TOOL_OK ? said : tool_error_name(error)));
	}
	selftest_step_soon(selftest);
}

void selftest_try_forks(struct selftest *selftest)
{
	struct tenant *tenant = plain(selftest);

	tenant->root_inside = config_has_root_inside(selftest->service->config);
	/* It has no room for a second one otherwise: see PROBE_MAKE. */
	tenant->limits.workspaces_existing = CANARY_PLACES;
	selftest_forks_make(selftest->forks, selftest->canaries[CANARY_PLAIN].workspace,
		tenant->root_inside, on_forks, selftest);
}

bool selftest_has_fork(struct selftest *selftest)
{
	enum canary_place place = canary_place(selftest_suite[selftest->at].kind);

	selftest->next = selftest->at;
	if (selftest_forks_has(selftest->forks, canary_name(place)))
		return true;
	while (selftest->next < selftest_suite_count &&
		canary_place(selftest_suite[selftest->next].kind) == place)
		selftest_skip(&selftest->results, selftest->next++, "skipped");
	selftest_step_soon(selftest);
	return false;
}

static void on_left(void *context, enum tool_error error, const char *why)
{
	struct selftest *selftest = context;

	if (error != TOOL_OK)
		log_warning("self-test: its forks are still there: %s", why);
	plain(selftest)->limits.workspaces_existing = 1;
	selftest->has_left_forks = true;
	selftest_step_soon(selftest);
}

bool selftest_leave_forks(struct selftest *selftest)
{
	if (selftest->has_left_forks || !selftest_forks_are_there(selftest->forks))
		return false;
	canaries_leave_forks(selftest->canaries);
	selftest_forks_remove(selftest->forks, on_left, selftest);
	return true;
}
