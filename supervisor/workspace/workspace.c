// SPDX-License-Identifier: Apache-2.0
/* cloisterd. What comes from a cell is hostile: it reaches an entry only by the number of a call
 * that has begun in this workspace. */
#include "supervisor/workspace/workspace.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/timer.h"
#include "supervisor/config/config.h"
#include "supervisor/config/tenant.h"
#include "supervisor/host/id_range.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/cell.h"
#include "supervisor/workspace/limits.h"
#include "supervisor/workspace/managed.h"
#include "supervisor/workspace/managed_quota.h"
#include "supervisor/workspace/spare_cells.h"
#include "supervisor/workspace/workspace_owner.h"

#include <errno.h>

#define END_WAIT_MS 1000 /* for one process, when everything ends */

struct workspace {
	LIST_ENTRY(workspace) entry;
	struct workspaces *all;
	struct workspace_root root;
	enum workspace_kind kind;
	struct tenant *tenant; /* held */
	char *name;
	size_t users;
	struct cell *cell;
	struct workspace_entries entries;
	struct timer idle;
	int64_t last_used;            /* as clock_now() */
	unsigned unknown_call_frames; /* in a row: since a frame of a call that has begun */
	bool removing;
};

struct workspaces {
	struct event_base *base;
	struct spawner_link *spawner;
	struct spare_cells *spares;
	struct scheduler *scheduler;
	const char *const *own_directories;
	int managed_fd;
	size_t count;
	uint64_t idle_ms; /* 0: a cell stays while its workspace is used */
	struct cell_counts counts;
	LIST_HEAD(, workspace) list;
};

static const struct {
	unsigned limit;
	enum cell_process process;
	enum sched_class sched;
} classes[CALL_CLASSES] = {
	[CALL_CLASS_SHORT] = {LIMIT_CALLS_PER_CONNECTION, CELL_FILES, SCHED_NONE},
	[CALL_CLASS_WRITE] = {LIMIT_FILE_WRITES, CELL_FILES, SCHED_NONE},
	[CALL_CLASS_JOB] = {LIMIT_FILE_JOBS, CELL_FILES, SCHED_JOB},
	/* And what the tenant allows. */
	[CALL_CLASS_COMMAND] = {LIMIT_COMMANDS_PER_WORKSPACE, CELL_WORKER, SCHED_COMMAND},
};

static bool may_begin(void *context, enum call_class class)
{
	const struct workspace *workspace = context;

	return cell_serves(workspace->cell, classes[class].process) &&
	       workspace->entries.running[class] < classes[class].limit;
}

/* After anything that decides whether jobs and commands can begin here. */
static void update_limits(struct workspace *workspace)
{
	const struct cell *cell = workspace->cell;
	uint64_t commands = workspace->tenant->limits.commands_per_workspace;
	const size_t limits[SCHED_CLASSES] = {
		[SCHED_JOB] = cell_serves(cell, CELL_FILES) ? LIMIT_FILE_JOBS : 0,
		[SCHED_COMMAND] = cell_serves(cell, CELL_WORKER) ? (size_t)commands : 0,
	};

	scheduler_queues_set(workspace->all->scheduler, &workspace->entries.queues, limits);
}

static void on_scheduled(struct sched_entry *sched)
{
	struct workspace_entry *entry =
		(struct workspace_entry *)((char *)sched - offsetof(struct workspace_entry, sched));
	struct workspace *workspace = sched->context;

	if (cell_serves(workspace->cell, classes[entry->class].process)) {
		workspace_entries_begin_one(&workspace->entries, entry);
		return;
	}
	/* The cell has failed, and has not come to say so yet. */
	update_limits(workspace);
	scheduler_return(workspace->all->scheduler, sched);
}

struct workspaces *workspaces_new(struct event_base *base, struct spawner_link *spawner,
	struct scheduler *scheduler, const char *const *own_directories, int managed_fd)
{
	struct workspaces *workspaces = calloc(1, sizeof(*workspaces));

	if (!workspaces)
		return NULL;
	workspaces->base = base;
	workspaces->spawner = spawner;
	workspaces->scheduler = scheduler;
	workspaces->spares = spare_cells_new(base, spawner);
	if (!workspaces->spares) {
		free(workspaces);
		return NULL;
	}
	workspaces->own_directories = own_directories;
	workspaces->managed_fd = managed_fd;
	LIST_INIT(&workspaces->list);
	return workspaces;
}

