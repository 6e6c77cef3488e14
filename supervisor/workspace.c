// SPDX-License-Identifier: Apache-2.0
/* cloisterd. What comes from a cell is hostile: it reaches a ticket only by the number of a call
 * that has begun in this workspace. */
#include "supervisor/workspace.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire_commands.h"
#include "common/wire_files.h"
#include "supervisor/cgroup.h"
#include "supervisor/config.h"
#include "supervisor/managed.h"
#include "supervisor/peer.h"
#include "supervisor/spawner_link.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>

#define END_WAIT_MS   1000 /* for one process, when everything ends */
#define FRUITLESS_MAX 3

enum workspace_state {
	WORKSPACE_CLOSED,
	WORKSPACE_OPENING,
	WORKSPACE_OPEN,
	WORKSPACE_ENDING, /* its processes are killed and not all gone */
};

TAILQ_HEAD(ticket_list, workspace_ticket);

struct workspace {
	LIST_ENTRY(workspace) entry;
	struct workspaces *all;
	struct workspace_root root;
	enum workspace_kind kind;
	struct tenant *tenant; /* held */
	char *name;
	size_t users;
	enum workspace_state state;
	uint64_t cell; /* asked of the spawner and not answered; 0: none */
	struct peer *worker, *files;
	bool worker_ready, files_ready;
	struct ticket_list tickets;
	unsigned running[WORKSPACE_SLOTS];
	struct event *deadline; /* of opening, and of ending */
	struct event *settle;   /* what must not happen inside a peer's callback */
	char *failure;          /* why the cell is going, for who is lost with it */
	bool had_opened;        /* ENDING: it had been OPEN */
	bool quarantined;       /* ENDING: the kernel holds a process of it beyond every bound */
	bool removing;
	bool swept;         /* of what dead writes left */
	unsigned strays;    /* frames for nobody, since the last one for somebody */
	unsigned fruitless; /* cells that ended one after the other without an answer to anybody */
};

struct workspaces {
	struct event_base *base;
	struct spawner_link *spawner;
	const char *const *own_directories;
	int managed_fd;
	size_t count;
	uint64_t lost; /* cells that were open */
	LIST_HEAD(, workspace) list;
};

static const unsigned slot_limits[WORKSPACE_SLOTS] = {
	[WORKSPACE_SLOT_SHORT] = LIMIT_CALLS_PER_CONNECTION,
	[WORKSPACE_SLOT_WRITE] = LIMIT_FILE_WRITES,
	[WORKSPACE_SLOT_JOB] = LIMIT_FILE_JOBS,
	[WORKSPACE_SLOT_COMMAND] = LIMIT_COMMANDS_PER_WORKSPACE, /* and what the tenant allows */
};

static bool slot_is_free(const struct workspace *workspace, enum workspace_slot slot)
{
	return workspace->running[slot] < slot_limits[slot] &&
	       (slot != WORKSPACE_SLOT_COMMAND ||
		       workspace->running[slot] < workspace->tenant->limits.commands_per_workspace);
}

static void open_cell(struct workspace *workspace);

struct workspaces *workspaces_new(struct event_base *base, struct spawner_link *spawner,
	const char *const *own_directories, int managed_fd)
{
	struct workspaces *workspaces = calloc(1, sizeof(*workspaces));

	if (!workspaces)
		return NULL;
	workspaces->base = base;
	workspaces->spawner = spawner;
	workspaces->own_directories = own_directories;
	workspaces->managed_fd = managed_fd;
	LIST_INIT(&workspaces->list);
	return workspaces;
}

static void kill_cell(struct workspace *workspace)
{
	if (workspace->worker)
		peer_kill(workspace->worker);
	if (workspace->files)
		peer_kill(workspace->files);
}

/* Kills and forgets the cell's processes. Not from inside a peer's callback. */
static void drop_cell(struct workspace *workspace)
{
	if (workspace->cell)
		spawner_link_forget(workspace->all->spawner, workspace->cell);
	workspace->cell = 0;
	peer_free(TAKE_PTR(workspace->worker));
	peer_free(TAKE_PTR(workspace->files));
	workspace->worker_ready = workspace->files_ready = false;
	workspace->strays = 0;
	workspace->quarantined = false;
	workspace->state = WORKSPACE_CLOSED;
	if (workspace->deadline)
		event_del(workspace->deadline);
	free(TAKE_PTR(workspace->failure));
}

