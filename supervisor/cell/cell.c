// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The processes are hostile, the spawner is not. A process link's callback
 * (cell_process.c) only records what happened; on_settle(), called by the loop, looks at the record
 * and acts by the table.
 */
#include "supervisor/cell/cell_state.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire/wire_files.h"
#include "supervisor/base/clock.h"
#include "supervisor/cell/cell_process.h"
#include "supervisor/cell/cell_trouble.h"
#include "supervisor/cell/copy_bounds.h"
#include "supervisor/cell/process_link.h"
#include "supervisor/cell/spare_cells.h"
#include "supervisor/cell/spawner_ask.h"
#include "supervisor/host/id_range.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define MAX_CONSECUTIVE_CRASHES 3

void cell_settle(struct cell *cell)
{
	loop_turn_defer(&cell->settle);
}

static void set_deadline(struct cell *cell, unsigned milliseconds)
{
	cell->overdue = false;
	timer_set(&cell->deadline, milliseconds);
}

static void enter_cell_state(struct cell *cell, enum state state)
{
	cell->state = state;
	cell->overdue = false;
	timer_cancel(&cell->deadline);
}

static void forget_request(struct cell *cell)
{
	if (cell->asked)
		spawner_link_forget(cell->spawner, cell->asked);
	cell->asked = 0;
}

static void drop_spawner_request(struct cell *cell, uint64_t *number)
{
	if (*number > 0)
		spawner_link_let_go(cell->spawner, *number);
	*number = 0;
}

static void on_cell_opened(void *context, int error, struct text step, int fds[SPAWNER_OPENED_MOST])
{
	struct cell *cell = context;

	cell->asked = 0;
	/* The deadline counts from here, because the spawner may have had to serve others first. */
	set_deadline(cell, LIMIT_WORKSPACE_OPEN_MS);
	cell->not_made = error == -SPAWNER_REFUSAL      ? CELL_REFUSED
			 : error == -ETIMEDOUT          ? CELL_SILENT
			 : error == -SPAWNER_NOT_NOW    ? CELL_NOT_NOW
			 : error == -SPAWNER_NOT_LOADED ? CELL_NOT_NOW
							: cell_loss_of(-error, CELL_NOT_MADE);
	cell->host_is_short = cell_loss_of(-error, CELL_NOT_MADE) == CELL_NOT_NOW;
	if (error == -ESRCH && cell->was_ahead)
		cell->died_ahead = true;
	/* The private tmpfs is taken, or was not what hindered the cell; that is not told. */
	else if (cell->state == STATE_OPENING)
		drop_spawner_request(cell, &cell->kept);
	if (cell->not_made == CELL_REFUSED)
		cell_process_fail(cell_worker(cell),
			"The spawner refused to open the workspace: %.*s", (int)step.len,
			step.data);
	else if (error == -SPAWNER_NOT_NOW)
		/* The worker and its commands go on without a files process. */
		cell_process_fail(
			cell->state == STATE_OPENING ? cell_worker(cell) : cell_files(cell),
			"The workspace cannot be opened now: %.*s", (int)step.len, step.data);
	else if (cell->not_made == CELL_SILENT)
		cell_process_fail(
			cell->state == STATE_OPENING ? cell_worker(cell) : cell_files(cell),
			"The workspace's file system does not answer; try again when it does");
	else if (error < 0)
		/* If both fail, the worker's reason counts, because its death causes the other. */
		cell_process_fail(
			cell->state == STATE_OPENING ? cell_worker(cell) : cell_files(cell),
			"The workspace could not be opened: %.*s: %s", (int)step.len, step.data,
			strerror(-error));
	/* Each takes its pidfd, whatever becomes of the other. */
	for (int i = 0; error >= 0 && i < CELL_PROCESSES; i++) {
		struct process *process = &cell->processes[i];

		if (fds[i] >= 0 && process_link_started(process->link, fds[i]) < 0)
			cell_process_fail(process, "Out of memory");
	}
	if (fds[SPAWNER_OPENED_SOCKETS + CELL_SOCKET_PROXY] >= 0 ||
		fds[SPAWNER_OPENED_SOCKETS + CELL_SOCKET_PORTS] >= 0)
		cell->owner->network(cell->context, &fds[SPAWNER_OPENED_SOCKETS]);
	for (int i = 0; i < CELL_PROCESSES; i++)
		cell_process_check_lost(&cell->processes[i]);
	cell_settle(cell);
}

