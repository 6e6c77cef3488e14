// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. A workspace has no states but those of its cell, whose table is in cell.c, and
 * is freed when it is not used and its cell is CLOSED. What it does is tell the cell how much it is
 * needed, have calls begin when the cell serves them (workspace_calls.c), and lose calls by the
 * table below. A cell is hostile: its frames go to those who check them.
 * tests/unit/test_workspace_states.c has what clients and calls do to it in each of those states.
 */
#include "supervisor/workspace/workspace_life.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire/wire_commands.h"
#include "common/wire/wire_files.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/log.h"
#include "supervisor/base/shared_fd.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/layers/workspace_freeze.h"
#include "supervisor/workspace/layers/workspace_layers.h"
#include "supervisor/workspace/layers/workspace_preview.h"
#include "supervisor/workspace/limits.h"
#include "supervisor/workspace/network/egress_cell.h"
#include "supervisor/workspace/network/egress_link.h"
#include "supervisor/workspace/network/forwards.h"
#include "supervisor/workspace/network/listening.h"
#include "supervisor/workspace/workspace_calls.h"
#include "supervisor/workspace/workspace_disk.h"
#include "supervisor/workspace/workspace_pause.h"
#include "supervisor/workspace/workspace_room.h"
#include "supervisor/workspace/workspace_state.h"
#include "supervisor/workspace/workspace_tasks.h"

#include <assert.h>
#include <fcntl.h>

/* Otherwise nobody would say that the workspace does not linger here any more. */
static void tell_left(struct workspace *workspace)
{
	const struct workspaces *all = workspace->all;

	if (all->left && workspace->lingers && cell_status(workspace->cell) == CELL_STATUS_CLOSED)
		all->left(all->left_context, workspace);
}

/* Those who go through all workspaces do not meet it. */
static void walk_past(const struct workspace *workspace)
{
	struct workspaces_walk *walk;

	LIST_FOREACH (walk, &workspace->all->walks, entry)
		if (walk->next == workspace)
			walk->next = LIST_NEXT(workspace, entry);
}

void workspace_free(struct workspace *workspace)
{
	tell_left(workspace);
	workspace_swap_free(workspace);
	workspace_freeze_free(workspace);
	workspace_preview_free(workspace);
	cell_free(workspace->cell);
	shared_fd_sum_free(workspace->fd_sum);
	egress_cell_free(workspace->network);
	workspace_end_forwards(workspace);
	workspace_end_listening(workspace);
	walk_past(workspace);
	LIST_REMOVE(workspace, entry);
	assert(workspace->all->count > 0);
	workspace->all->count--;
	workspace_idle_end(workspace);
	workspace_room_uncount(workspace);
	workspace_tasks_uncount(workspace);
	disk_use_stop(&workspace->disk);
	timer_cancel(&workspace->pause.timer);
	workspace_disk_uncount(workspace);
	workspace_root_done(&workspace->root);
	assert(workspace->tenant->usage->workspaces > 0);
	workspace->tenant->usage->workspaces--;
	tenant_release(workspace->tenant);
	properties_done(&workspace->properties);
	free(workspace->name);
	free(workspace->allow);
	free(workspace);
}

/* The callbacks of its cell. */

static enum cell_need need(void *context)
{
	const struct workspace *workspace = context;

	if (workspace->swap)
		return workspace_swap_need(workspace);
	if (workspace->freeze)
		return CELL_CALLED;
	if (!TAILQ_EMPTY(&workspace->entries))
		return CELL_CALLED;
	return workspace->users > 0 ? CELL_KEPT : CELL_UNUSED;
}

static struct workspace_limits limits_of_tenant(const struct tenant *tenant)
{
	struct workspace_limits limits = limits_of_workspace(&tenant->limits);
	const uint64_t hard = disk_hard_limit(tenant).bytes;

	/* One file is never larger than all of them may be. */
	if (hard > 0 && hard < limits.file_size_bytes)
		limits.file_size_bytes = hard;
	return limits;
}

void workspace_describe_any(
	const struct workspaces *all, const struct tenant *tenant, struct spawner_open *ret)
{
	size_t length = strlen(tenant->name);

	*ret = (struct spawner_open){
		.kind = WORKSPACE_DIRECTORY, .limits = limits_of_tenant(tenant)};
	/*
	 * The name of a configured tenant fits. The tenant of user mode may have a longer name; it
	 * has no section that would add anything.
	 */
	if (length < sizeof(ret->tenant))
		memcpy(ret->tenant, tenant->name, length);
	if (all->egress && tenant->network == TENANT_NETWORK_EGRESS)
		ret->proxy_port = (uint32_t)tenant->egress_port;
}

static void describe(void *context, struct spawner_open *ret, int *ret_root)
{
	const struct workspace *workspace = context;

	workspace_describe_any(workspace->all, workspace->tenant, ret);
	ret->layers = workspace->layers;
	ret->as_root = workspace->as_root;
	/* A template that is a whole root has a place of its own. */
	if (!workspace->as_root)
		memcpy(ret->shown_at, workspace->properties.shown_at, sizeof(ret->shown_at));
	ret->root_inside = workspace_root_inside(workspace);
	ret->kind = (uint8_t)workspace->kind;
	*ret_root = workspace->root.fd;
}

