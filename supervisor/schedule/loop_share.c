// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/schedule/loop_share.h"

#include "common/limits.h"
#include "common/links.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/loop_turn.h"

#include <errno.h>
#include <event2/event.h>

#define LATELY_NS 20000000

static LIST_HEAD(, loop_share_flow) flows = LIST_HEAD_INITIALIZER(flows);
static struct loop_share_flow nobody;
/*
 * The flow that the present slice belongs to. If the slice frees the flow, this becomes the flow's
 * heir. NULL: no slice runs.
 */
static struct loop_share_flow *running;
static uint64_t began_ns; /* when that slice began */
/* The flow whose client asked last, when that was, and when a client of another flow had asked
 * last. */
static const struct loop_share_flow *asked;
static uint64_t asked_ns, asked_before_ns;
static uint64_t reached_ns; /* the highest used_ns at which a slice was given */
static struct event_base *loop;
static struct event *give;

static uint64_t now_ns(void)
{
	return (uint64_t)clock_read();
}

/* A flow that had nothing to do gets no credit for that time. */
static void catch_up(struct loop_share_flow *flow)
{
	if (flow->used_ns < reached_ns)
		flow->used_ns = reached_ns;
}

static void run_loop_task(struct loop_share_task *task, struct loop_share_flow *flow)
{
	began_ns = now_ns();
	if (flow->used_ns > reached_ns)
		reached_ns = flow->used_ns;
	running = flow;
	/* on_give(), and who gives a slice at once, end the turn. */
	loop_turn_will_end(true);
	task->act(task->context);
	loop_turn_will_end(false);
	running->used_ns += now_ns() - began_ns;
	running = NULL;
}

/* Has @task wait in @flow, which then has a turn. */
static void enlist(struct loop_share_task *task, struct loop_share_flow *flow, bool first)
{
	if (task->waiting)
		return;
	if (LIST_EMPTY(&flows))
		event_active(give, EV_TIMEOUT, 0);
	if (!flow->listed) {
		catch_up(flow);
		TAILQ_INIT(&flow->tasks);
		LIST_LINK_HEAD(&flows, flow, entry);
		flow->listed = true;
	}
	task->flow = flow;
	task->waiting = true;
	if (first)
		TAILQ_LINK_HEAD(&flow->tasks, task, entry);
	else
		TAILQ_LINK_TAIL(&flow->tasks, task, entry);
}

void loop_share_wait(struct loop_share_task *task, struct loop_share_flow *flow)
{
	enlist(task, flow, false);
}

void loop_share_go_on(struct loop_share_task *task, struct loop_share_flow *flow)
{
	enlist(task, flow, true);
}

bool loop_share_is_used_up(void)
{
	return running && now_ns() - began_ns >= LIMIT_SLICE_US * CLOCK_NS_PER_US;
}

bool loop_share_now_or_wait(struct loop_share_task *task, struct loop_share_flow *flow)
{
	/* Other active events may belong to other tenants, who would wait behind this slice. */
	if (task->waiting || !LIST_EMPTY(&flows) ||
		event_base_get_num_events(loop, EVENT_BASE_COUNT_ACTIVE) > 0) {
		loop_share_wait(task, flow);
		return false;
	}
	catch_up(flow);
	run_loop_task(task, flow);
	return true;
}

void loop_share_cancel(struct loop_share_task *task)
{
	struct loop_share_flow *flow = task->flow;

	if (!task->waiting)
		return;
	task->waiting = false;
	TAILQ_UNLINK(&flow->tasks, task, entry);
	if (!TAILQ_EMPTY(&flow->tasks))
		return;
	flow->listed = false;
	LIST_UNLINK(flow, entry);
}

void loop_share_leave(struct loop_share_flow *flow, struct loop_share_flow *heir)
{
	while (flow->listed) {
		struct loop_share_task *task = TAILQ_FIRST(&flow->tasks);

		loop_share_cancel(task);
		loop_share_wait(task, heir);
	}
	if (running == flow)
		running = heir;
	/* The memory may be reused for another flow. */
	if (asked == flow)
		asked = NULL;
}

void loop_share_asked(const struct loop_share_flow *flow)
{
	if (flow != asked) {
		asked_before_ns = asked_ns;
		asked = flow;
	}
	asked_ns = now_ns();
}

bool loop_share_others_ask(const struct loop_share_flow *flow)
{
	uint64_t last_ns = flow == asked ? asked_before_ns : asked_ns;

	return last_ns > 0 && now_ns() - last_ns < LATELY_NS;
}

struct loop_share_flow *loop_share_of_nobody(void)
{
	return &nobody;
}

static struct loop_share_flow *least_used(void)
{
	struct loop_share_flow *flow, *least = LIST_FIRST(&flows);

	LIST_FOREACH (flow, &flows, entry)
		if (flow->used_ns < least->used_ns)
			least = flow;
	return least;
}

/* Gives one slice, and returns to the loop for other events. */
static void on_give(evutil_socket_t fd, short what, void *context)
{
	struct loop_share_flow *flow = least_used();
	struct loop_share_task *task = flow ? TAILQ_FIRST(&flow->tasks) : NULL;

	(void)fd;
	(void)what;
	(void)context;
	if (!task)
		return;
	loop_share_cancel(task);
	run_loop_task(task, flow);
	if (!LIST_EMPTY(&flows))
		event_active(give, EV_TIMEOUT, 0);
	loop_turn_end();
}

int loop_share_start(struct event_base *base)
{
	loop = base;
	give = event_new(base, -1, 0, on_give, NULL);
	return give && event_priority_set(give, LOOP_PRIORITY_BULK) == 0 ? 0 : -ENOMEM;
}

void loop_share_stop(void)
{
	if (give)
		event_free(give);
	give = NULL;
}
