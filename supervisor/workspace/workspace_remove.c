// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The report that a workspace is empty comes from a hostile process, so rmdir(2)
 * decides.
 */
#include "supervisor/workspace/workspace_remove.h"

#include "common/cleanup.h"
#include "common/wire_files.h"
#include "supervisor/config/tenant.h"
#include "supervisor/workspace/managed.h"
#include "supervisor/workspace/spawner_link.h"
#include "supervisor/workspace/workspace_calls.h"
#include "supervisor/workspace/workspace_layers.h"
#include "supervisor/workspace/workspace_state.h"

#include <errno.h>

void workspace_set_removing(struct workspace *workspace, bool removing)
{
	int fd = workspace->all->managed_fd;

	if (removing)
		managed_mark(fd, workspace->tenant, workspace->name);
	else if (workspace->removing)
		managed_unmark(fd, workspace->tenant, workspace->name);
	workspace->removing = removing;
	workspace->clearing = false;
}

/* Removes the directory when it has been cleared. */
static int remove_directory(struct workspace *workspace)
{
	const struct tenant *tenant = workspace->tenant;
	int r = workspace_layers_remove(workspace);

	if (r == 0)
		r = managed_remove(workspace->all->managed_fd, tenant, workspace->name);
	if (r == 0)
		spawner_link_removed(workspace->all->spawner, tenant->name, workspace->name);
	return r;
}

static void on_begin(void *context)
{
	struct workspace_removing *removing = context;

	workspace_send_files(
		removing->workspace, FILES_CLEAR, removing->entry.call, (struct text){NULL, 0});
}

static int on_frame(void *context, const struct channel_frame *frame)
{
	struct workspace_removing *removing = context;
	struct files_end end;
	int r = 0;

	if (frame->type != FILES_END || files_end_get(frame->payload, &end) < 0)
		return -EBADMSG;
	workspace_remove_stop(removing);
	if (end.error == TOOL_OK)
		r = remove_directory(removing->workspace);
	removing->removed(removing->context, r < 0 ? tool_error_from_errno(-r) : end.error, NULL);
	return 0;
}

static void on_lost(void *context, enum tool_error error, const char *why)
{
	struct workspace_removing *removing = context;

	removing->is_entered = false;
	removing->removed(removing->context, error, why);
}

static const struct workspace_entry_owner owner = {on_begin, on_frame, on_lost, NULL};

static void clear(struct workspace_removing *removing)
{
	/* Those of calls count up from less than half of it, and those of openings are above it. */
	static uint64_t last = UINT64_MAX / 2;

	removing->entry = (struct workspace_entry){
		.call = last--, .class = CALL_CLASS_WRITE, .owner = &owner, .context = removing};
	removing->is_entered = true;
	workspace_enter(removing->workspace, &removing->entry);
}

/* Its cell shows its own directory alone any more, which can be cleared so. */
static void on_base_shown(void *context, enum tool_error error, const char *why)
{
	if (error == TOOL_OK)
		clear(context);
	else
		on_lost(context, error, why);
}

void workspace_remove(struct workspace_removing *removing, struct workspace *workspace,
	bool was_marked, workspace_removed removed, void *context)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	enum tool_error error;

	*removing = (struct workspace_removing){
		.workspace = workspace, .removed = removed, .context = context};
	if (workspace->all->settling && workspace_calls_run(workspace)) {
		on_lost(removing, TOOL_BUSY, WORKSPACE_SETTLES);
		return;
	}
	/* In a whole root, mounts cover directories of it. */
	if (was_marked ||
		(workspace_checkpoints(workspace) == 0 && !workspace_is_root(workspace))) {
		clear(removing);
		return;
	}
	error = workspace_show_base(workspace, on_base_shown, removing, &refusal);
	if (error != TOOL_OK)
		on_lost(removing, error, refusal_text(&refusal));
}

void workspace_remove_stop(struct workspace_removing *removing)
{
	if (!removing->is_entered)
		return;
	removing->is_entered = false;
	workspace_leave(removing->workspace, &removing->entry);
}

void workspace_remove_give_up(struct workspace *workspace)
{
	struct workspace_entry *entry;

	TAILQ_FOREACH (entry, &workspace->entries, link)
		if (!entry->begun && entry->owner == &owner)
			break;
	if (entry)
		workspace_lose(workspace, entry, TOOL_BUSY, WORKSPACE_SETTLES);
}