static int on_frame(void *context, enum cell_process from, const struct channel_frame *frame)
{
	struct workspace *workspace = context;

	if (frame->call == 0 && from == CELL_FILES && frame->type == FILES_END)
		return workspace_disk_measured(workspace, frame->payload);
	if (from == CELL_WORKER && frame->type == COMMAND_FORWARD_ENDED)
		return workspace_forward_ended(workspace, frame);
	if (from == CELL_WORKER && frame->type == COMMAND_PAUSED)
		return workspace_pause_told(workspace, frame);
	return workspace_calls_frame(workspace, from, frame);
}

static void on_lost(void *context, enum cell_loss loss, const char *why)
{
	/* clang-format off */
	static const struct workspace_loss losses[CELL_LOSSES] = {
		[CELL_LOST] = {CALL_CLASS_SHORT, CALL_CLASS_SESSION, false, TOOL_WORKER_LOST},
		[CELL_GIVEN_UP] = {CALL_CLASS_SHORT, CALL_CLASS_SESSION, true, TOOL_WORKER_LOST},
		[CELL_NOT_MADE] = {CALL_CLASS_SHORT, CALL_CLASS_SESSION, true, TOOL_EXECUTION_ERROR},
		[CELL_REFUSED] = {CALL_CLASS_SHORT, CALL_CLASS_SESSION, true, TOOL_FORBIDDEN},
		[CELL_OVER_QUOTA] = {CALL_CLASS_SHORT, CALL_CLASS_SESSION, true, TOOL_QUOTA_EXCEEDED},
		[CELL_UNFIT] = {CALL_CLASS_SHORT, CALL_CLASS_SESSION, true, TOOL_NOT_A_DIRECTORY},
		[CELL_NOT_NOW] = {CALL_CLASS_SHORT, CALL_CLASS_SESSION, true, TOOL_BUSY},
		[CELL_SILENT] = {CALL_CLASS_SHORT, CALL_CLASS_SESSION, true, TOOL_TIMEOUT},
		[CELL_HELD] = {CALL_CLASS_SHORT, CALL_CLASS_SESSION, true, TOOL_BUSY},
		[CELL_FILES_LOST] = {CALL_CLASS_SHORT, CALL_CLASS_JOB, false, TOOL_WORKER_LOST},
		[CELL_FILES_HELD] = {CALL_CLASS_SHORT, CALL_CLASS_JOB, true, TOOL_BUSY},
	};
	/* clang-format on */
	struct workspace *workspace = context;

	workspace->unknown_call_frames = 0;
	if (workspace->swap && workspace_swap_lost(workspace, loss, losses[loss].error, why))
		return;
	if (workspace->freeze)
		workspace_freeze_lost(workspace, losses[loss].error, why);
	workspace_calls_lost(workspace, &losses[loss], why);
}

/* Begins waiting calls, and frees a workspace that is no longer used. */
static void on_settled(void *context)
{
	struct workspace *workspace = context;

	if (!cell_serves(workspace->cell, CELL_FILES)) {
		disk_use_lost(&workspace->disk);
		(void)workspace_pause_end(workspace);
	}
	if (workspace->swap)
		workspace_swap_advance(workspace);
	else if (workspace->freeze)
		workspace_freeze_advance(workspace);
	if (workspace->preview)
		workspace_preview_advance(workspace);
	workspace_calls_begin(workspace);
	workspace_room_count(workspace);
	workspace_idle_follow(workspace);
	if (need(workspace) == CELL_UNUSED && cell_status(workspace->cell) == CELL_STATUS_CLOSED)
		workspace_free(workspace);
}

static struct loop_share_flow *share(void *context)
{
	const struct workspace *workspace = context;

	return &workspace->tenant->usage->share;
}

static struct shared_fd_sum *sum(void *context)
{
	return ((struct workspace *)context)->fd_sum;
}

static uint64_t *unread(void *context)
{
	const struct workspace *workspace = context;

	return &workspace->tenant->usage->waiting_bytes;
}

/*
 * Logs a failure of the cell or of its network. A tenant that kills its own cells fills neither the
 * log nor the place of others' lines.
 */
