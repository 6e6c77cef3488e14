// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Decides which workspace a client's name means and whether the client gets it.
 * The spawner has looked up the roots. */
#include "supervisor/workspace/workspaces.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "supervisor/cell/spare_cells.h"
#include "supervisor/cell/spawner_link.h"
#include "supervisor/config/config.h"
#include "supervisor/config/config_value.h"
#include "supervisor/config/tenant.h"
#include "supervisor/host/id_range.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/layers/layers.h"
#include "supervisor/workspace/layers/workspace_freeze.h"
#include "supervisor/workspace/layers/workspace_layers.h"
#include "supervisor/workspace/managed/elsewhere.h"
#include "supervisor/workspace/managed/leases.h"
#include "supervisor/workspace/managed/managed.h"
#include "supervisor/workspace/managed/managed_open.h"
#include "supervisor/workspace/managed/managed_quota.h"
#include "supervisor/workspace/managed/properties_store.h"
#include "supervisor/workspace/managed/workspace_owner.h"
#include "supervisor/workspace/managed/workspace_properties.h"
#include "supervisor/workspace/templates/forks.h"
#include "supervisor/workspace/templates/templates.h"
#include "supervisor/workspace/workspace_life.h"
#include "supervisor/workspace/workspace_room.h"
#include "supervisor/workspace/workspace_state.h"
#include "supervisor/workspace/workspace_tasks.h"

#define END_WAIT_MS 1000 /* for one process, at the shutdown */

/* Notes it for the tenant whose directory has the layers, or the template. */
static void on_worked(void *context, const struct spawner_worked *message)
{
	const struct tenant *tenant = managed_quota_tenant(message->tenant);
	struct tenant_usage *usage = tenant ? tenant->usage : NULL;

	if (!usage)
		return;
	if (message->what == SPAWNER_MEASURE) {
		template_measured(context, tenant, message->path, message->bytes);
		return;
	}
	if (message->what == SPAWNER_DROPPED) {
		if (message->error == 0)
			managed_count_cleared(tenant);
		return;
	}
	if (message->what == SPAWNER_LOAD) {
		usage->template_memory = message->bytes;
		usage->loads += message->path.len > 0 && message->error == 0;
		usage->loads_failed += message->error != 0;
		usage->loads_us += message->us;
		return;
	}
	usage->folds += message->error == 0;
	usage->folds_failed += message->error != 0;
	usage->folds_us += message->us;
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
	workspaces->cgroups = -1;
	workspaces->spares = spare_cells_new(base, spawner);
	if (!workspaces->spares) {
		free(workspaces);
		return NULL;
	}
	workspaces->own_directories = own_directories;
	workspaces->managed_fd = managed_fd;
	LIST_INIT(&workspaces->list);
	LIST_INIT(&workspaces->forking);
	LIST_INIT(&workspaces->walks);
	TAILQ_INIT(&workspaces->idle);
	workspaces_tasks_init(workspaces);
	workspaces->leases = leases_new(workspaces);
	if (!workspaces->leases) {
		spare_cells_free(workspaces->spares);
		free(workspaces);
		return NULL;
	}
	if (spawner)
		spawner_link_hear(spawner, on_worked, workspaces);
	return workspaces;
}

void workspaces_use_egress(struct workspaces *workspaces, struct egress_link *egress)
{
	workspaces->egress = egress;
}

void workspaces_limit_descriptors(struct workspaces *workspaces, uint64_t descriptors)
{
	uint64_t ours = LIMIT_DESCRIPTORS_OWN;

	descriptors -= descriptors < ours ? descriptors : ours;
	workspaces->room.most = descriptors - descriptors / LIMIT_DESCRIPTORS_OTHERS_PART;
}

struct workspaces_room_view workspaces_room(const struct workspaces *workspaces)
{
	const struct workspace_room *room = &workspaces->room;