static void workspace_free(struct workspace *workspace)
{
	drop_cell(workspace);
	LIST_REMOVE(workspace, entry);
	workspace->all->count--;
	if (workspace->deadline)
		event_free(workspace->deadline);
	if (workspace->settle)
		event_free(workspace->settle);
	workspace_root_done(&workspace->root);
	workspace->tenant->usage->workspaces--;
	tenant_release(workspace->tenant);
	free(workspace->name);
	free(workspace);
}

void workspaces_free(struct workspaces *workspaces)
{
	struct workspace *workspace;

	if (!workspaces)
		return;
	/* First all are killed, then each is waited for: together they need no longer than one. */
	LIST_FOREACH (workspace, &workspaces->list, entry)
		kill_cell(workspace);
	LIST_FOREACH (workspace, &workspaces->list, entry) {
		peer_wait(workspace->worker, END_WAIT_MS);
		peer_wait(workspace->files, END_WAIT_MS);
	}
	while (!LIST_EMPTY(&workspaces->list))
		workspace_free(LIST_FIRST(&workspaces->list));
	free(workspaces);
}

size_t workspaces_count(const struct workspaces *workspaces)
{
	return workspaces->count;
}

static void lose_ticket(
	struct workspace *workspace, struct workspace_ticket *ticket, enum tool_error error)
{
	TAILQ_REMOVE(&workspace->tickets, ticket, entry);
	if (ticket->begun)
		workspace->running[ticket->slot]--;
	ticket->owner->lost(ticket->context, error, workspace->failure);
}

/* The cell is gone: begun tickets are lost with it; where it never came to be, all are. */
static void lose_tickets(struct workspace *workspace, bool all, enum tool_error error)
{
	struct workspace_ticket *ticket = TAILQ_FIRST(&workspace->tickets);

	while (ticket) {
		struct workspace_ticket *next = TAILQ_NEXT(ticket, entry);

		if (all || ticket->begun)
			lose_ticket(workspace, ticket, error);
		ticket = next;
	}
}

static void begin_tickets(struct workspace *workspace)
{
	struct workspace_ticket *ticket, *next;

	for (ticket = TAILQ_FIRST(&workspace->tickets); ticket; ticket = next) {
		next = TAILQ_NEXT(ticket, entry);
		if (workspace->state != WORKSPACE_OPEN)
			return;
		if (ticket->begun || !slot_is_free(workspace, ticket->slot))
			continue;
		ticket->begun = true;
		workspace->running[ticket->slot]++;
		ticket->owner->begin(ticket->context);
	}
}

/* Nothing is answered before nothing of the cell is alive: that is what an answer promises. */
static void begin_ending(struct workspace *workspace)
{
	static const struct timeval bound = {.tv_sec = LIMIT_KILL_REPORT_MS / 1000};

	workspace->had_opened = workspace->state == WORKSPACE_OPEN;
	workspace->state = WORKSPACE_ENDING;
	kill_cell(workspace);
	event_add(workspace->deadline, &bound);
}

static void finish_ending(struct workspace *workspace)
{
	bool give_up;

	if (workspace->users > 0 || !TAILQ_EMPTY(&workspace->tickets))
		workspace->swept = false;
	give_up = !workspace->had_opened || ++workspace->fruitless >= FRUITLESS_MAX;

	lose_tickets(workspace, give_up,
		workspace->had_opened ? TOOL_WORKER_LOST : TOOL_EXECUTION_ERROR);
	drop_cell(workspace);
}

/* What cannot be killed yet is not joined by more: whoever comes is told to come later. */
static void quarantine(struct workspace *workspace)
{
	if (!workspace->quarantined)
		lose_tickets(workspace, false, TOOL_WORKER_LOST);
	workspace->quarantined = true;
	free(workspace->failure);
	workspace->failure =
		strdup("The kernel still holds a process of this workspace that was killed; try "
		       "again later");
	lose_tickets(workspace, true, TOOL_BUSY);
}

/*
 * The loop comes here after anything that changed what this workspace should do: a failed cell is
 * ended, one that is needed is opened, waiting tickets begin, and a workspace that nobody uses
 * goes.
 */
