// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Trusts its callers; tenants influence only the numbers and times that it gets.
 */
#include "supervisor/schedule/call_queue.h"

#include "common/links.h"

#include <assert.h>

/*
 * An entry, and what becomes of it:
 *
 *            add       next               return                 remove    its workspace
 *                                                                          closes or moves
 *   NOWHERE  WAITING   (is not there)     never                  NOWHERE   (is not there)
 *   WAITING  never     RUNNING, in turn   never                  NOWHERE   WAITING
 *   RUNNING  never     RUNNING            WAITING, as the first  NOWHERE   RUNNING
 */

/* The unit of used: a microsecond at this weight, the highest one. */
#define UNIT 10000

/* Far more than one call adds, and far below an overflow. */
#define LOWERED_BY (INT64_C(1) << 60)

static int64_t in_units(uint64_t run_us, uint64_t weight)
{
	return (int64_t)(run_us * UNIT / weight);
}

/* Subtracts what all used values were lowered by while the flow was not listed. */
static void catch_up(const struct call_queue *queue, struct queue_flow *flow)
{
	/*
	 * A value further back makes no difference: the flow continues at the level of the others.
	 */
	uint64_t behind = queue->epoch - flow->epoch;

	flow->used -= (int64_t)(behind < 2 ? behind : 2) * LOWERED_BY;
	flow->epoch = queue->epoch;
}

/* The used value, including calls that are still running. */
static int64_t used_now(const struct queue_flow *flow, uint64_t now_us)
{
	return flow->used + in_units(flow->n_running * now_us - flow->began_sum, flow->weight);
}

void call_queue_init(struct call_queue *queue, size_t limit)
{
	*queue = (struct call_queue){.limit = limit, .soft_limit = SIZE_MAX};
	LIST_INIT(&queue->flows);
}

/*
 * The level of the flows that could run a call: at least the level at which a turn was given last,
 * and more while that call runs.
 */
static int64_t reached_now(const struct call_queue *queue, uint64_t now_us)
{
	const struct queue_flow *flow;
	int64_t least = INT64_MAX;

	LIST_FOREACH (flow, &queue->flows, entry)
		if (used_now(flow, now_us) < least)
			least = used_now(flow, now_us);
	return least < INT64_MAX && least > queue->reached ? least : queue->reached;
}

/*
 * Lists a flow that can run calls again. Time that others used while this flow had nothing to run
 * gives it no credit: it continues at their level.
 */
static void list_flow(struct call_queue *queue, struct queue_flow *flow, uint64_t now_us)
{
	int64_t behind;

	catch_up(queue, flow);
	behind = reached_now(queue, now_us) - used_now(flow, now_us);
	if (behind > 0 && flow->begun_seen != queue->begun)
		flow->used += behind;
	LIST_LINK_HEAD(&queue->flows, flow, entry);
	flow->listed = true;
}

/* Counts the flow's weight while it has entries. */
static void count_weight(struct call_queue *queue, struct queue_flow *flow)
{
	uint64_t counted = flow->n_running + flow->n_waiting > 0 ? flow->weight : 0;

	assert(queue->active_weight >= flow->counted);
	queue->active_weight += counted - flow->counted;
	flow->counted = counted;
}

static void update_flow(struct call_queue *queue, struct queue_flow *flow, uint64_t now_us)
{
	bool could = !LIST_EMPTY(&flow->ready) && flow->n_running < flow->limit;

	count_weight(queue, flow);
	if (could && !flow->listed) {
		list_flow(queue, flow, now_us);
	} else if (!could && flow->listed) {
		LIST_UNLINK(flow, entry);
		flow->listed = false;
		flow->begun_seen = queue->begun;
	}
}

static void update_workspace(
	struct call_queue *queue, struct workspace_queue *workspace, uint64_t now_us)
{
	bool could = workspace->open && workspace->n_running < workspace->limit &&
		     workspace->n_waiting > 0;

	if (could && !workspace->listed)
		LIST_LINK_HEAD(&workspace->flow->ready, workspace, entry);
	else if (!could && workspace->listed)
		LIST_UNLINK(workspace, entry);
	workspace->listed = could;
	update_flow(queue, workspace->flow, now_us);
}

void queue_flow_set(struct call_queue *queue, struct queue_flow *flow, uint64_t weight,
	size_t limit, uint64_t now_us)
{
	int64_t used;

	catch_up(queue, flow);
	/* Time used under the old weight keeps its value. */
	used = flow->weight > 0 ? used_now(flow, now_us) : flow->used;
	flow->weight = weight;
	flow->used = used - in_units(flow->n_running * now_us - flow->began_sum, weight);
	flow->limit = limit;
	update_flow(queue, flow, now_us);
}