	return (struct workspaces_room_view){room->used, room->limit, room->refused};
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

/*
 * First kills some, then waits for each: they end at the same time, but not more than
 * cell_ending.h lets end at once.
 */
static void end_cells(struct workspaces *workspaces)
{
	struct workspace *workspace = LIST_FIRST(&workspaces->list), *waited = workspace;

	while (workspace) {
		for (unsigned i = 0; workspace && i < LIMIT_CELLS_ENDING; i++) {
			cell_kill(workspace->cell);
			workspace = LIST_NEXT(workspace, entry);
		}
		for (; waited != workspace; waited = LIST_NEXT(waited, entry))
			cell_wait(waited->cell, END_WAIT_MS);
	}
}

void workspaces_free(struct workspaces *workspaces)
{
	if (!workspaces)
		return;
	forks_stop(workspaces);
	end_cells(workspaces);
	while (!LIST_EMPTY(&workspaces->list))
		workspace_free(LIST_FIRST(&workspaces->list));
	leases_free(workspaces->leases);
	spare_cells_free(workspaces->spares);
	workspaces_tasks_done(workspaces);
	free(workspaces);
}

void workspaces_set_elsewhere(struct workspaces *workspaces, const struct elsewhere *elsewhere)
{
	workspaces->elsewhere = elsewhere;
}

void workspaces_tell_left(struct workspaces *workspaces,
	void (*left)(void *context, struct workspace *workspace), void *context)
{
	workspaces->left = left;
	workspaces->left_context = context;
}

void workspaces_prepare(struct workspaces *workspaces, const struct tenant *tenant)
{
	struct spawner_open request;

	workspace_describe_any(workspaces, tenant, &request);
	spare_cells_begin(workspaces->spares, &request);
}

void workspaces_retire(struct workspaces *workspaces, bool retire)
{
	workspaces->retiring = retire;
	workspaces->settling = false;
}

void workspaces_settle(struct workspaces *workspaces)
{
	struct workspace *workspace, *next;

	workspaces->settling = true;
	for (workspace = LIST_FIRST(&workspaces->list); workspace; workspace = next) {
		/* What is answered may be all that it was kept for. */
		workspace_hold(workspace);
		if (workspace->swap)
			workspace_swap_give_up(workspace);
		if (workspace->freeze)
			workspace_freeze_give_up(workspace);
		next = LIST_NEXT(workspace, entry);
		workspace_release(workspace);
	}
}

bool workspaces_are_settled(const struct workspaces *workspaces)
{
	const struct workspace *workspace;

	if (!forks_are_copied(workspaces))
		return false;
	LIST_FOREACH (workspace, &workspaces->list, entry)
		if (workspace->removing || workspace->swap ||
			(workspace->freeze && !workspace_is_copied(workspace)) ||
			(workspace->kind == WORKSPACE_MANAGED &&
				cell_status(workspace->cell) == CELL_STATUS_OPENING))
			return false;
	return true;
}

size_t workspaces_count(const struct workspaces *workspaces)
{
	return workspaces->count;
}

uint64_t workspaces_most(const struct workspaces *workspaces, const struct config *config)
{
	const struct workspace_room *room = &workspaces->room;
	uint64_t held = room->used + LIMIT_DESCRIPTORS_NETWORK;
	uint64_t more = held < room->limit ? room->limit - held : 0;
	uint64_t most = config_workspaces(config);

	more = workspaces->count + more / LIMIT_DESCRIPTORS_WORKSPACE;
	return room->limit > 0 && more < most ? more : most;
}

static struct workspace *find_workspace_of_root(struct workspaces *workspaces,
	const struct tenant *tenant, const struct workspace_root *root, enum workspace_kind kind)
{
	struct workspace *workspace;

	LIST_FOREACH (workspace, &workspaces->list, entry)
		if (workspace->root.dev == root->dev && workspace->root.ino == root->ino &&
			workspace->kind == kind && strcmp(workspace->root.path, root->path) == 0 &&
			strcmp(workspace->tenant->name, tenant->name) == 0)
			return workspace;
	return NULL;
}

/* Returns the workspace of @root, which is taken also on failure. */
static enum tool_error get(struct workspaces *workspaces, struct tenant *tenant,
	struct workspace_root *root, enum workspace_kind kind, const char *name,
	struct workspace **ret, struct refusal *ret_refusal)
{
	struct workspace *workspace = find_workspace_of_root(workspaces, tenant, root, kind);
	const char *why;