static void on_settle(evutil_socket_t fd, short what, void *context)
{
	struct workspace *workspace = context;
	bool needed = workspace->users > 0 || !TAILQ_EMPTY(&workspace->tickets);

	(void)fd;
	(void)what;
	if (!needed && workspace->state != WORKSPACE_CLOSED && !workspace->failure)
		workspace->failure = strdup("");
	if (workspace->failure && workspace->state != WORKSPACE_ENDING)
		begin_ending(workspace);
	if (workspace->state == WORKSPACE_ENDING && peer_is_gone(workspace->worker) &&
		peer_is_gone(workspace->files))
		finish_ending(workspace);
	if (workspace->quarantined)
		quarantine(workspace);
	if (workspace->state == WORKSPACE_CLOSED && !TAILQ_EMPTY(&workspace->tickets))
		open_cell(workspace);
	begin_tickets(workspace);
	if (workspace->state == WORKSPACE_CLOSED && workspace->users == 0 &&
		TAILQ_EMPTY(&workspace->tickets))
		workspace_free(workspace);
}

static void settle(struct workspace *workspace)
{
	event_active(workspace->settle, EV_TIMEOUT, 0);
}

/* The cell must go, because of @format. The first reason counts. */
static void __attribute__((format(printf, 2, 3)))
fail_cell(struct workspace *workspace, const char *format, ...)
{
	va_list arguments;

	if (!workspace->failure) {
		workspace->all->lost += workspace->state == WORKSPACE_OPEN;
		va_start(arguments, format);
		if (vasprintf(&workspace->failure, format, arguments) < 0)
			workspace->failure = strdup("");
		va_end(arguments);
	}
	settle(workspace);
}

static void on_deadline(evutil_socket_t fd, short what, void *context)
{
	struct workspace *workspace = context;

	(void)fd;
	(void)what;
	if (workspace->state == WORKSPACE_ENDING)
		quarantine(workspace);
	else
		fail_cell(workspace, "The workspace did not open in time");
}

static struct workspace_ticket *find_begun(struct workspace *workspace, uint64_t call)
{
	struct workspace_ticket *ticket;

	TAILQ_FOREACH(ticket, &workspace->tickets, entry)
	if (ticket->call == call)
		return ticket->begun ? ticket : NULL;
	return NULL;
}

/* Once, and again after a cell that did not end by itself: what its writes may have left goes. */
static void sweep(struct workspace *workspace)
{
	if (!workspace->swept)
		peer_send(workspace->files, FILES_SWEEP, 0, (struct text){NULL, 0}, NULL, 0);
	workspace->swept = true;
}

/* The first word of either process: it is ready, or why it cannot be. */
static int handle_first(struct workspace *workspace, const struct channel_frame *frame, bool *ready,
	uint8_t ready_type, uint8_t failed_type)
{
	struct setup_failure failure;

	if (frame->type == ready_type && frame->payload.len == 0) {
		*ready = true;
		if (workspace->worker_ready && workspace->files_ready) {
			workspace->state = WORKSPACE_OPEN;
			event_del(workspace->deadline);
			sweep(workspace);
			settle(workspace);
		}
		return 0;
	}
	if (frame->type != failed_type || setup_failure_get(frame->payload, &failure) < 0)
		return -EBADMSG;
	fail_cell(workspace, "The workspace could not be opened: %.*s: %s", (int)failure.step.len,
		failure.step.data, strerror((int)failure.error));
	return 0;
}

static int handle_result(struct workspace *workspace, const struct channel_frame *frame,
	enum workspace_slot from, enum workspace_slot to)
{
	struct workspace_ticket *ticket = find_begun(workspace, frame->call);

	if (!ticket) /* answered in the meantime, but nobody has so much to say about that */
		return ++workspace->strays > LIMIT_STRAY_FRAMES ? -EBADMSG : 0;
	/* A worker has nothing to say about a file call, nor the files process about a command. */
	if (ticket->slot < from || ticket->slot > to)
		return -EBADMSG;
	workspace->fruitless = workspace->strays = 0;
	return ticket->owner->frame(ticket->context, frame);
}