void workspace_queue_init(struct workspace_queue *workspace, struct queue_flow *flow)
{
	*workspace = (struct workspace_queue){.flow = flow};
	TAILQ_INIT(&workspace->waiting);
}

void workspace_queue_set(struct call_queue *queue, struct workspace_queue *workspace, bool open,
	size_t limit, uint64_t now_us)
{
	if (workspace->open == open && workspace->limit == limit)
		return;
	workspace->open = open;
	workspace->limit = limit;
	update_workspace(queue, workspace, now_us);
}

void workspace_queue_move(struct call_queue *queue, struct workspace_queue *workspace,
	struct queue_flow *flow, uint64_t now_us)
{
	struct queue_flow *old = workspace->flow;
	bool open = workspace->open;

	if (flow == old)
		return;
	workspace->open = false;
	update_workspace(queue, workspace, now_us);
	old->n_waiting -= workspace->n_waiting;
	old->n_running -= workspace->n_running;
	old->began_sum -= workspace->began_sum;
	update_flow(queue, old, now_us);
	flow->n_waiting += workspace->n_waiting;
	flow->n_running += workspace->n_running;
	flow->began_sum += workspace->began_sum;
	workspace->flow = flow;
	workspace->open = open;
	update_workspace(queue, workspace, now_us);
}

void call_queue_add(struct call_queue *queue, struct queue_entry *entry,
	struct workspace_queue *workspace, uint64_t now_us)
{
	assert(!entry->workspace);
	*entry = (struct queue_entry){
		.workspace = workspace, .number = ++queue->entries, .since_us = now_us};
	TAILQ_LINK_TAIL(&workspace->waiting, entry, entry);
	workspace->n_waiting++;
	workspace->flow->n_waiting++;
	update_workspace(queue, workspace, now_us);
}

static struct workspace_queue *first_come(const struct queue_flow *flow)
{
	struct workspace_queue *workspace, *first = LIST_FIRST(&flow->ready);

	LIST_FOREACH (workspace, &flow->ready, entry)
		if (TAILQ_FIRST(&workspace->waiting)->number < TAILQ_FIRST(&first->waiting)->number)
			first = workspace;
	return first;
}

static void lower_all(struct call_queue *queue)
{
	struct queue_flow *flow;

	if (queue->reached < LOWERED_BY)
		return;
	queue->epoch++;
	queue->reached -= LOWERED_BY;
	queue->furthest -= LOWERED_BY;
	LIST_FOREACH (flow, &queue->flows, entry)
		catch_up(queue, flow);
}

bool call_queue_is_held(const struct call_queue *queue)
{
	return queue->n_running >= queue->soft_limit && queue->n_running < queue->limit &&
	       !LIST_EMPTY(&queue->flows);
}

static int64_t order_of(const struct queue_flow *flow, uint64_t now_us)
{
	return used_now(flow, now_us) +
	       in_units(flow->n_running * CALL_QUEUE_QUANTUM_US, flow->weight);
}

/* Whether one of the places that are left may be the flow's. */
static bool has_place(const struct call_queue *queue, const struct queue_flow *flow)
{
	return flow->n_running == 0 || queue->n_running + queue->kept < queue->limit;
}

/* Whether the flow runs less than its share of the soft limit; it may always run one entry. */
static bool is_within_share(const struct call_queue *queue, const struct queue_flow *flow)
{
	return flow->n_running == 0 ||
	       flow->n_running * queue->active_weight < queue->soft_limit * flow->weight;
}

/* Whether the flow has waited long enough at the soft limit for an entry beyond its share. */
static bool has_waited(
	const struct call_queue *queue, const struct queue_flow *flow, uint64_t now_us)
{
	uint64_t share = queue->soft_limit * flow->weight / queue->active_weight;
	uint64_t above;

	share = share > 0 ? share : 1;
	above = flow->n_running > share ? flow->n_running - share : 0;
	return now_us - flow->begun_us >= (above + 1) * CALL_QUEUE_PATIENCE_US;
}

/* The first flow in order or, if @waited, of those that have waited long enough. */
static struct queue_flow *least_used(const struct call_queue *queue, bool waited, uint64_t now_us)
{
	struct queue_flow *flow, *least = NULL;