static void workspace_free(struct workspace *workspace)
{
	cell_free(workspace->cell);
	LIST_REMOVE(workspace, entry);
	workspace->all->count--;
	timer_cancel(&workspace->idle);
	workspace_root_done(&workspace->root);
	workspace->tenant->usage->workspaces--;
	tenant_release(workspace->tenant);
	free(workspace->name);
	free(workspace);
}

static const char *own_shown(const struct string_list *paths, const char *const *own_directories)
{
	for (; *own_directories; own_directories++)
		for (size_t i = 0; i < paths->count; i++)
			if (config_paths_overlap(paths->strings[i], *own_directories))
				return paths->strings[i];
	return NULL;
}

const char *workspaces_own_shown(const struct workspaces *workspaces, const struct config *config)
{
	const char *path = NULL;

	for (size_t i = 0; !path && i < config->n_tenants; i++)
		path = own_shown(&config->tenants[i]->readonly_paths, workspaces->own_directories);
	return path;
}

void workspaces_free(struct workspaces *workspaces)
{
	struct workspace *workspace;

	if (!workspaces)
		return;
	/* First all are killed, then each is waited for: together they need no longer than one. */
	LIST_FOREACH (workspace, &workspaces->list, entry)
		cell_kill(workspace->cell);
	LIST_FOREACH (workspace, &workspaces->list, entry)
		cell_wait(workspace->cell, END_WAIT_MS);
	while (!LIST_EMPTY(&workspaces->list))
		workspace_free(LIST_FIRST(&workspaces->list));
	spare_cells_free(workspaces->spares);
	free(workspaces);
}

size_t workspaces_count(const struct workspaces *workspaces)
{
	return workspaces->count;
}

/* What its cell asks and tells. */

static enum cell_need need(void *context)
{
	const struct workspace *workspace = context;

	if (!workspace_entries_empty(&workspace->entries))
		return CELL_CALLED;
	return workspace->users > 0 ? CELL_KEPT : CELL_UNUSED;
}

static void describe(void *context, struct spawner_open *ret, int *ret_root)
{
	const struct workspace *workspace = context;
	size_t length;

	*ret = (struct spawner_open){.kind = (uint8_t)workspace->kind,
		.limits = limits_of_workspace(&workspace->tenant->limits)};
	/* A name of the configuration's fits; that of user mode without one may not, and adds
	 * nothing. Nor is there any use of what is added where all that is done is to remove. */
	length = strlen(workspace->tenant->name);
	if (length < sizeof(ret->tenant) && !workspace->removing)
		memcpy(ret->tenant, workspace->tenant->name, length);
	*ret_root = workspace->root.fd;
}

static int on_frame(void *context, enum cell_process from, const struct channel_frame *frame)
{
	struct workspace *workspace = context;
	struct workspace_entry *entry = workspace_entries_begun(&workspace->entries, frame->call);

	if (!entry) /* answered in the meantime; but so many frames are no late answers */
		return ++workspace->unknown_call_frames > LIMIT_UNKNOWN_CALL_FRAMES ? -EBADMSG : 0;
	/* A worker has nothing to say about a file call, nor the files process about a command. */
	if (classes[entry->class].process != from)
		return -EBADMSG;
	workspace->unknown_call_frames = 0;
	cell_reset_crash_count(workspace->cell);
	return entry->owner->frame(entry->context, frame);
}

static void on_lost(void *context, enum cell_loss loss, const char *why)
{
	/* clang-format off */
	static const struct workspace_entry_loss losses[CELL_LOSSES] = {
		[CELL_LOST] = {CALL_CLASS_SHORT, CALL_CLASS_COMMAND, false, TOOL_WORKER_LOST},
		[CELL_GIVEN_UP] = {CALL_CLASS_SHORT, CALL_CLASS_COMMAND, true, TOOL_WORKER_LOST},
		[CELL_NOT_MADE] = {CALL_CLASS_SHORT, CALL_CLASS_COMMAND, true, TOOL_EXECUTION_ERROR},
		[CELL_REFUSED] = {CALL_CLASS_SHORT, CALL_CLASS_COMMAND, true, TOOL_FORBIDDEN},
		[CELL_SILENT] = {CALL_CLASS_SHORT, CALL_CLASS_COMMAND, true, TOOL_TIMEOUT},
		[CELL_HELD] = {CALL_CLASS_SHORT, CALL_CLASS_COMMAND, true, TOOL_BUSY},
		[CELL_FILES_LOST] = {CALL_CLASS_SHORT, CALL_CLASS_JOB, false, TOOL_WORKER_LOST},
		[CELL_FILES_HELD] = {CALL_CLASS_SHORT, CALL_CLASS_JOB, true, TOOL_BUSY},
	};
	/* clang-format on */
	struct workspace *workspace = context;

	workspace->unknown_call_frames = 0;
	workspace_entries_lose(&workspace->entries, &losses[loss], why);
}

