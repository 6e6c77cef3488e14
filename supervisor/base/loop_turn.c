// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Tasks are kept in a list, which costs nothing. Making a libevent event active
 * would cost another epoll_wait(2), twice for each call.
 */
#include "supervisor/base/loop_turn.h"

#include "common/cleanup.h"
#include "common/links.h"
#include "supervisor/base/clock.h"

#include <errno.h>
#include <event2/event.h>

TAILQ_HEAD(tasks, loop_turn_task);

static struct tasks tasks = TAILQ_HEAD_INITIALIZER(tasks);
static struct tasks last_tasks = TAILQ_HEAD_INITIALIZER(last_tasks);
/* active while there are tasks and no loop_turn_end() is certain to come */
static struct event *come_round;
static bool coming; /* it is active */
static bool will_end;

static void on_come_round(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	(void)context;
	loop_turn_end();
}

int loop_turn_start(struct event_base *base)
{
	come_round = event_new(base, -1, 0, on_come_round, NULL);
	return come_round ? 0 : -ENOMEM;
}

void loop_turn_stop(void)
{
	if (come_round)
		event_free(TAKE_PTR(come_round));
	coming = false;
}

/* Marks @task as waiting, and has the loop run tasks even if this turn ends otherwise. */
static void defer_to_turn_end(struct loop_turn_task *task, bool last)
{
	if (!coming && !will_end) {
		event_active(come_round, EV_TIMEOUT, 0);
		coming = true;
	}
	task->waiting = true;
	task->last = last;
}

void loop_turn_defer(struct loop_turn_task *task)
{
	if (task->waiting)
		return;
	defer_to_turn_end(task, false);
	TAILQ_LINK_TAIL(&tasks, task, entry);
}

void loop_turn_defer_first(struct loop_turn_task *task)
{
	loop_turn_cancel(task);
	defer_to_turn_end(task, false);
	TAILQ_LINK_HEAD(&tasks, task, entry);
}

void loop_turn_defer_last(struct loop_turn_task *task)
{
	if (task->waiting)
		return;
	defer_to_turn_end(task, true);
	TAILQ_LINK_TAIL(&last_tasks, task, entry);
}

void loop_turn_cancel(struct loop_turn_task *task)
{
	if (task->waiting)
		TAILQ_UNLINK(task->last ? &last_tasks : &tasks, task, entry);
	task->waiting = false;
}

void loop_turn_will_end(bool certain)
{
	will_end = certain;
}

void loop_turn_end(void)
{
	struct loop_turn_task *task;

	will_end = true;
	while ((task = TAILQ_FIRST(&tasks)) || (task = TAILQ_FIRST(&last_tasks))) {
		loop_turn_cancel(task);
		task->act(task->context);
	}
	will_end = false;
	if (coming)
		event_del(come_round);
	coming = false;
	clock_begin_turn();
}