	LIST_FOREACH (flow, &queue->flows, entry) {
		if (!has_place(queue, flow) || (waited && !has_waited(queue, flow, now_us)))
			continue;
		if (!least || order_of(flow, now_us) < order_of(least, now_us))
			least = flow;
	}
	return least;
}

/* The flow whose turn it is, or NULL. */
static struct queue_flow *next_flow(const struct call_queue *queue, uint64_t now_us)
{
	struct queue_flow *first;

	if (queue->n_running >= queue->limit)
		return NULL;
	first = least_used(queue, false, now_us);
	if (!first || !call_queue_is_held(queue) || queue->has_room ||
		is_within_share(queue, first))
		return first;
	return least_used(queue, true, now_us);
}

struct queue_entry *call_queue_next(struct call_queue *queue, uint64_t now_us)
{
	struct queue_flow *flow = next_flow(queue, now_us);
	struct workspace_queue *workspace;
	struct queue_entry *entry;

	if (!flow)
		return NULL;
	workspace = first_come(flow);
	entry = TAILQ_FIRST(&workspace->waiting);
	if (used_now(flow, now_us) > queue->reached)
		queue->reached = used_now(flow, now_us);
	queue->begun++;
	flow->begun_us = now_us;
	TAILQ_UNLINK(&workspace->waiting, entry, entry);
	entry->running = true;
	entry->since_us = now_us;
	assert(workspace->n_waiting > 0);
	workspace->n_waiting--;
	assert(flow->n_waiting > 0);
	flow->n_waiting--;
	workspace->n_running++;
	flow->n_running++;
	queue->n_running++;
	workspace->began_sum += now_us;
	flow->began_sum += now_us;
	update_workspace(queue, workspace, now_us);
	lower_all(queue);
	return entry;
}

static void end_running(struct call_queue *queue, const struct queue_entry *entry, uint64_t now_us)
{
	struct workspace_queue *workspace = entry->workspace;
	struct queue_flow *flow = workspace->flow;
	uint64_t took_us = now_us - entry->since_us;

	assert(workspace->n_running > 0 && flow->n_running > 0 && queue->n_running > 0);
	catch_up(queue, flow);
	flow->used += in_units(took_us, flow->weight);
	queue_mean_add(&flow->mean_us, took_us);
	queue_mean_add(&queue->mean_us, took_us);
	workspace->began_sum -= entry->since_us;
	flow->began_sum -= entry->since_us;
	assert(workspace->n_running > 0);
	workspace->n_running--;
	assert(flow->n_running > 0);
	flow->n_running--;
	assert(queue->n_running > 0);
	queue->n_running--;
	if (flow->used > queue->furthest)
		queue->furthest = flow->used;
	/* On an idle queue all flows start at the same level. */
	if (queue->n_running == 0 && LIST_EMPTY(&queue->flows))
		queue->reached = queue->furthest;
}

void call_queue_return(struct call_queue *queue, struct queue_entry *entry, uint64_t now_us)
{
	struct workspace_queue *workspace = entry->workspace;

	assert(entry->running);
	assert(workspace && entry->running && !workspace->open);
	workspace->began_sum -= entry->since_us;
	workspace->flow->began_sum -= entry->since_us;
	assert(workspace->n_running > 0);
	workspace->n_running--;
	assert(workspace->flow->n_running > 0);
	workspace->flow->n_running--;
	assert(queue->n_running > 0);
	queue->n_running--;
	entry->running = false;
	TAILQ_LINK_HEAD(&workspace->waiting, entry, entry);
	workspace->n_waiting++;
	workspace->flow->n_waiting++;
	update_workspace(queue, workspace, now_us);
}

void call_queue_remove(struct call_queue *queue, struct queue_entry *entry, uint64_t now_us)
{
	struct workspace_queue *workspace = entry->workspace;

	if (!workspace)
		return;
	if (entry->running) {
		end_running(queue, entry, now_us);
	} else {
		TAILQ_UNLINK(&workspace->waiting, entry, entry);
		assert(workspace->n_waiting > 0);
		workspace->n_waiting--;
		assert(workspace->flow->n_waiting > 0);
		workspace->flow->n_waiting--;
	}
	entry->workspace = NULL;
	update_workspace(queue, workspace, now_us);
}

uint64_t queue_flow_wait_us(const struct call_queue *queue, const struct queue_flow *flow)
{
	uint64_t each_us = flow->mean_us > 0 ? flow->mean_us : queue->mean_us;
	size_t at_once = flow->n_running > 0 ? flow->n_running : 1;

	return flow->n_waiting * each_us / at_once;
}
