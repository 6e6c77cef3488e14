// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The cell is hostile: it may change files while they are copied, which only
 * its own template shows.
 */
#include "supervisor/workspace/layers/workspace_freeze.h"

#include "common/cleanup.h"
#include "supervisor/base/timer.h"
#include "supervisor/cell/copy_bounds.h"
#include "supervisor/cell/spawner_ask.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/templates/templates.h"
#include "supervisor/workspace/workspace_calls.h"
#include "supervisor/workspace/workspace_state.h"

#include <errno.h>

struct workspace_freeze {
	struct workspace *workspace;
	struct tenant *tenant; /* held: a reload gives the workspace another */
	char template[LIMIT_TEMPLATE_NAME_BYTES + 1];
	bool replace; /* a template of the name */
	struct unfinished target;
	bool copying;   /* otherwise it waits for calls in flight, or for a cell */
	uint64_t asked; /* its number with the spawner */
	struct timer deadline;
	workspace_frozen frozen;
	void *context;
};

void workspace_freeze_free(struct workspace *workspace)
{
	struct workspace_freeze *freeze = TAKE_PTR(workspace->freeze);

	if (!freeze)
		return;
	if (freeze->copying)
		spawner_link_forget(workspace->all->spawner, freeze->asked);
	timer_cancel(&freeze->deadline);
	freeze->tenant->usage->copies--;
	tenant_release(freeze->tenant);
	free(freeze);
}

bool workspace_is_copied(const struct workspace *workspace)
{
	return workspace->freeze && workspace->freeze->copying;
}

static void tell_frozen(
	struct workspace *workspace, enum tool_error error, const char *why, bool replaced)
{
	workspace_frozen frozen = workspace->freeze->frozen;
	void *context = workspace->freeze->context;

	workspace_freeze_free(workspace);
	cell_settle(workspace->cell);
	frozen(context, error, why, replaced);
}

static void finish_freeze(struct workspace *workspace, enum tool_error error, const char *why)
{
	tell_frozen(workspace, error, why, false);
}

static void on_copied(void *context, int error, struct text step)
{
	struct workspace_freeze *freeze = context;
	struct workspace *workspace = freeze->workspace;
	_cleanup_(refusal_done) struct refusal refusal = {0};

	freeze->copying = false;
	if (error < 0) {
		copy_failed(error, step, &refusal);
	} else {
		error = template_name(workspace->all, freeze->tenant, &freeze->target,
			freeze->template, freeze->replace, &refusal);
	}
	if (error < 0) {
		unfinished_drop(workspace->all, freeze->tenant, true, &freeze->target);
		finish_freeze(workspace, refusal.error, refusal_text(&refusal));
		return;
	}
	freeze->tenant->usage->freezes++;
	tell_frozen(workspace, TOOL_OK, NULL, error > 0);
}

static int copy_frozen(struct workspace *workspace)
{
	struct workspace_freeze *freeze = workspace->freeze;
	const int fds[SPAWNER_FREEZE_FDS] = {
		[SPAWNER_FREEZE_ROOT] = workspace->root.fd,
		[SPAWNER_FREEZE_WORKER] = cell_worker_pidfd(workspace->cell),
	};
	struct spawner_copy request = {.tenant = text_from(tenant_directory(freeze->tenant)),
		.template = text_from(freeze->template),
		.max_bytes = copy_max_bytes(freeze->tenant),
		.max_files = copy_max_files(freeze->tenant)};
	int r = unfinished_make(workspace->all, freeze->tenant, true, &freeze->target);

	if (r < 0)
		return r;
	request.target = text_from(freeze->target.name);
	r = spawner_link_copy(workspace->all->spawner, SPAWNER_FREEZE, &request, fds, on_copied,
		freeze, &freeze->asked);
	if (r < 0)
		unfinished_drop(workspace->all, freeze->tenant, true, &freeze->target);
	return r;
}

void workspace_freeze_advance(struct workspace *workspace)
{
	struct workspace_freeze *freeze = workspace->freeze;
	int r;

	if (freeze->copying || workspace_calls_run(workspace) ||
		!cell_serves(workspace->cell, CELL_FILES) ||
		!cell_serves(workspace->cell, CELL_WORKER))
		return;
	timer_cancel(&freeze->deadline);
	r = copy_frozen(workspace);
	freeze->copying = r == 0;
	if (r < 0)
		finish_freeze(workspace, tool_error_from_errno(-r), NULL);
}

void workspace_freeze_lost(struct workspace *workspace, enum tool_error error, const char *why)
{
	/* A copier has mounts of its own, and reads on; its answer comes. */
	if (!workspace->freeze->copying)
		finish_freeze(workspace, error, why);
}

static void on_deadline(void *context)
{
	struct workspace_freeze *freeze = context;

	finish_freeze(freeze->workspace, TOOL_BUSY,
		"Calls are running in the workspace: wait for them, or cancel them, and try "
		"again");
}

void workspace_freeze_give_up(struct workspace *workspace)
{
	if (!workspace->freeze->copying)
		finish_freeze(workspace, TOOL_BUSY, WORKSPACE_SETTLES);
}

static enum tool_error check_freeze(const struct workspace *workspace, struct text name,
	bool replace, struct refusal *ret_refusal)
{
	enum tool_error error;

	if (workspace->kind != WORKSPACE_MANAGED)
		return refusal_set(ret_refusal, TOOL_FORBIDDEN,
			"Only a managed workspace, which is opened by its name, can become a "
			"template");
	if (workspace->removing)
		return refusal_set(ret_refusal, TOOL_BUSY, "The workspace is being removed");
	if (workspace->all->settling)
		return refusal_set(ret_refusal, TOOL_BUSY, WORKSPACE_SETTLES);
	if (workspace->swap || workspace->freeze)
		return refusal_set(ret_refusal, TOOL_BUSY,
			"A checkpoint, rollback or freeze of the workspace is under way: wait for "
			"its answer");
	error = template_check_new(workspace->all, workspace->tenant, name, replace, ret_refusal);
	return error == TOOL_OK ? copy_check_room(workspace->tenant, ret_refusal) : error;
}

enum tool_error workspace_freeze(struct workspace *workspace, struct text name, bool replace,
	workspace_frozen frozen, void *context, struct refusal *ret_refusal)
{
	enum tool_error error = check_freeze(workspace, name, replace, ret_refusal);
	struct workspace_freeze *freeze;

	if (error != TOOL_OK)
		return error;
	freeze = calloc(1, sizeof(*freeze));
	if (!freeze)
		return refusal_set(ret_refusal, TOOL_BUSY, "Out of memory");
	*freeze = (struct workspace_freeze){.workspace = workspace,
		.tenant = tenant_hold(workspace->tenant),
		.replace = replace,
		.frozen = frozen,
		.context = context};
	memcpy(freeze->template, name.data, name.len);
	timer_init(&freeze->deadline, on_deadline, freeze);
	timer_set(&freeze->deadline, LIMIT_CHECKPOINT_WAIT_MS);
	freeze->tenant->usage->copies++;
	workspace->freeze = freeze;
	cell_settle(workspace->cell);
	return TOOL_OK;
}