/* Waiting calls begin, and a workspace that nobody uses goes. */
static void on_settled(void *context)
{
	struct workspace *workspace = context;

	update_limits(workspace);
	workspace_entries_begin(&workspace->entries, may_begin, workspace);
	if (need(workspace) == CELL_UNUSED && cell_status(workspace->cell) == CELL_STATUS_CLOSED)
		workspace_free(workspace);
}

static struct loop_share_flow *share(void *context)
{
	const struct workspace *workspace = context;

	return &workspace->tenant->usage->share;
}

static const struct cell_owner cell_owner = {need, describe, on_frame, on_lost, on_settled, share};

static void await_idleness(struct workspace *workspace, int64_t ns)
{
	if (workspace->all->idle_ms > 0)
		timer_set_ns(&workspace->idle, ns);
	else
		timer_cancel(&workspace->idle);
}

static int64_t idle_bound_ns(const struct workspaces *workspaces)
{
	return (int64_t)workspaces->idle_ms * CLOCK_NS_PER_MS;
}

static void on_idle(void *context)
{
	struct workspace *workspace = context;
	int64_t left = workspace->last_used + idle_bound_ns(workspace->all) - clock_now();

	if (left <= 0 && need(workspace) == CELL_KEPT)
		cell_rest(workspace->cell);
	await_idleness(workspace, left > 0 ? left : idle_bound_ns(workspace->all));
}

static struct workspace *find(struct workspaces *workspaces, const struct tenant *tenant,
	const struct workspace_root *root, enum workspace_kind kind)
{
	struct workspace *workspace;

	LIST_FOREACH (workspace, &workspaces->list, entry)
		if (workspace->root.dev == root->dev && workspace->root.ino == root->ino &&
			workspace->kind == kind && strcmp(workspace->root.path, root->path) == 0 &&
			strcmp(workspace->tenant->name, tenant->name) == 0)
			return workspace;
	return NULL;
}

/* The workspace of @root, which is taken in any case. */
static enum tool_error get(struct workspaces *workspaces, struct tenant *tenant,
	struct workspace_root *root, enum workspace_kind kind, const char *name,
	struct workspace **ret)
{
	struct workspace *workspace = find(workspaces, tenant, root, kind);

	if (workspace && workspace->removing) {
		workspace_root_done(root);
		return TOOL_BUSY;
	}
	if (workspace) {
		workspace_root_done(root);
		*ret = workspace_hold(workspace);
		return TOOL_OK;
	}
	workspace = calloc(1, sizeof(*workspace));
	if (!workspace || workspaces->count >= LIMIT_WORKSPACES ||
		tenant->usage->workspaces >= tenant->limits.workspaces) {
		free(workspace);
		workspace_root_done(root);
		return TOOL_BUSY;
	}
	workspace->all = workspaces;
	workspace->root = *root;
	workspace->kind = kind;
	workspace->tenant = tenant_hold(tenant);
	tenant->usage->workspaces++;
	workspace->name = strdup(name);
	workspace_entries_init(&workspace->entries, workspaces->scheduler, tenant);
	timer_init(&workspace->idle, on_idle, workspace);
	workspace->cell = cell_new(workspaces->base, workspaces->spawner, workspaces->spares,
		&cell_owner, workspace, &workspaces->counts);
	LIST_INSERT_HEAD(&workspaces->list, workspace, entry);
	workspaces->count++;
	if (!workspace->name || !workspace->cell) {
		workspace_free(workspace);
		return TOOL_BUSY;
	}
	workspace->last_used = clock_now();
	await_idleness(workspace, idle_bound_ns(workspaces));
	*ret = workspace_hold(workspace);
	return TOOL_OK;
}

struct id_search {
	const struct workspaces *workspaces;
	const struct workspace_root *root;
};

/* Whether a workspace at another directory than the one at hand has the id. */
static bool is_id_used(const void *context, uid_t id)
{
	const struct id_search *search = context;
	const struct workspace *workspace;
	struct directory_known known;

	LIST_FOREACH (workspace, &search->workspaces->list, entry)
		if ((workspace->root.dev != search->root->dev ||
			    workspace->root.ino != search->root->ino) &&
			directory_known(workspace->root.fd, &known) == 0 && known.uid == id)
			return true;
	return false;
}

