/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One cell. The test plays its spawner and processes (fakes/spawner_link.h, fakes/process.h) and
 * lets time pass (fakes/clock.h).
 */

#include "supervisor/cell/cell_state.h"

#include "common/wire/wire_commands.h"
#include "common/wire/wire_files.h"
#include "supervisor/cell/spare_cells.h"
#include "supervisor/schedule/loop_share.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/clock.h"
#include "tests/unit/fakes/spawner_link.h"

#include <event2/event.h>

#define PASSES 8 /* of the loop */

struct fixture {
	struct event_base *base;
	struct spawner_link *spawner;
	struct spare_cells *spares;
	struct cell_counts counts;
	struct cell *cell;
	enum cell_need need;
	const char *refused; /* why it is not made now; NULL: it is */
	int root;
	struct fake_process *worker, *files; /* NULL: the spawner has made none */
	char log[256];                       /* of the losses that cell.c reported */
	char why[256];
	char trouble[512]; /* the last one */
	unsigned frames, troubles;
};

static const char *const loss_names[CELL_LOSSES] = {
	[CELL_LOST] = " LOST",
	[CELL_GIVEN_UP] = " GIVEN_UP",
	[CELL_NOT_MADE] = " NOT_MADE",
	[CELL_REFUSED] = " REFUSED",
	[CELL_OVER_QUOTA] = " OVER_QUOTA",
	[CELL_UNFIT] = " UNFIT",
	[CELL_NOT_NOW] = " NOT_NOW",
	[CELL_SILENT] = " SILENT",
	[CELL_HELD] = " HELD",
	[CELL_FILES_LOST] = " FILES_LOST",
	[CELL_FILES_HELD] = " FILES_HELD",
};

static enum cell_need need(void *context)
{
	return ((struct fixture *)context)->need;
}

static void describe(void *context, struct spawner_open *ret, int *ret_root)
{
	*ret = (struct spawner_open){0};
	*ret_root = ((struct fixture *)context)->root;
}

static int on_frame(void *context, enum cell_process from, const struct channel_frame *frame)
{
	(void)from;
	(void)frame;
	((struct fixture *)context)->frames++;
	return 0;
}

static void on_lost(void *context, enum cell_loss loss, const char *why)
{
	struct fixture *f = context;

	/* These losses end the workspace's waiting calls too. */
	if (loss != CELL_LOST && loss != CELL_FILES_LOST && f->need == CELL_CALLED)
		f->need = CELL_KEPT;
	assert_true(strlen(f->log) + strlen(loss_names[loss]) < sizeof(f->log));
	strcat(f->log, loss_names[loss]);
	snprintf(f->why, sizeof(f->why), "%s", why ? why : "");
}

static void on_settled(void *context)
{
	(void)context;
}

static const char *refuses(void *context)
{
	const struct fixture *f = context;

	return f->refused;
}

static struct loop_share_flow *share(void *context)
{
	(void)context;
	return loop_share_of_nobody();
}

static uint64_t *unread(void *context)
{
	static uint64_t sum;

	(void)context;
	return &sum;
}

static void network(void *context, const int *sockets)
{
	(void)context;
	assert_null(sockets);
}

static void troubled(void *context, const char *what)
{
	struct fixture *f = context;

	snprintf(f->trouble, sizeof(f->trouble), "%s", what);
	f->troubles++;
}

static void sweep(void *context)
{
	struct fixture *f = context;

	cell_send(
		f->cell, CELL_FILES, FILES_SWEEP, 0, (struct text){"", FILES_SWEEP_SIZE}, NULL, 0);
}

static void run(struct fixture *f)
{
	for (int i = 0; i < PASSES; i++)
		event_base_loop(f->base, EVLOOP_NONBLOCK);
}

static void pass(struct fixture *f, int64_t ms)
{
	fake_clock_pass(ms);
	run(f);
}

static void settle(struct fixture *f)
{
	cell_settle(f->cell);
	run(f);
}