static int on_worker_frame(void *context, const struct channel_frame *frame)
{
	struct workspace *workspace = context;

	if (!workspace->worker_ready)
		return handle_first(
			workspace, frame, &workspace->worker_ready, COMMAND_READY, COMMAND_FAILED);
	if (frame->type != COMMAND_ENDED)
		return -EBADMSG;
	return handle_result(workspace, frame, WORKSPACE_SLOT_COMMAND, WORKSPACE_SLOT_COMMAND);
}

static int on_files_frame(void *context, const struct channel_frame *frame)
{
	struct workspace *workspace = context;

	if (!workspace->files_ready)
		return handle_first(
			workspace, frame, &workspace->files_ready, FILES_READY, FILES_FAILED);
	if (frame->type < FILES_DATA || frame->type > FILES_END)
		return -EBADMSG;
	return handle_result(workspace, frame, WORKSPACE_SLOT_SHORT, WORKSPACE_SLOT_JOB);
}

static void on_peer_lost(void *context)
{
	fail_cell(context, "The workspace's process died");
}

static void on_peer_gone(void *context)
{
	settle(context);
}

static void on_cell_answer(
	void *context, int error, struct text step, int pidfds[SPAWNER_OPENED_FDS])
{
	/* From here on: how many others the spawner had to serve before is not this workspace's
	 * fault. */
	static const struct timeval deadline = {.tv_sec = LIMIT_WORKSPACE_OPEN_MS / 1000};
	struct workspace *workspace = context;

	workspace->cell = 0;
	event_add(workspace->deadline, &deadline);
	if (error < 0) {
		fail_cell(workspace, "The workspace could not be opened: %.*s: %s", (int)step.len,
			step.data, strerror(-error));
		return;
	}
	/* Both take their pidfd, whatever becomes of the other. */
	error = peer_started(workspace->worker, pidfds[SPAWNER_OPENED_WORKER]);
	if (peer_started(workspace->files, pidfds[SPAWNER_OPENED_FILES]) < 0 || error < 0)
		fail_cell(workspace, "Out of memory");
}

static int make_peers(struct workspace *workspace, int fds[SPAWNER_OPEN_FDS])
{
	struct peer_owner worker = {on_worker_frame, on_peer_lost, on_peer_gone, workspace};
	struct peer_owner files = {on_files_frame, on_peer_lost, on_peer_gone, workspace};
	int r = peer_new(
		workspace->all->base, &worker, &workspace->worker, &fds[SPAWNER_OPEN_WORKER_DOWN]);

	if (r == 0)
		r = peer_new(workspace->all->base, &files, &workspace->files,
			&fds[SPAWNER_OPEN_FILES_DOWN]);
	return r;
}

static void open_cell(struct workspace *workspace)
{
	const struct spawner_open request = {.kind = (uint8_t)workspace->kind,
		.limits = cgroup_workspace_limits(&workspace->tenant->limits)};
	int fds[SPAWNER_OPEN_FDS] = {-1, -1, -1, -1, -1};
	int r;

	workspace->state = WORKSPACE_OPENING;
	fds[SPAWNER_OPEN_ROOT] = fcntl(workspace->root.fd, F_DUPFD_CLOEXEC, 0);
	r = fds[SPAWNER_OPEN_ROOT] < 0 ? -errno : make_peers(workspace, fds);
	if (r == 0) {
		r = spawner_link_open(workspace->all->spawner, &request, fds, on_cell_answer,
			workspace, &workspace->cell);
	} else {
		for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
			close_fd(&fds[i]);
	}
	if (r < 0)
		fail_cell(workspace, "The workspace could not be opened: %s", strerror(-r));
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
	TAILQ_INIT(&workspace->tickets);
	workspace->deadline = event_new(workspaces->base, -1, 0, on_deadline, workspace);
	workspace->settle = event_new(workspaces->base, -1, 0, on_settle, workspace);
	LIST_INSERT_HEAD(&workspaces->list, workspace, entry);
	workspaces->count++;
	if (!workspace->name || !workspace->deadline || !workspace->settle) {
		workspace_free(workspace);
		return TOOL_BUSY;
	}
	*ret = workspace_hold(workspace);
	return TOOL_OK;
}

enum tool_error workspaces_get_directory(struct workspaces *workspaces, struct tenant *tenant,
	struct text root_path, enum workspace_kind kind, struct workspace **ret, char **ret_message)
{
	struct workspace_root root = {.fd = -1};
	enum tool_error error = workspace_root_open(
		root_path, kind, workspaces->own_directories, &root, ret_message);