	if (elsewhere_has(workspaces->elsewhere, root->dev, root->ino)) {
		workspace_root_done(root);
		refusal_set(ret_refusal, TOOL_BUSY,
			"Calls or sessions that began before the service was replaced still run in "
			"this workspace; try again when they have ended");
		ret_refusal->retry_after_ms = LIMIT_RETRY_MIN_MS;
		return TOOL_BUSY;
	}
	if (workspace && workspace->expired) {
		workspace_root_done(root);
		return refusal_set(ret_refusal, TOOL_LEASE_ENDED, NULL);
	}
	if (workspace && workspace->removing) {
		workspace_root_done(root);
		return refusal_set(ret_refusal, TOOL_BUSY, NULL);
	}
	if (workspace) {
		workspace_root_done(root);
		*ret = workspace_hold(workspace);
		return TOOL_OK;
	}
	/* Even to read its layers would drop those that another generation is making. */
	if (workspaces->retiring && kind == WORKSPACE_MANAGED) {
		workspace_root_done(root);
		ret_refusal->retry_after_ms = LIMIT_RETRY_MIN_MS;
		return refusal_set(ret_refusal, TOOL_BUSY, WORKSPACES_RETIRE);
	}
	if (workspaces->count >= LIMIT_WORKSPACES ||
		tenant->usage->workspaces >= tenant->limits.workspaces) {
		workspace_root_done(root);
		return refusal_set(ret_refusal, TOOL_BUSY, NULL);
	}
	/* Some is left for processes of those that have none. */
	why = workspaces_room_refuses(workspaces, tenant,
		workspaces_room_of_one(workspaces, tenant) + LIMIT_DESCRIPTORS_NETWORK);
	if (why) {
		workspace_root_done(root);
		ret_refusal->retry_after_ms = LIMIT_RETRY_MIN_MS;
		return refusal_set(ret_refusal, TOOL_BUSY, why);
	}
	workspace = workspace_new(workspaces, tenant, root, kind, name);
	if (!workspace)
		return refusal_set(ret_refusal, TOOL_BUSY, NULL);
	workspace->as_root =
		kind == WORKSPACE_MANAGED && managed_is_root(workspaces->managed_fd, tenant, name);
	if (kind == WORKSPACE_MANAGED && workspace_layers_read(workspace) < 0) {
		workspace_free(workspace);
		return refusal_set(ret_refusal, TOOL_EXECUTION_ERROR,
			"The record of the workspace's checkpoints cannot be read, or is damaged; "
			"ask the administrator of the service");
	}
	if (kind == WORKSPACE_MANAGED && workspace_read_properties(workspace) < 0) {
		workspace_free(workspace);
		return refusal_set(ret_refusal, TOOL_EXECUTION_ERROR,
			"The record of the workspace's labels, lease and environment cannot be "
			"read, or is damaged; ask the administrator of the service");
	}
	*ret = workspace_hold(workspace);
	return TOOL_OK;
}

struct id_search {
	const struct workspaces *workspaces;
	const struct workspace_root *root;
};

/* Whether a workspace at another directory has the id. */
static bool is_id_used(const void *context, uid_t id)
{
	const struct id_search *search = context;
	const struct workspace *workspace;
	struct directory_known known;

	if (elsewhere_has_uid(
		    search->workspaces->elsewhere, id, search->root->dev, search->root->ino))
		return true;
	LIST_FOREACH (workspace, &search->workspaces->list, entry)
		if ((workspace->root.dev != search->root->dev ||
			    workspace->root.ino != search->root->ino) &&
			directory_known(workspace->root.fd, &known) == 0 && known.uid == id)
			return true;
	return false;
}

enum tool_error workspaces_look_up(struct workspaces *workspaces, const struct tenant *tenant,
	struct text path, root_looked_up looked, void *context, struct root_look **ret,
	struct refusal *ret_refusal)
{
	return root_look_begin(
		workspaces->spawner, tenant, path, looked, context, ret, ret_refusal);
}

/*
 * A read-only path inside the workspace would be covered by it, and writable. The configuration
 * keeps a tenant's roots apart from such paths; a user without one may name any two directories.
 */
static enum tool_error check_readonly_paths(
	const struct tenant *tenant, const struct workspace_root *root, struct refusal *ret_refusal)
{
	const struct string_list *paths = &tenant->readonly_paths;

	for (size_t i = 0; tenant->any_root && i < paths->count; i++)
		if (strlen(paths->strings[i]) >= strlen(root->path) &&
			config_paths_overlap(paths->strings[i], root->path))
			return refusal_format(ret_refusal, TOOL_FORBIDDEN,
				"The read-only path %s lies in the workspace, where commands may "
				"write: leave it out, or open a directory that does not contain it",
				paths->strings[i]);
	return TOOL_OK;
}

enum tool_error workspaces_get_directory(struct workspaces *workspaces, struct tenant *tenant,
	struct workspace_root *root, enum workspace_kind kind, struct workspace **ret,
	struct refusal *ret_refusal)
{
	enum tool_error error =
		workspace_root_check(root, kind, workspaces->own_directories, ret_refusal);