enum tool_error workspaces_look_up(struct workspaces *workspaces, const struct tenant *tenant,
	struct text path, root_looked_up looked, void *context, struct root_look **ret,
	char **ret_message)
{
	return root_look_begin(
		workspaces->spawner, tenant, path, looked, context, ret, ret_message);
}

enum tool_error workspaces_get_directory(struct workspaces *workspaces, struct tenant *tenant,
	struct workspace_root *root, enum workspace_kind kind, struct workspace **ret,
	char **ret_message)
{
	enum tool_error error =
		workspace_root_check(root, kind, workspaces->own_directories, ret_message);

	if (error == TOOL_OK && !tenant_allows_root(tenant, root->parents, root->n_parents))
		error = TOOL_FORBIDDEN;
	/* Nor is it told what there is that is not its own. */
	if (error != TOOL_OK && !tenant->any_root) {
		error = TOOL_FORBIDDEN;
		free(*ret_message);
		*ret_message = strdup(workspace_root_not_among);
	}
	if (error == TOOL_OK)
		error = workspace_owner_check(
			root, is_id_used, &(struct id_search){workspaces, root}, ret_message);
	if (error == TOOL_OK)
		error = workspace_root_check_entry(root, id_range() != NULL, ret_message);
	if (error != TOOL_OK) {
		workspace_root_done(root);
		return error;
	}
	/* The same thing by another name: a directory workspace at / is a whole root. */
	if (strcmp(root->path, "/") == 0)
		kind = WORKSPACE_ROOTFS;
	return get(workspaces, tenant, root, kind, root->path, ret);
}

enum tool_error workspaces_get_managed(struct workspaces *workspaces, struct tenant *tenant,
	struct text name, bool create, struct workspace **ret, char **ret_message)
{
	_cleanup_free_ char *name_string = strndup(name.data, name.len);
	struct workspace_root root;
	enum tool_error error =
		managed_open(workspaces->managed_fd, tenant, name, create, &root, ret_message);

	if (error != TOOL_OK)
		return error;
	if (name_string && !managed_is_marked(workspaces->managed_fd, tenant, name_string))
		return get(workspaces, tenant, &root, WORKSPACE_MANAGED, name_string, ret);
	if (name_string)
		*ret_message = strdup("The workspace is being removed");
	workspace_root_done(&root);
	return TOOL_BUSY;
}

enum tool_error workspaces_get_marked(struct workspaces *workspaces, struct tenant *tenant,
	const char *name, struct workspace **ret)
{
	_cleanup_free_ char *message = NULL;
	struct workspace_root root;
	enum tool_error error = managed_open(
		workspaces->managed_fd, tenant, text_from(name), false, &root, &message);

	if (error == TOOL_OK)
		return get(workspaces, tenant, &root, WORKSPACE_MANAGED, name, ret);
	/* Its directory had gone, and only the mark had not. */
	if (error == TOOL_WORKSPACE_NOT_FOUND)
		managed_unmark(workspaces->managed_fd, tenant, name);
	return error;
}

int workspaces_each_marked(struct workspaces *workspaces, const struct tenant *tenant,
	void (*each)(void *context, const char *name), void *context)
{
	return managed_each_marked(workspaces->managed_fd, tenant, each, context);
}

int workspaces_each_managed(struct workspaces *workspaces, const struct tenant *tenant,
	void (*each)(void *context, const char *name), void *context)
{
	return managed_each(workspaces->managed_fd, tenant, each, context);
}

void workspaces_each(struct workspaces *workspaces, const struct tenant *tenant,
	void (*each)(void *context, struct workspace *workspace), void *context)
{
	struct workspace *workspace;

	LIST_FOREACH (workspace, &workspaces->list, entry)
		if (workspace->users > 0 && strcmp(workspace->tenant->name, tenant->name) == 0)
			each(context, workspace);
}

void workspace_set_removing(struct workspace *workspace, bool removing)
{
	int fd = workspace->all->managed_fd;

	if (removing)
		managed_mark(fd, workspace->tenant, workspace->name);
	else if (workspace->removing)
		managed_unmark(fd, workspace->tenant, workspace->name);
	workspace->removing = removing;
}

int workspace_remove_directory(const struct workspace *workspace)
{
	return managed_remove(workspace->all->managed_fd, workspace->tenant, workspace->name);
}