	if (error == TOOL_OK && !tenant_allows_root(tenant, root.fd))
		error = TOOL_FORBIDDEN;
	/* Nor is it told what there is that is not its own. */
	if (error != TOOL_OK && error != TOOL_INVALID_ARGUMENTS && !tenant->any_root) {
		error = TOOL_FORBIDDEN;
		free(*ret_message);
		*ret_message = strdup(
			"The directory is not there, or not among those that this tenant may open");
	}
	if (error != TOOL_OK) {
		workspace_root_done(&root);
		return error;
	}
	/* The same thing by another name: a directory workspace at / is a whole root. */
	if (strcmp(root.path, "/") == 0)
		kind = WORKSPACE_ROOTFS;
	return get(workspaces, tenant, &root, kind, root.path, ret);
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
	if (name_string)
		return get(workspaces, tenant, &root, WORKSPACE_MANAGED, name_string, ret);
	workspace_root_done(&root);
	return TOOL_BUSY;
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
	workspace->removing = removing;
}

int workspace_remove_directory(const struct workspace *workspace)
{
	return managed_remove(workspace->all->managed_fd, workspace->tenant, workspace->name);
}

void workspaces_reload(struct workspaces *workspaces, const struct config *config)
{
	struct workspace *workspace;

	LIST_FOREACH (workspace, &workspaces->list, entry) {
		struct tenant *tenant = config_find_tenant(config, workspace->tenant->name);

		if (!tenant)
			continue;
		workspace->tenant->usage->workspaces--;
		tenant_release(workspace->tenant);
		workspace->tenant = tenant_hold(tenant);
		tenant->usage->workspaces++;
		settle(workspace);
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
	return tenant_allows_root(workspace->tenant, workspace->root.fd);
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
	settle(workspace);
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
	return workspace->state == WORKSPACE_OPEN && !workspace->failure;
}

void workspace_enter(struct workspace *workspace, struct workspace_ticket *ticket)
{
	ticket->begun = false;
	TAILQ_INSERT_TAIL(&workspace->tickets, ticket, entry);
	settle(workspace);
}

void workspace_leave(struct workspace *workspace, struct workspace_ticket *ticket)
{
	TAILQ_REMOVE(&workspace->tickets, ticket, entry);
	if (ticket->begun)
		workspace->running[ticket->slot]--;
	settle(workspace);
}

void workspace_send_files(
	struct workspace *workspace, uint8_t type, uint64_t call, struct text payload)
{
	peer_send(workspace->files, type, call, payload, NULL, 0);
}

void workspace_send_worker(struct workspace *workspace, uint8_t type, uint64_t call,
	struct text payload, const int *fds, unsigned n_fds)
{
	peer_send(workspace->worker, type, call, payload, fds, n_fds);
}

void workspace_abandon(struct workspace *workspace)
{
	kill_cell(workspace);
	fail_cell(workspace, "The workspace's process did not answer and was killed");
}

const char *const workspace_states[WORKSPACE_STATES] = {
	[WORKSPACE_CLOSED] = "closed",
	[WORKSPACE_OPENING] = "opening",
	[WORKSPACE_OPEN] = "open",
	[WORKSPACE_ENDING] = "ending",
	[WORKSPACE_STATES - 1] = "quarantined",
};

void workspaces_look(struct workspaces *workspaces,
	void (*each)(void *context, struct workspace *workspace), void *context)
{
	struct workspace *workspace;

	LIST_FOREACH (workspace, &workspaces->list, entry)
		each(context, workspace);
}

void workspace_look(const struct workspace *workspace, struct workspace_view *ret)
{
	const struct workspace_ticket *ticket;
	struct workspace_view view = {
		.state = workspace_states[workspace->quarantined ? WORKSPACE_STATES - 1
								 : workspace->state],
		.users = workspace->users,
		.commands = workspace->running[WORKSPACE_SLOT_COMMAND],
	};

	TAILQ_FOREACH(ticket, &workspace->tickets, entry)
	{
		view.running += ticket->begun;
		view.waiting += !ticket->begun;
	}
	*ret = view;
}

uint64_t workspaces_lost(const struct workspaces *workspaces)
{
	return workspaces->lost;
}