	if (error == TOOL_OK && !tenant_allows_root(tenant, root->parents, root->n_parents))
		error = refusal_set(ret_refusal, TOOL_FORBIDDEN, NULL);
	/* The tenant must not learn what exists outside its roots. */
	if (error != TOOL_OK && !tenant->any_root)
		error = refusal_set(ret_refusal, TOOL_FORBIDDEN, workspace_root_not_among);
	if (error == TOOL_OK)
		error = check_readonly_paths(tenant, root, ret_refusal);
	if (error == TOOL_OK)
		error = workspace_owner_check(
			root, is_id_used, &(struct id_search){workspaces, root}, ret_refusal);
	if (error == TOOL_OK)
		error = workspace_root_check_entry(root, id_range() != NULL, ret_refusal);
	if (error != TOOL_OK) {
		workspace_root_done(root);
		return error;
	}
	/* A directory workspace at / is the same as a rootfs one. */
	if (strcmp(root->path, "/") == 0)
		kind = WORKSPACE_ROOTFS;
	return get(workspaces, tenant, root, kind, root->path, ret, ret_refusal);
}

/* A read-only path of the tenant must neither cover the workspace nor be covered by it. */
static enum tool_error check_shown_at(
	const struct tenant *tenant, const char *shown_at, struct refusal *ret_refusal)
{
	const struct string_list *paths = &tenant->readonly_paths;

	for (size_t i = 0; shown_at[0] && i < paths->count; i++)
		if (config_paths_overlap(paths->strings[i], shown_at))
			return refusal_format(ret_refusal, TOOL_FORBIDDEN,
				"The workspace cannot be shown at %s: the tenant's commands see %s "
				"there, read-only; choose another shown_at",
				shown_at, paths->strings[i]);
	return TOOL_OK;
}

enum tool_error workspaces_get_managed(struct workspaces *workspaces, struct tenant *tenant,
	struct text name, bool create, struct workspace **ret, struct refusal *ret_refusal)
{
	return workspaces_get_managed_with(
		workspaces, tenant, name, create, NULL, ret, ret_refusal);
}

/* The workspace keeps them from here on, or had them from its beginning on. */
static enum tool_error keep_workspace(struct workspace *workspace, const struct properties *with,
	bool made, struct refusal *ret_refusal)
{
	enum tool_error error = TOOL_OK;

	if (with && !made)
		error = workspace_set_properties(workspace, with, ret_refusal);
	else if (made)
		leases_set(workspace->all->leases, workspace->tenant, workspace->name,
			&workspace->properties.lease);
	return error == TOOL_OK ? check_shown_at(workspace->tenant, workspace->properties.shown_at,
					  ret_refusal)
				: error;
}

enum tool_error workspaces_get_managed_with(struct workspaces *workspaces, struct tenant *tenant,
	struct text name, bool create, const struct properties *with, struct workspace **ret,
	struct refusal *ret_refusal)
{
	_cleanup_free_ char *name_string = strndup(name.data, name.len);
	struct managed_wish wish = {.create = create, .with = with};
	struct workspace *workspace;
	struct workspace_root root;
	enum tool_error error;