static struct shared_fd_sum *no_sum(void *context)
{
	(void)context;
	return NULL;
}

static void make_cell(struct fixture *f)
{
	static const struct cell_owner owner = {need, refuses, describe, on_frame, on_lost,
		on_settled, share, no_sum, unread, network, troubled, sweep};

	f->counts = (struct cell_counts){0};
	f->need = CELL_KEPT;
	f->worker = f->files = NULL;
	f->spawner = fake_spawner_new();
	f->spares = spare_cells_new(f->base, f->spawner);
	f->cell = cell_new(f->base, f->spawner, f->spares, &owner, f, &f->counts);
	assert_non_null(f->cell);
	assert_int_equal(cell_status(f->cell), CELL_STATUS_CLOSED);
}

static void drop_cell(struct fixture *f)
{
	cell_free(f->cell);
	spare_cells_free(f->spares);
	fake_spawner_free(f->spawner);
	assert_int_equal(timers_next(), INT64_MAX);
	f->log[0] = f->why[0] = '\0';
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	fake_clock_start();
	f->base = event_base_new();
	assert_int_equal(event_base_priority_init(f->base, LOOP_PRIORITIES), 0);
	assert_int_equal(loop_turn_start(f->base), 0);
	assert_int_equal(loop_share_start(f->base), 0);
	f->root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(f->root >= 0);
	make_cell(f);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	drop_cell(f);
	close(f->root);
	loop_share_stop();
	loop_turn_stop();
	event_base_free(f->base);
	fake_clock_stop();
	free(f);
	return 0;
}

/* The spawner answers the last request with what that asks for. */
static void answer(struct fixture *f)
{
	struct fake_asked *asked = fake_spawner_asked(f->spawner);
	uint8_t type;
	struct fake_cell *made;

	assert_non_null(asked);
	type = asked->type;
	made = fake_spawner_answer(f->spawner, asked);
	if (type == SPAWNER_OPEN)
		f->worker = &made->worker;
	if (type != SPAWNER_ASSIGN)
		f->files = &made->files;
	run(f);
}

static void say_ready(struct fixture *f, struct fake_process *process)
{
	if (process == f->worker)
		fake_process_say(process, COMMAND_READY, 0, (struct text){NULL, 0});
	else /* without a quota */
		fake_process_say(process, FILES_READY, 0, TEXT_LITERAL("\0\0\0\0\0\0\0\0"));
	run(f);
}

static void open_cell(struct fixture *f)
{
	f->need = CELL_CALLED;
	settle(f);
	answer(f);
	say_ready(f, f->worker);
	say_ready(f, f->files);
	assert_int_equal(f->cell->state, STATE_OPEN);
}

/* From now on killed processes do not end: the kernel holds them. */
static void hold(struct fixture *f)
{
	if (f->worker)
		f->worker->held = true;
	if (f->files)
		f->files->held = true;
}

/* Returns the spawner's requests, the kills, the reported losses and the state. */
static const char *outcome(struct fixture *f)
{
	static const char *const names[STATES] = {"closed", "resting", "opening", "open",
		"files ending", "files held", "files resting", "files opening", "ending",
		"quarantined"};
	static const char *const asked_names[] = {
		[SPAWNER_OPEN] = " open",
		[SPAWNER_OPEN_FILES] = " open-files",
		[SPAWNER_PREPARE] = " prepare",
		[SPAWNER_ASSIGN] = " assign",
		[SPAWNER_WHERE] = " where",
	};
	static char text[512];
	const struct fake_asked *asked = fake_spawner_asked(f->spawner);

	snprintf(text, sizeof(text), "%s%s%s%s = %s", !asked ? "" : asked_names[asked->type],
		f->worker && f->worker->killed > 0 ? " kill-worker" : "",
		f->files && f->files->killed > 0 ? " kill-files" : "", f->log,
		names[f->cell->state]);
	f->log[0] = '\0';
	return text;
}