void workspaces_reload(struct workspaces *workspaces, const struct config *config)
{
	struct workspace *workspace;

	workspaces->idle_ms = config->host.workspace_idle_ms;
	managed_quota_follow(workspaces->managed_fd, config);
	spare_cells_limit(workspaces->spares, config->host.spare_cells);
	LIST_FOREACH (workspace, &workspaces->list, entry) {
		struct tenant *tenant = config_find_tenant(config, workspace->tenant->name);

		await_idleness(workspace, idle_bound_ns(workspaces));
		if (!tenant)
			continue;
		scheduler_queues_move(workspaces->scheduler, &workspace->entries.queues, tenant);
		workspace->tenant->usage->workspaces--;
		tenant_release(workspace->tenant);
		workspace->tenant = tenant_hold(tenant);
		tenant->usage->workspaces++;
		cell_settle(workspace->cell);
	}
}

struct tenant *workspace_tenant(const struct workspace *workspace)
{
	return workspace->tenant;
}

bool workspace_is_allowed(const struct workspace *workspace)
{
	if (workspace->kind == WORKSPACE_MANAGED)
		return workspace->tenant->managed;
	return tenant_allows_root(
		workspace->tenant, workspace->root.parents, workspace->root.n_parents);
}

struct workspace *workspace_hold(struct workspace *workspace)
{
	workspace->users++;
	return workspace;
}

void workspace_release(struct workspace *workspace)
{
	if (!workspace)
		return;
	workspace->users--;
	cell_settle(workspace->cell);
}

const char *workspace_name(const struct workspace *workspace)
{
	return workspace->name;
}

enum workspace_kind workspace_kind(const struct workspace *workspace)
{
	return workspace->kind;
}

struct text workspace_visible(const struct workspace *workspace)
{
	return text_from(workspace_visible_root(workspace->kind, workspace->root.path));
}

size_t workspace_users(const struct workspace *workspace)
{
	return workspace->users;
}

bool workspace_is_open(const struct workspace *workspace)
{
	return cell_serves(workspace->cell, CELL_FILES);
}

void workspace_enter(struct workspace *workspace, struct workspace_entry *entry)
{
	entry->sched = (struct sched_entry){
		.class = classes[entry->class].sched, .begin = on_scheduled, .context = workspace};
	workspace_entries_enter(&workspace->entries, entry);
	cell_settle(workspace->cell);
}

void workspace_leave(struct workspace *workspace, struct workspace_entry *entry)
{
	workspace_entries_leave(&workspace->entries, entry);
	workspace->last_used = clock_now();
	cell_settle(workspace->cell);
}

void workspace_send_files(
	struct workspace *workspace, uint8_t type, uint64_t call, struct text payload)
{
	cell_send(workspace->cell, CELL_FILES, type, call, payload, NULL, 0);
}

void workspace_send_worker(struct workspace *workspace, uint8_t type, uint64_t call,
	struct text payload, const int *fds, unsigned n_fds)
{
	cell_send(workspace->cell, CELL_WORKER, type, call, payload, fds, n_fds);
}

uint64_t workspace_said(const struct workspace *workspace, const struct workspace_entry *entry)
{
	return cell_said(workspace->cell, classes[entry->class].process);
}

bool workspace_has_heard(
	struct workspace *workspace, const struct workspace_entry *entry, uint64_t said)
{
	return cell_has_heard(workspace->cell, classes[entry->class].process, said);
}

void workspace_abandon(struct workspace *workspace, const struct workspace_entry *entry)
{
	cell_abandon(workspace->cell, classes[entry->class].process);
}

void workspaces_foreach(struct workspaces *workspaces,
	void (*each)(void *context, struct workspace *workspace), void *context)
{
	struct workspace *workspace;

	LIST_FOREACH (workspace, &workspaces->list, entry)
		each(context, workspace);
}

void workspace_get_info(const struct workspace *workspace, struct workspace_info *ret)
{
	const struct workspace_entry *entry;
	struct workspace_info info = {
		.cell = cell_status(workspace->cell),
		.users = workspace->users,
		.commands = workspace->entries.running[CALL_CLASS_COMMAND],
	};

	TAILQ_FOREACH(entry, &workspace->entries.list, link)
	{
		info.running += entry->begun;
		info.waiting += !entry->begun;
	}
	*ret = info;
}

const struct cell_counts *workspaces_counts(const struct workspaces *workspaces)
{
	return &workspaces->counts;
}

const struct spare_cells *workspaces_spares(const struct workspaces *workspaces)
{
	return workspaces->spares;
}