	if (name_string && forks_make(workspaces, tenant, name_string)) {
		refusal_set(ret_refusal, TOOL_BUSY,
			"The workspace is one of forks that are being made");
		ret_refusal->retry_after_ms = LIMIT_RETRY_MIN_MS;
		return TOOL_BUSY;
	}
	error = with ? check_shown_at(tenant, with->shown_at, ret_refusal) : TOOL_OK;
	if (error == TOOL_OK)
		error = managed_open(
			workspaces->managed_fd, tenant, name, &wish, &root, ret_refusal);
	if (error != TOOL_OK)
		return error;
	if (!name_string) {
		workspace_root_done(&root);
		return refusal_set(ret_refusal, TOOL_BUSY, "Out of memory");
	}
	error = get(
		workspaces, tenant, &root, WORKSPACE_MANAGED, name_string, &workspace, ret_refusal);
	if (error != TOOL_OK)
		return error;
	error = keep_workspace(workspace, with, wish.made, ret_refusal);
	if (error != TOOL_OK) {
		workspace_release(workspace);
		return error;
	}
	*ret = workspace;
	return TOOL_OK;
}

enum tool_error workspaces_find_managed(struct workspaces *workspaces, const struct tenant *tenant,
	const char *name, struct workspace **ret)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct workspace_root root;
	struct workspace *workspace;
	enum tool_error error;

	if (forks_make(workspaces, tenant, name))
		return TOOL_BUSY;
	error = managed_open(
		workspaces->managed_fd, tenant, text_from(name), NULL, &root, &refusal);
	if (error != TOOL_OK)
		return error;
	workspace = find_workspace_of_root(workspaces, tenant, &root, WORKSPACE_MANAGED);
	if (elsewhere_has(workspaces->elsewhere, root.dev, root.ino) ||
		(workspace && workspace->removing))
		error = TOOL_BUSY;
	else
		*ret = workspace ? workspace_hold(workspace) : NULL;
	workspace_root_done(&root);
	return error;
}

static void tell_dropped(void *context, const char *tenant, const char *name)
{
	struct workspaces *workspaces = context;

	spawner_link_dropped(workspaces->spawner, false, tenant, name);
}

void workspaces_forget_removed(
	struct workspaces *workspaces, const struct tenant *tenant, const char *name)
{
	const struct layers_place place = {.managed_fd = workspaces->managed_fd,
		.tenant = tenant,
		.name = name,
		.dropped = tell_dropped,
		.context = workspaces};
	char tree[LIMIT_TEMPLATE_TREE_BYTES + 1];

	layers_template(&place, tree);
	(void)layers_remove(&place);
	template_let_go(workspaces, tenant, tree);
	managed_forget_root(workspaces->managed_fd, tenant, name);
	(void)properties_forget(workspaces->managed_fd, tenant, name);
	leases_forget(workspaces->leases, tenant, name);
	spawner_link_removed(workspaces->spawner, tenant->name, name);
}

enum tool_error workspaces_remove(
	struct workspaces *workspaces, const struct tenant *tenant, const char *name)
{
	char aside[MANAGED_ASIDE_BYTES];
	int r = managed_put_away(workspaces->managed_fd, tenant, name, aside);

