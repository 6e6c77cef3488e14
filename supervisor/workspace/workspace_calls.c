// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. A cell is hostile: its frames reach an entry only by the number of a call that
 * has begun in this workspace.
 */
#include "supervisor/workspace/workspace_calls.h"

#include "common/limits.h"
#include "common/links.h"
#include "supervisor/base/clock.h"
#include "supervisor/config/tenant.h"
#include "supervisor/workspace/workspace_disk.h"
#include "supervisor/workspace/workspace_pause.h"
#include "supervisor/workspace/workspace_state.h"
#include "supervisor/workspace/workspace_tasks.h"

#include <assert.h>
#include <errno.h>

static const struct {
	unsigned limit;
	enum cell_process process;
	enum sched_class sched;
} classes[CALL_CLASSES] = {
	[CALL_CLASS_SHORT] = {LIMIT_CALLS_PER_CONNECTION, CELL_FILES, SCHED_NONE},
	[CALL_CLASS_WRITE] = {LIMIT_FILE_WRITES, CELL_FILES, SCHED_NONE},
	[CALL_CLASS_STREAM] = {LIMIT_FILE_STREAMS, CELL_FILES, SCHED_NONE},
	[CALL_CLASS_WATCH] = {LIMIT_FILE_WATCHES, CELL_FILES, SCHED_NONE},
	[CALL_CLASS_JOB] = {LIMIT_FILE_JOBS, CELL_FILES, SCHED_JOB},
	/* The tenant's limit applies too. */
	[CALL_CLASS_COMMAND] = {LIMIT_COMMANDS_PER_WORKSPACE, CELL_WORKER, SCHED_COMMAND},
	[CALL_CLASS_SESSION] = {LIMIT_SESSIONS_PER_WORKSPACE, CELL_WORKER, SCHED_NONE},
};

/* Calls are held back. */
static bool is_held(const struct workspace *workspace)
{
	return workspace->swap_holds || workspace->freeze;
}

static bool may_begin(const struct workspace *workspace, enum call_class class)
{
	if (class == CALL_CLASS_WRITE && workspace->pause.state != PAUSE_NONE)
		return false;
	if (class == CALL_CLASS_SESSION && !workspace_tasks_may(workspace))
		return false;
	return !is_held(workspace) && cell_serves(workspace->cell, classes[class].process) &&
	       workspace->running[class] < classes[class].limit;
}

/* Call it after any change that decides whether jobs and commands can begin here. */
static void update_limits(struct workspace *workspace)
{
	const struct cell *cell = workspace->cell;
	/* Where tasks are not few, nobody starves. */
	bool starves = (workspace->all->tasks_are_few || workspace->starves) &&
		       workspace_tasks_starve(workspace);
	bool held = is_held(workspace), changed = false;
	uint64_t commands = workspace->tenant->limits.commands_per_workspace;
	const size_t limits[SCHED_CLASSES] = {
		[SCHED_JOB] = !held && cell_serves(cell, CELL_FILES) ? LIMIT_FILE_JOBS : 0,
		[SCHED_COMMAND] =
			!held && !starves && cell_serves(cell, CELL_WORKER) ? (size_t)commands : 0,
	};

	for (size_t i = 0; i < SCHED_CLASSES; i++)
		changed |= workspace->queues.of[i].limit != limits[i] ||
			   workspace->queues.of[i].open != (limits[i] > 0);
	if (changed)
		scheduler_queues_set(workspace->all->scheduler, &workspace->queues, limits);
}

/*
 * The number of its running calls has changed. Only those that change files or run commands take
 * tasks, or make the workspace's disk be measured.
 */
static void count_running(struct workspace *workspace, enum call_class class)
{
	if (classes[class].process == CELL_WORKER)
		workspace_tasks_count(workspace);
	if (class == CALL_CLASS_WRITE || classes[class].process == CELL_WORKER)
		workspace_disk_calls(workspace);
}

static void begin_workspace_entry(struct workspace *workspace, struct workspace_entry *entry)
{
	assert(!entry->begun);
	entry->begun = true;
	LIST_LINK_HEAD(&workspace->begun[entry->call % WORKSPACE_BEGUN_LISTS], entry, begun_link);
	workspace->running[entry->class]++;
	count_running(workspace, entry->class);
	entry->owner->begin(entry->context);
}

static void on_scheduled(struct sched_entry *sched)
{
	struct workspace_entry *entry =
		(struct workspace_entry *)((char *)sched - offsetof(struct workspace_entry, sched));
	struct workspace *workspace = sched->context;

	if (!is_held(workspace) && cell_serves(workspace->cell, classes[entry->class].process) &&
		(entry->class != CALL_CLASS_COMMAND || workspace_tasks_may(workspace))) {
		begin_workspace_entry(workspace, entry);
		return;
	}
	/* The cell has failed and will report it later, or is being exchanged, or tasks are few. */
	update_limits(workspace);
	scheduler_return(workspace->all->scheduler, sched);
}

bool workspace_calls_run(const struct workspace *workspace)
{
	for (size_t i = 0; i < CALL_CLASSES; i++)
		if (i != CALL_CLASS_WATCH && workspace->running[i] > 0)
			return true;
	return false;
}

bool workspace_calls_unparked(const struct workspace *workspace)
{
	const struct workspace_entry *entry;

	TAILQ_FOREACH (entry, &workspace->entries, link)
		if (!entry->parked && entry->class != CALL_CLASS_WATCH)
			return true;
	return false;
}

size_t workspace_calls_of(const struct workspace *workspace, enum call_class class)
{
	const struct workspace_entry *entry;
	size_t count = 0;

	TAILQ_FOREACH (entry, &workspace->entries, link)
		count += entry->class == class;
	return count;
}

