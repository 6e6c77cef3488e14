// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: the messages and deaths of a cell's processes. They are hostile: an unexpected
 * message ends its sender. This code runs in a process link's callbacks and only records what
 * happened; cell.c acts on it.
 */

#include "supervisor/cell/cell_process.h"

#include "common/cleanup.h"
#include "common/wire/wire_commands.h"
#include "common/wire/wire_files.h"
#include "supervisor/cell/process_link.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void cell_process_fail(struct process *process, const char *format, ...)
{
	va_list arguments;

	if (!process->failure) {
		va_start(arguments, format);
		if (vasprintf(&process->failure, format, arguments) < 0)
			process->failure = strdup("");
		va_end(arguments);
	}
	loop_turn_defer(&process->cell->settle);
}

/* The files process has touched nothing yet when it tells of its quota. */
static int take_ready(struct process *process, struct text payload)
{
	struct files_ready message = {0};

	if (process->which == CELL_WORKER)
		return payload.len == 0 ? 0 : -EBADMSG;
	if (files_ready_get(payload, &message) < 0)
		return -EBADMSG;
	process->cell->disk_limit = message.disk_limit;
	return 0;
}

/*
 * Handles the first message of a process: it is ready, or why not. The worker's last step of set-up
 * comes after that and can still fail.
 */
static int handle_setup(struct process *process, const struct channel_frame *frame)
{
	static const uint8_t ready[] = {[CELL_WORKER] = COMMAND_READY, [CELL_FILES] = FILES_READY};
	static const uint8_t failed[] = {
		[CELL_WORKER] = COMMAND_FAILED, [CELL_FILES] = FILES_FAILED};
	struct setup_failure failure;

	if (frame->type == ready[process->which]) {
		if (take_ready(process, frame->payload) < 0)
			return -EBADMSG;
		process->ready = true;
		loop_turn_defer(&process->cell->settle);
		return 0;
	}
	if (frame->type != failed[process->which] ||
		setup_failure_get(frame->payload, &failure) < 0)
		return -EBADMSG;
	process->cell->not_set_up |= process->ready;
	process->cell->host_is_short |=
		cell_loss_of((int)failure.error, CELL_NOT_MADE) == CELL_NOT_NOW;
	process->cell->not_made = failure.error == SETUP_UNFIT ? CELL_UNFIT
							       : cell_loss_of((int)failure.error,
									 process->cell->not_made);
	cell_process_fail(process, "The workspace could not be opened: %.*s%s%s",
		(int)failure.step.len, failure.step.data, failure.error == SETUP_UNFIT ? "" : ": ",
		failure.error == SETUP_UNFIT ? "" : strerror((int)failure.error));
	return 0;
}

static int on_process_frame(void *context, const struct channel_frame *frame)
{
	static const struct {
		uint8_t first, last;
	} said[] = {[CELL_WORKER] = {COMMAND_ENDED, COMMAND_PAUSED},
		[CELL_FILES] = {FILES_DATA, FILES_END}};
	struct process *process = context;

	if (!process->ready || (process->which == CELL_WORKER && frame->type == COMMAND_FAILED))
		return handle_setup(process, frame);
	if (frame->type < said[process->which].first || frame->type > said[process->which].last)
		return -EBADMSG;
	/* Empty ones would count as nothing, however many come. */
	if (process->which == CELL_FILES && frame->payload.len == 0)
		return -EBADMSG;
	if (process->which == CELL_WORKER)
		process->cell->counts->unmade = 0;
	return process->cell->owner->frame(process->cell->context, process->which, frame);
}

void cell_process_check_lost(struct process *process)
{
	struct cell *cell = process->cell;

	/*
	 * While the spawner's answer is pending, the spawner will report the reason. If cloisterd
	 * has killed the process, the reason is known already.
	 */
	if (!process->lost || cell->asked || cell->state == STATE_ENDING ||
		cell->state == STATE_QUARANTINED)
		return;
	if (cell->state == STATE_OPENING && cell->was_ahead && !cell_why(cell))
		cell->died_ahead = true;
	cell_process_fail(process, "The workspace's process died");
}

static void on_link_lost(void *context)
{
	struct process *process = context;

	process->lost = true;
	cell_process_check_lost(process);
}

static void on_link_gone(void *context)
{
	loop_turn_defer(&((struct process *)context)->cell->settle);
}

static struct loop_share_flow *process_share(void *context)
{
	const struct cell *cell = ((struct process *)context)->cell;

	return cell->owner->share(cell->context);
}

static struct shared_fd_sum *process_sum(void *context)
{
	const struct cell *cell = ((struct process *)context)->cell;

	return cell->owner->sum(cell->context);
}

static uint64_t *process_unread(void *context)
{
	const struct cell *cell = ((struct process *)context)->cell;

	return cell->owner->unread(cell->context);
}

int cell_process_make(struct process *process, int child_fds[2])
{
	struct process_link_owner owner = {on_process_frame, on_link_lost, on_link_gone,
		process_share, process_sum, process_unread, process};

	return process_link_new(process->cell->base, &owner, &process->link, child_fds);
}

void cell_process_adopt(struct process *process, struct process_link *link)
{
	struct process_link_owner owner = {on_process_frame, on_link_lost, on_link_gone,
		process_share, process_sum, process_unread, process};

	process_link_adopt(link, &owner);
	process->link = link;
}

void cell_process_drop(struct process *process)
{
	process_link_free(TAKE_PTR(process->link));
	free(TAKE_PTR(process->failure));
	process->ready = process->lost = false;
}