	if (r < 0)
		return tool_error_from_errno(-r);
	workspaces_forget_removed(workspaces, tenant, name);
	spawner_link_dropped(workspaces->spawner, false, tenant_directory(tenant), aside);
	return TOOL_OK;
}

enum tool_error workspaces_end_lease(
	struct workspaces *workspaces, const struct tenant *tenant, const char *name)
{
	struct properties properties;
	int r = properties_load(workspaces->managed_fd, tenant, name, &properties);

	if (r < 0)
		return tool_error_from_errno(-r);
	properties.lease = (struct lease){0};
	r = properties_save(workspaces->managed_fd, tenant, name, &properties);
	properties_done(&properties);
	return r < 0 ? tool_error_from_errno(-r) : TOOL_OK;
}

struct leases *workspaces_leases(const struct workspaces *workspaces)
{
	return workspaces->leases;
}

int workspaces_each_managed(struct workspaces *workspaces, const struct tenant *tenant,
	void (*each)(void *context, const char *name), void *context)
{
	return managed_each(workspaces->managed_fd, tenant, each, context);
}

int workspaces_list_managed(
	const struct workspaces *workspaces, const struct tenant *tenant, DIR **ret)
{
	return managed_list(workspaces->managed_fd, tenant, ret);
}

int workspaces_list_properties(
	const struct workspaces *workspaces, const struct tenant *tenant, DIR **ret)
{
	return properties_list(workspaces->managed_fd, tenant, ret);
}

void workspaces_walk_begin(struct workspaces *workspaces, struct workspaces_walk *walk)
{
	walk->next = LIST_FIRST(&workspaces->list);
	LIST_LINK_HEAD(&workspaces->walks, walk, entry);
}

struct workspace *workspaces_walk_next(
	struct workspaces_walk *walk, const struct tenant *tenant, size_t *left)
{
	struct workspace *workspace;

	while (*left > 0 && (workspace = walk->next)) {
		--*left;
		walk->next = LIST_NEXT(workspace, entry);
		if (workspace->users > 0 && strcmp(workspace->tenant->name, tenant->name) == 0)
			return workspace;
	}
	return NULL;
}

bool workspaces_walk_is_over(const struct workspaces_walk *walk)
{
	return !walk->next;
}

void workspaces_walk_end(struct workspaces_walk *walk)
{
	if (walk->entry.le_prev)
		LIST_UNLINK(walk, entry);
}

void workspaces_reload(struct workspaces *workspaces, const struct config *config)
{
	struct workspace *workspace;

	workspaces->idle_ms = config->host.workspace_idle_ms;
	workspaces->cells_kept = config->host.cells_kept;
	managed_quota_follow(workspaces->managed_fd, config);
	for (size_t i = 0; i < config->n_tenants; i++)
		templates_measure(workspaces, config->tenants[i]);
	workspaces_room_reload(workspaces, config);
	workspaces_tasks_reload(workspaces, config);
	LIST_FOREACH (workspace, &workspaces->list, entry)
		workspace_reload(workspace, config_find_tenant(config, workspace->tenant->name));
	workspaces_idle_trim(workspaces);
}

void workspaces_foreach(struct workspaces *workspaces,
	void (*each)(void *context, struct workspace *workspace), void *context)
{
	struct workspace *workspace;

	LIST_FOREACH (workspace, &workspaces->list, entry)
		each(context, workspace);
}

void workspaces_set_cgroups(struct workspaces *workspaces, int cgroups)
{
	workspaces->cgroups = cgroups;
}

const struct cell_counts *workspaces_counts(const struct workspaces *workspaces)
{
	return &workspaces->counts;
}

const struct spare_cells *workspaces_spares(const struct workspaces *workspaces)
{
	return workspaces->spares;
}

size_t workspaces_openings_waiting(const struct workspaces *workspaces, const struct tenant *tenant)
{
	return spawner_link_waiting(workspaces->spawner, tenant->name);
}