void workspace_calls_end_watches(struct workspace *workspace)
{
	static const struct workspace_loss loss = {
		CALL_CLASS_WATCH, CALL_CLASS_WATCH, false, TOOL_CANCELLED};

	workspace_calls_lost(workspace, &loss,
		"A checkpoint, rollback or preview exchanges the workspace's files: list the "
		"directory again, and watch it again");
}

/*
 * Begins in order the waiting entries that have no scheduling class, as far as the limits of their
 * call classes allow.
 */
static void begin_waiting(struct workspace *workspace)
{
	struct workspace_entry *entry, *next;

	for (entry = TAILQ_FIRST(&workspace->entries); entry; entry = next) {
		next = TAILQ_NEXT(entry, link);
		if (!entry->begun && !entry->parked && entry->sched.class == SCHED_NONE &&
			may_begin(workspace, entry->class))
			begin_workspace_entry(workspace, entry);
	}
}

void workspace_calls_begin(struct workspace *workspace)
{
	update_limits(workspace);
	begin_waiting(workspace);
}

/* Returns the entry of @call if that has begun, or NULL. */
static struct workspace_entry *find_begun(const struct workspace *workspace, uint64_t call)
{
	struct workspace_entry *entry;

	LIST_FOREACH (entry, &workspace->begun[call % WORKSPACE_BEGUN_LISTS], begun_link)
		if (entry->call == call)
			return entry;
	return NULL;
}

int workspace_calls_frame(
	struct workspace *workspace, enum cell_process from, const struct channel_frame *frame)
{
	struct workspace_entry *entry = find_begun(workspace, frame->call);

	/* The call was answered meanwhile; but a long series of such frames is a fault. */
	if (!entry)
		return ++workspace->unknown_call_frames > LIMIT_UNKNOWN_CALL_FRAMES ? -EBADMSG : 0;
	/* A frame must come from the process that serves the call's class. */
	if (classes[entry->class].process != from)
		return -EBADMSG;
	workspace->unknown_call_frames = 0;
	cell_reset_crash_count(workspace->cell);
	return entry->owner->frame(entry->context, frame);
}

static void remove_entry(struct workspace *workspace, struct workspace_entry *entry)
{
	TAILQ_UNLINK(&workspace->entries, entry, link);
	if (entry->begun) {
		LIST_UNLINK(entry, begun_link);
		assert(workspace->running[entry->class] > 0);
		workspace->running[entry->class]--;
		count_running(workspace, entry->class);
		if (workspace->pause.state != PAUSE_NONE)
			workspace_pause_advance(workspace);
	}
	if (entry->sched.class != SCHED_NONE)
		scheduler_remove(workspace->all->scheduler, &entry->sched);
}

void workspace_calls_lost(
	struct workspace *workspace, const struct workspace_loss *loss, const char *why)
{
	struct workspace_entry *entry, *next;

	for (entry = TAILQ_FIRST(&workspace->entries); entry; entry = next) {
		next = TAILQ_NEXT(entry, link);
		if (entry->class < loss->from || entry->class > loss->to ||
			!(loss->waiting || entry->begun))
			continue;
		remove_entry(workspace, entry);
		entry->owner->lost(entry->context, loss->error, why);
	}
}

/* Whether @entry, which enters, must wait for the beginning or the end of a preview. */
static bool is_parked(const struct workspace *workspace, const struct workspace_entry *entry)
{
	const struct workspace_preview *preview = workspace->preview;

	if (entry->looks)
		return false;
	switch (preview->state) {
	case PREVIEW_MAKING:
		/* Those that come while earlier ones are waited for are among these. */
		return entry->inside || workspace->swap_holds;
	case PREVIEW_FAILED:
		return entry->inside;
	default:
		return !entry->inside;
	}
}

void workspace_enter(struct workspace *workspace, struct workspace_entry *entry)
{
	entry->sched = (struct sched_entry){
		.class = classes[entry->class].sched, .begin = on_scheduled, .context = workspace};
	entry->begun = false;
	entry->parked = workspace->preview && is_parked(workspace, entry);
	TAILQ_LINK_TAIL(&workspace->entries, entry, link);
	if (!entry->parked && entry->sched.class != SCHED_NONE)
		scheduler_add(workspace->all->scheduler, &entry->sched, &workspace->queues);
	cell_settle(workspace->cell);
}

void workspace_unpark(struct workspace *workspace, struct workspace_entry *entry)
{
	entry->parked = false;
	scheduler_add(workspace->all->scheduler, &entry->sched, &workspace->queues);
	cell_settle(workspace->cell);
}

void workspace_lose(struct workspace *workspace, struct workspace_entry *entry,
	enum tool_error error, const char *why)
{
	remove_entry(workspace, entry);
	entry->owner->lost(entry->context, error, why);
}

void workspace_become_session(struct workspace *workspace, struct workspace_entry *entry)
{
	assert(entry->begun && workspace->running[entry->class] > 0);
	scheduler_remove(workspace->all->scheduler, &entry->sched);
	workspace->running[entry->class]--;
	entry->class = CALL_CLASS_SESSION;
	entry->sched.class = classes[CALL_CLASS_SESSION].sched;
	workspace->running[CALL_CLASS_SESSION]++;
}

void workspace_leave(struct workspace *workspace, struct workspace_entry *entry)
{
	remove_entry(workspace, entry);
	if (entry->class == CALL_CLASS_WRITE || entry->changes ||
		classes[entry->class].process == CELL_WORKER)
		disk_use_changed(&workspace->disk);
	workspace->last_used = clock_now();
	cell_settle(workspace->cell);
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

void workspace_abandon(
	struct workspace *workspace, const struct workspace_entry *entry, const char *why)
{
	cell_abandon(workspace->cell, classes[entry->class].process, why);
}