static void on_troubled(void *context, const char *what)
{
	const struct workspace *workspace = context;
	const char *tenant = workspace->tenant->name;
	struct trouble_lines *lines = &workspace->tenant->usage->troubles;
	const struct log_field *fields = LOG_FIELDS({"CLOISTER_TENANT", text_from(tenant)},
		{"CLOISTER_WORKSPACE", text_from(workspace->name)});

	if (lines->since == 0 ||
		clock_now() - lines->since >= LIMIT_TROUBLE_LINES_MS * CLOCK_NS_PER_MS) {
		if (lines->left_out > 0)
			log_warning("tenant %s: %llu lines about its workspaces' processes were "
				    "left out in the last hour",
				tenant, (unsigned long long)lines->left_out);
		*lines = (struct trouble_lines){.since = clock_now()};
	}
	if (lines->logged == LIMIT_TROUBLE_LINES) {
		if (lines->left_out++ == 0)
			log_warning("tenant %s: nothing more about its workspaces' processes is "
				    "logged for up to an hour, see cloisterctl workspaces",
				tenant);
		return;
	}
	lines->logged++;
	log_about(LOG_WARNING, fields, "the workspace %s of the tenant %s: %s", workspace->name,
		tenant, what);
}

static void network(void *context, const int *sockets)
{
	struct workspace *workspace = context;
	const struct egress_cell_words words = {
		workspace->tenant->name, workspace->name, workspace->allow, on_troubled, workspace};

	egress_cell_end(TAKE_PTR(workspace->network));
	workspace_end_forwards(workspace);
	workspace_end_listening(workspace);
	if (sockets)
		workspace->listening = listening_new(sockets[CELL_SOCKET_PORTS]);
	if (sockets && sockets[CELL_SOCKET_PROXY] >= 0)
		workspace->network = egress_cell_new(workspace->all->egress, &words, sockets);
}

static void sweep(void *context)
{
	struct workspace *workspace = context;

	disk_use_opened(&workspace->disk);
}

/* One that had a cell a moment ago gets it again. */
static const char *refuses(void *context)
{
	const struct workspace *workspace = context;
	uint64_t more = workspaces_room_of_one(workspace->all, workspace->tenant) - 1;

	if (workspace->swap || workspace->freeze)
		return NULL;
	return workspaces_room_refuses(workspace->all, workspace->tenant, more);
}

static const struct cell_owner cell_owner = {need, refuses, describe, on_frame, on_lost, on_settled,
	share, sum, unread, network, on_troubled, sweep};

/* Waiters go with the processes that have them. */
static void on_dear(void *context)
{
	struct workspace *workspace = context;

	workspace->tenant->usage->dear_peers++;
	cell_abandon(workspace->cell, CELL_WORKER,
		"A descriptor that the workspace's processes share with cloisterd had so many "
		"waiters, such as watches of epoll(7), that system calls on it took cloisterd too "
		"much CPU time, and it ended the workspace's processes");
}

/* AT_STATX_DONT_SYNC asks no server, which may hang. */
static int64_t birth_ms(int root)
{
	struct statx status;

	if (statx(root, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BTIME, &status) < 0 ||
		!(status.stx_mask & STATX_BTIME))
		return 0;
	return status.stx_btime.tv_sec * 1000 + status.stx_btime.tv_nsec / 1000000;
}

struct workspace *workspace_new(struct workspaces *workspaces, struct tenant *tenant,
	struct workspace_root *root, enum workspace_kind kind, const char *name)
{
	struct workspace *workspace = calloc(1, sizeof(*workspace));

	if (!workspace) {
		workspace_root_done(root);
		return NULL;
	}
	workspace->all = workspaces;
	workspace->root = *root;
	workspace->kind = kind;
	workspace->tenant = tenant_hold(tenant);
	tenant->usage->workspaces++;
	workspace->name = strdup(name);
	TAILQ_INIT(&workspace->entries);
	scheduler_queues_init(workspaces->scheduler, &workspace->queues, tenant);
	disk_use_init(&workspace->disk, workspace_disk_ask, workspace);
	workspace_pause_init(workspace);
	workspace->cell = cell_new(workspaces->base, workspaces->spawner, workspaces->spares,
		&cell_owner, workspace, &workspaces->counts);
	LIST_INSERT_HEAD(&workspaces->list, workspace, entry);
	workspaces->count++;
	workspace->fd_sum = shared_fd_sum_new(on_dear, workspace);
	if (!workspace->name || !workspace->cell || !workspace->fd_sum) {
		workspace_free(workspace);
		return NULL;
	}
	workspace->last_used = workspace->unattended_since = clock_now();
	workspace->made_ms = birth_ms(workspace->root.fd);
	workspace_idle_begin(workspace);
	workspace_room_count(workspace);
	return workspace;
}

void workspace_reload(struct workspace *workspace, struct tenant *tenant)
{
	workspace_idle_reload(workspace);
	if (!tenant)
		return;
	scheduler_queues_move(workspace->all->scheduler, &workspace->queues, tenant);
	workspace_disk_uncount(workspace);
	workspace_room_uncount(workspace);
	workspace_tasks_uncount(workspace);
	assert(workspace->tenant->usage->workspaces > 0);
	workspace->tenant->usage->workspaces--;
	tenant_release(workspace->tenant);
	workspace->tenant = tenant_hold(tenant);
	tenant->usage->workspaces++;
	workspace_room_count(workspace);
	workspace_tasks_count(workspace);
	workspace_disk_count(workspace);
	cell_settle(workspace->cell);
}