/* The actions of the table below. */

/* A spare cell becomes this workspace's. */
static int assign_spare(struct cell *cell, const struct spawner_open *request, int root,
	struct process_link *links[SPAWNER_OPENED_FDS])
{
	int fds[SPAWNER_ASSIGN_FDS];

	cell_process_adopt(cell_worker(cell), links[SPAWNER_OPENED_WORKER]);
	cell_process_adopt(cell_files(cell), links[SPAWNER_OPENED_FILES]);
	fds[SPAWNER_ASSIGN_ROOT] = fcntl(root, F_DUPFD_CLOEXEC, 0);
	fds[SPAWNER_ASSIGN_WORKER] =
		fcntl(process_link_pidfd(cell_worker(cell)->link), F_DUPFD_CLOEXEC, 0);
	if (fds[SPAWNER_ASSIGN_ROOT] >= 0 && fds[SPAWNER_ASSIGN_WORKER] >= 0)
		return spawner_link_open(cell->spawner, SPAWNER_ASSIGN, request, fds,
			on_cell_opened, cell, &cell->asked);
	close_fd(&fds[SPAWNER_ASSIGN_ROOT]);
	close_fd(&fds[SPAWNER_ASSIGN_WORKER]);
	return -EMFILE;
}

static int make_both(struct cell *cell, const struct spawner_open *request, int root)
{
	int fds[SPAWNER_OPEN_FDS] = {-1, -1, -1, -1, -1};
	int r;

	fds[SPAWNER_OPEN_ROOT] = fcntl(root, F_DUPFD_CLOEXEC, 0);
	r = fds[SPAWNER_OPEN_ROOT] < 0 ? -errno : 0;
	if (r == 0)
		r = cell_process_make(cell_worker(cell), &fds[SPAWNER_OPEN_WORKER_DOWN]);
	if (r == 0)
		r = cell_process_make(cell_files(cell), &fds[SPAWNER_OPEN_FILES_DOWN]);
	if (r == 0) {
		r = spawner_link_open(cell->spawner, SPAWNER_OPEN, request, fds, on_cell_opened,
			cell, &cell->asked);
		cell->group = cell->asked;
		return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close_fd(&fds[i]);
	return r;
}

static void ask_for_cell(struct cell *cell)
{
	struct process_link *links[SPAWNER_OPENED_FDS];
	struct spawner_open request;
	int r, root;

	cell->owner->describe(cell->context, &request, &root);
	request.kept = cell->kept;
	/* A spare has no user namespace for it. */
	cell->was_ahead = !request.root_inside && cell->wasted < CELL_SPARE_TRIES &&
			  spare_cells_take(cell->spares, &request, &cell->group, links);
	if (cell->was_ahead)
		r = assign_spare(cell, &request, root, links);
	else
		r = make_both(cell, &request, root);
	if (r < 0)
		cell_process_fail(
			cell_worker(cell), "The workspace could not be opened: %s", strerror(-r));
}

static void on_loaded(void *context, int error, struct text step)
{
	struct cell *cell = context;
	char why[LIMIT_TEMPLATE_WHY_BYTES];

	cell->asked = 0;
	if (error == 0) {
		ask_for_cell(cell);
		return;
	}
	cell->not_made = CELL_NOT_NOW;
	template_load_why(error, step, why, sizeof(why));
	cell_process_fail(cell_worker(cell),
		"The workspace is a fork, and its template is not in memory, because %s: try again "
		"later, or have the administrator raise template_memory",
		why);
	cell_settle(cell);
}

static void open_both(struct cell *cell)
{
	const char *refused = cell->owner->refuses(cell->context);
	struct spawner_open request;
	int r, root;

	if (refused) {
		cell->owner->lost(cell->context, CELL_NOT_NOW, refused);
		return;
	}
	enter_cell_state(cell, STATE_OPENING); /* spawner_link.c bounds how long the answer takes */
	cell->failed = cell->idle = cell->died_ahead = cell->not_set_up = false;
	cell->host_is_short = false;
	cell->not_made = CELL_NOT_MADE;
	cell->owner->describe(cell->context, &request, &root);
	/* In system mode a template is shown from memory. */
	if (!request.layers.template[0] || !id_range()) {
		ask_for_cell(cell);
		return;
	}
	r = spawner_link_load(cell->spawner, request.tenant, request.layers.template, on_loaded,
		cell, &cell->asked);
	if (r < 0)
		on_loaded(cell, r, TEXT_LITERAL("load its template"));
}

static void be_open(struct cell *cell)
{
	enter_cell_state(cell, STATE_OPEN);
	cell->idle = false;
	cell->wasted = 0;
	cell->opened = clock_now();
	if (!cell->swept)
		cell->owner->sweep(cell->context);
	cell->swept = true;
	/* It was asked for meanwhile, and the event comes before this one. */
	if (cell->replaced)
		cell_settle(cell);
}

static void count_unmade(struct cell *cell)
{
	struct cell_counts *counts = cell->counts;

	counts->unmade++;
	counts->unmade_at = clock_now();
	snprintf(counts->unmade_why, sizeof(counts->unmade_why), "%s", cell_why(cell));
	cell_trouble_tell(cell, "it was not opened", cell_why(cell));
}

/*
 * Whether the opening failed though nothing is wrong with the workspace or its tenant's share, and
 * it may be the host that has no room.
 */
static bool is_unmade(const struct cell *cell)
{
	return cell->not_set_up ||
	       (!cell->had_opened && (cell->not_made == CELL_NOT_MADE || cell->host_is_short));
}

/*
 * No call is answered while a process of the cell is alive: an answer promises that nothing runs
 * any more.
 */
static void end_both(struct cell *cell)
{
	cell->failed = cell_why(cell) != NULL;
	cell->had_opened = cell->state != STATE_OPENING;
	cell->counts->lost += cell->failed && cell->had_opened;
	if (cell->failed && !cell->died_ahead && is_unmade(cell))
		count_unmade(cell);
	cell->counts->idle_ended += cell->idle && !cell->failed;
	/* What a checkpoint or a rollback exchanges begins anew. */
	cell->rests = cell->idle && !cell->failed && !cell->replaced && cell->had_opened &&
		      cell->owner->need(cell->context) == CELL_KEPT;
	/* a process that is being started is killed when the spawner names it */
	forget_request(cell);
	cell->owner->network(cell->context, NULL);
	enter_cell_state(cell, STATE_ENDING);
	cell_ending_begin(&cell->ending, cell->failed || !cell->had_opened);
}

/* It is the cell's turn to end. */
static void kill_both(void *context)
{
	struct cell *cell = context;

	cell_kill(cell);
	set_deadline(cell, LIMIT_KILL_REPORT_MS);
}

/*
 * Returns how long to wait before the cell is made again: 0 after the first death, then longer and
 * longer.
 */
static unsigned rest_after_loss(struct cell *cell)
{
	unsigned rest = CELL_REST_MIN_MS;

	if (clock_now() - cell->opened >= CELL_HEALTHY_MS * CLOCK_NS_PER_MS)
		cell->losses = 0;
	if (cell->losses++ == 0)
		return 0;
	for (unsigned i = 2; i < cell->losses && rest < CELL_REST_MAX_MS; i++)
		rest *= 2;
	return rest < CELL_REST_MAX_MS ? rest : CELL_REST_MAX_MS;
}

static void close_both(struct cell *cell)
{
	unsigned rest = 0;

	cell_ending_done(&cell->ending);
	forget_request(cell);
	if (cell->state == STATE_QUARANTINED)
		cell_trouble_tell(
			cell, "its processes, which did not end, have ended now", cell_why(cell));
	else if (cell->failed && cell->had_opened)
		cell_trouble_tell(cell, "its processes have ended", cell_why(cell));
	if (cell->failed && cell->had_opened) {
		bool give_up = ++cell->consecutive_crashes >= MAX_CONSECUTIVE_CRASHES;

		cell->swept = false;
		cell->owner->lost(
			cell->context, give_up ? CELL_GIVEN_UP : CELL_LOST, cell_why(cell));
		rest = rest_after_loss(cell);
		/* another spare is taken, or a new cell is made */
	} else if (cell->failed && cell->died_ahead) {
		cell->wasted++;
		spare_cells_died(cell->spares);
	} else if (cell->failed) {
		cell->wasted = 0;
		cell->owner->lost(cell->context, cell->not_made, cell_why(cell));
	}
	cell_process_drop(cell_worker(cell));
	cell_process_drop(cell_files(cell));
	if (cell->rests)
		cell->kept = cell->group;
	else
		drop_spawner_request(cell, &cell->group);
	cell->group = 0;
	enter_cell_state(cell, rest > 0 ? STATE_RESTING : STATE_CLOSED);
	if (rest > 0)
		set_deadline(cell, rest);
}

static void have_rested(struct cell *cell)
{
	enter_cell_state(cell, STATE_CLOSED);
}

/*
 * While the kernel holds a killed process, no new one is started: new calls are told to come later.
 */
static void refuse_cell_calls(struct cell *cell)
{
	cell->owner->lost(cell->context,
		cell->state == STATE_QUARANTINED ? CELL_HELD : CELL_FILES_HELD,
		"A process of this workspace was killed but has not ended yet; try again later");
}

static void quarantine(struct cell *cell)
{
	cell_ending_done(&cell->ending);
	cell_trouble_tell_where(
		cell, "its processes were killed and have not ended", cell_why(cell));
	cell->owner->lost(cell->context, CELL_LOST, cell_why(cell));
	enter_cell_state(cell, STATE_QUARANTINED);
	refuse_cell_calls(cell);
}

/* The worker and its commands go on: a new files process can join the worker's namespaces. */
static void end_files(struct cell *cell)
{
	cell->counts->files_lost += cell->not_made != CELL_NOT_NOW;
	forget_request(cell);
	enter_cell_state(cell, STATE_FILES_ENDING);
	if (cell_files(cell)->link)
		process_link_kill(cell_files(cell)->link);
	set_deadline(cell, LIMIT_KILL_REPORT_MS);
}

static void hold_files(struct cell *cell)
{
	cell_trouble_tell_where(
		cell, "its files process was killed and has not ended", cell_why(cell));
	cell->owner->lost(cell->context, CELL_FILES_LOST, cell_why(cell));
	enter_cell_state(cell, STATE_FILES_HELD);
	refuse_cell_calls(cell);
}

/*
 * The spawner has no room to start one now. That is nobody's death: calls are told to come later,
 * and it is asked again after a rest.
 */
static void put_off_files(struct cell *cell)
{
	cell->owner->lost(cell->context, CELL_FILES_HELD, cell_why(cell));
	cell_process_drop(cell_files(cell));
	enter_cell_state(cell, STATE_FILES_RESTING);
	set_deadline(cell, CELL_REST_MAX_MS);
}

static void rest_files(struct cell *cell)
{
	unsigned rest;

	if (cell->not_made == CELL_NOT_NOW) {
		put_off_files(cell);
		return;
	}
	cell_trouble_tell(cell,
		cell->state == STATE_FILES_HELD
			? "its files process, which did not end, has ended now"
			: "its files process has ended",
		cell_why(cell));
	cell->owner->lost(cell->context, CELL_FILES_LOST, cell_why(cell));
	cell->swept = false;
	rest = rest_after_loss(cell);
	cell_process_drop(cell_files(cell));
	enter_cell_state(cell, STATE_FILES_RESTING);
	set_deadline(cell, rest);
	if (++cell->consecutive_crashes >= MAX_CONSECUTIVE_CRASHES)
		cell_process_fail(cell_worker(cell),
			"The workspace's files process died several times in a row");
}

static void open_files(struct cell *cell)
{
	int fds[SPAWNER_OPEN_FILES_FDS] = {-1, -1, -1, -1};
	struct spawner_open request;
	int r, root;

	enter_cell_state(cell, STATE_FILES_OPENING);
	cell->not_made = CELL_NOT_MADE;
	cell->owner->describe(cell->context, &request, &root);
	fds[SPAWNER_OPEN_FILES_ROOT] = fcntl(root, F_DUPFD_CLOEXEC, 0);
	fds[SPAWNER_OPEN_FILES_WORKER] =
		fcntl(process_link_pidfd(cell_worker(cell)->link), F_DUPFD_CLOEXEC, 0);
	r = fds[SPAWNER_OPEN_FILES_ROOT] < 0 || fds[SPAWNER_OPEN_FILES_WORKER] < 0 ? -errno : 0;
	if (r == 0)
		r = cell_process_make(cell_files(cell), &fds[SPAWNER_OPEN_FILES_DOWN_AGAIN]);
	if (r == 0) {
		r = spawner_link_open(cell->spawner, SPAWNER_OPEN_FILES, &request, fds,
			on_cell_opened, cell, &cell->asked);
	} else {
		for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
			close_fd(&fds[i]);
	}
	if (r < 0)
		cell_process_fail(cell_files(cell), "The files process could not be started: %s",
			strerror(-r));
}

void cell_stay(struct cell *cell)
{
	(void)cell;
}

void cell_impossible(struct cell *cell)
{
	(void)cell;
	assert(!"an event that cannot hold in this state of a cell");
}

/* clang-format off */
const cell_act cell_acts[STATES][EVENTS] = {
	[STATE_CLOSED] = {
		[EVENT_FAILED] = cell_impossible, [EVENT_FILES_FAILED] = cell_impossible,
		[EVENT_UNUSED] = cell_stay, [EVENT_IDLE] = cell_stay,
		[EVENT_READY] = cell_impossible, [EVENT_GONE] = cell_stay,
		[EVENT_OVERDUE] = cell_impossible, [EVENT_CALLED] = open_both},
	[STATE_RESTING] = {
		[EVENT_FAILED] = cell_impossible, [EVENT_FILES_FAILED] = cell_impossible,
		[EVENT_UNUSED] = have_rested, [EVENT_IDLE] = cell_stay,
		[EVENT_READY] = cell_impossible, [EVENT_GONE] = cell_stay,
		[EVENT_OVERDUE] = have_rested, [EVENT_CALLED] = cell_stay},
	[STATE_OPENING] = {
		[EVENT_FAILED] = end_both, [EVENT_FILES_FAILED] = end_both,
		[EVENT_UNUSED] = end_both, [EVENT_IDLE] = cell_stay,
		[EVENT_READY] = be_open, [EVENT_GONE] = cell_stay,
		[EVENT_OVERDUE] = cell_impossible, [EVENT_CALLED] = cell_stay},
	[STATE_OPEN] = {
		[EVENT_FAILED] = end_both, [EVENT_FILES_FAILED] = end_files,
		[EVENT_UNUSED] = end_both, [EVENT_IDLE] = end_both,
		[EVENT_READY] = cell_stay, [EVENT_GONE] = cell_stay,
		[EVENT_OVERDUE] = cell_impossible, [EVENT_CALLED] = cell_stay},
	[STATE_FILES_ENDING] = {
		[EVENT_FAILED] = end_both, [EVENT_FILES_FAILED] = cell_stay,
		[EVENT_UNUSED] = end_both, [EVENT_IDLE] = cell_stay,
		[EVENT_READY] = cell_stay, [EVENT_GONE] = rest_files,
		[EVENT_OVERDUE] = hold_files, [EVENT_CALLED] = cell_stay},
	[STATE_FILES_HELD] = {
		[EVENT_FAILED] = end_both, [EVENT_FILES_FAILED] = cell_stay,
		[EVENT_UNUSED] = end_both, [EVENT_IDLE] = cell_stay,
		[EVENT_READY] = cell_stay, [EVENT_GONE] = rest_files,
		[EVENT_OVERDUE] = cell_impossible, [EVENT_CALLED] = refuse_cell_calls},
	[STATE_FILES_RESTING] = {
		[EVENT_FAILED] = end_both, [EVENT_FILES_FAILED] = cell_impossible,
		[EVENT_UNUSED] = end_both, [EVENT_IDLE] = cell_stay,
		[EVENT_READY] = cell_impossible, [EVENT_GONE] = cell_stay,
		[EVENT_OVERDUE] = open_files, [EVENT_CALLED] = cell_stay},
	[STATE_FILES_OPENING] = {
		[EVENT_FAILED] = end_both, [EVENT_FILES_FAILED] = end_files,
		[EVENT_UNUSED] = end_both, [EVENT_IDLE] = cell_stay,
		[EVENT_READY] = be_open, [EVENT_GONE] = cell_stay,
		[EVENT_OVERDUE] = cell_impossible, [EVENT_CALLED] = cell_stay},
	[STATE_ENDING] = {
		[EVENT_FAILED] = cell_stay, [EVENT_FILES_FAILED] = cell_stay,
		[EVENT_UNUSED] = cell_stay, [EVENT_IDLE] = cell_stay,
		[EVENT_READY] = cell_stay, [EVENT_GONE] = close_both,
		[EVENT_OVERDUE] = quarantine, [EVENT_CALLED] = cell_stay},
	[STATE_QUARANTINED] = {
		[EVENT_FAILED] = cell_stay, [EVENT_FILES_FAILED] = cell_stay,
		[EVENT_UNUSED] = cell_stay, [EVENT_IDLE] = cell_stay,
		[EVENT_READY] = cell_stay, [EVENT_GONE] = close_both,
		[EVENT_OVERDUE] = cell_impossible, [EVENT_CALLED] = refuse_cell_calls},
};
/* clang-format on */

/* Whether the condition of @event holds now. */
static bool holds(struct cell *cell, enum cell_event event)
{
	bool ending = cell->state == STATE_ENDING || cell->state == STATE_QUARANTINED;

	switch (event) {
	case EVENT_FAILED:
		return cell_worker(cell)->failure;
	case EVENT_FILES_FAILED:
		return cell_files(cell)->failure;
	case EVENT_UNUSED:
		return cell->owner->need(cell->context) == CELL_UNUSED;
	case EVENT_IDLE:
		return (cell->idle || cell->replaced) &&
		       cell->owner->need(cell->context) == CELL_KEPT;
	case EVENT_READY:
		/* Both may be ready before the spawner's answer, which has the sockets of the
		 * cell's network: a command that began without them would have no network. */
		return cell_worker(cell)->ready && cell_files(cell)->ready && !cell->asked;
	case EVENT_GONE:
		return process_link_is_gone(cell_files(cell)->link) &&
		       (!ending || process_link_is_gone(cell_worker(cell)->link));
	case EVENT_OVERDUE:
		return cell->overdue;
	default:
		return cell->owner->need(cell->context) == CELL_CALLED;
	}
}

/* Events are checked in their order, because an action may cause the next one. */
static void on_settle(void *context)
{
	struct cell *cell = context;

	for (enum cell_event event = 0; event < EVENTS; event++) {
		cell_act act = cell_acts[cell->state][event];

		if (act != cell_stay && holds(cell, event))
			act(cell);
	}
	/* It is used again before it could end. */
	if (cell->idle && holds(cell, EVENT_CALLED))
		cell->idle = false;
	cell->owner->settled(cell->context);
}

static void on_cell_deadline(void *context)
{
	struct cell *cell = context;

	if (cell->state == STATE_OPENING || cell->state == STATE_FILES_OPENING)
		cell_process_fail(cell_files(cell), "The workspace did not open in time");
	cell->overdue = true;
	cell_settle(cell);
}

struct cell *cell_new(struct event_base *base, struct spawner_link *spawner,
	struct spare_cells *spares, const struct cell_owner *owner, void *context,
	struct cell_counts *counts)
{
	struct cell *cell = calloc(1, sizeof(*cell));

	if (!cell)
		return NULL;
	cell->base = base;
	cell->spawner = spawner;
	cell->spares = spares;
	cell->owner = owner;
	cell->context = context;
	cell->counts = counts;
	for (int i = 0; i < CELL_PROCESSES; i++)
		cell->processes[i] = (struct process){.cell = cell, .which = (enum cell_process)i};
	timer_init(&cell->deadline, on_cell_deadline, cell);
	cell->settle = (struct loop_turn_task){.act = on_settle, .context = cell};
	cell->ending = (struct cell_ending){.kill = kill_both, .context = cell};
	return cell;
}

void cell_free(struct cell *cell)
{
	if (!cell)
		return;
	forget_request(cell);
	drop_spawner_request(cell, &cell->kept);
	cell_process_drop(cell_worker(cell));
	cell_process_drop(cell_files(cell));
	timer_cancel(&cell->deadline);
	loop_turn_cancel(&cell->settle);
	cell_ending_done(&cell->ending);
	cell_trouble_done(cell);
	free(cell);
}

uint64_t cell_disk_limit(const struct cell *cell)
{
	return cell->disk_limit;
}

uint64_t cell_group(const struct cell *cell)
{
	return cell->state >= STATE_OPEN && cell->state <= STATE_FILES_OPENING ? cell->group : 0;
}

int cell_worker_pidfd(const struct cell *cell)
{
	return process_link_pidfd(cell->processes[CELL_WORKER].link);
}

bool cell_serves(const struct cell *cell, enum cell_process process)
{
	const struct process *wanted = &cell->processes[process];

	if (cell->processes[CELL_WORKER].failure || wanted->failure || !wanted->ready)
		return false;
	return cell->state == STATE_OPEN ||
	       (process == CELL_WORKER && cell->state >= STATE_FILES_ENDING &&
		       cell->state <= STATE_FILES_OPENING);
}

void cell_reset_crash_count(struct cell *cell)
{
	cell->consecutive_crashes = 0;
}

void cell_send(struct cell *cell, enum cell_process process, uint8_t type, uint64_t call,
	struct text payload, const int *fds, unsigned n_fds)
{
	struct process_link *link = cell->processes[process].link;

	if (link) {
		process_link_send(link, type, call, payload, fds, n_fds);
		return;
	}
	/* A cancel for a process that is already lost. */
	for (unsigned i = 0; i < n_fds; i++)
		close(fds[i]);
}

uint64_t cell_said(const struct cell *cell, enum cell_process process)
{
	struct process_link *link = cell->processes[process].link;

	return link ? process_link_said(link) : 0;
}

bool cell_has_heard(struct cell *cell, enum cell_process process, uint64_t said)
{
	struct process_link *link = cell->processes[process].link;

	return !link || process_link_has_heard(link, said);
}

void cell_abandon(struct cell *cell, enum cell_process process, const char *why)
{
	struct process *abandoned = &cell->processes[process];

	if (abandoned->link)
		process_link_kill(abandoned->link);
	cell_process_fail(abandoned, "%s", why);
}

void cell_rest(struct cell *cell)
{
	cell->idle = true;
	cell_settle(cell);
}

void cell_replace(struct cell *cell, bool replace)
{
	cell->replaced = replace;
	cell_settle(cell);
}

bool cell_is_held(const struct cell *cell)
{
	return cell->state == STATE_QUARANTINED || cell->state == STATE_FILES_HELD;
}

enum cell_status cell_status(const struct cell *cell)
{
	static const enum cell_status status[STATES] = {
		[STATE_CLOSED] = CELL_STATUS_CLOSED,
		[STATE_RESTING] = CELL_STATUS_RESTING,
		[STATE_OPENING] = CELL_STATUS_OPENING,
		[STATE_OPEN] = CELL_STATUS_OPEN,
		[STATE_FILES_ENDING] = CELL_STATUS_MENDING,
		[STATE_FILES_HELD] = CELL_STATUS_MENDING,
		[STATE_FILES_RESTING] = CELL_STATUS_MENDING,
		[STATE_FILES_OPENING] = CELL_STATUS_MENDING,
		[STATE_ENDING] = CELL_STATUS_ENDING,
		[STATE_QUARANTINED] = CELL_STATUS_QUARANTINED,
	};

	return status[cell->state];
}

const char *cell_status_name(enum cell_status status)
{
	static const char *const names[CELL_STATUSES] = {
		[CELL_STATUS_CLOSED] = "closed",
		[CELL_STATUS_RESTING] = "resting",
		[CELL_STATUS_OPENING] = "opening",
		[CELL_STATUS_OPEN] = "open",
		[CELL_STATUS_MENDING] = "mending",
		[CELL_STATUS_ENDING] = "ending",
		[CELL_STATUS_QUARANTINED] = "quarantined",
	};

	return names[status];
}

void cell_kill(struct cell *cell)
{
	for (int i = 0; i < CELL_PROCESSES; i++)
		if (cell->processes[i].link)
			process_link_kill(cell->processes[i].link);
}

void cell_wait(struct cell *cell, int milliseconds)
{
	for (int i = 0; i < CELL_PROCESSES; i++)
		process_link_wait(cell->processes[i].link, milliseconds);
}
