// SPDX-License-Identifier: Apache-2.0
/* cloisterd. */
#include "supervisor/schedule/turns.h"

#include "supervisor/config/config.h"

#include "supervisor/base/clock.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/schedule/usage.h"

#include <event2/event.h>
#include <stdlib.h>

#define BEGUN_A_TURN 4 /* of the loop */

struct turns {
	struct call_queue queues[TURN_KINDS];
	struct event *give;
};

static uint64_t now_us(void)
{
	return (uint64_t)(clock_now() / CLOCK_NS_PER_US);
}

static bool give_one(struct turns *turns)
{
	for (size_t i = 0; i < TURN_KINDS; i++) {
		struct queue_place *place = call_queue_next(&turns->queues[i], now_us());
		struct turn *turn;

		if (!place)
			continue;
		turn = (struct turn *)((char *)place - offsetof(struct turn, place));
		turn->begin(turn);
		return true;
	}
	return false;
}

static void on_give(evutil_socket_t fd, short what, void *context)
{
	struct turns *turns = context;
	int begun = 0;

	(void)fd;
	(void)what;
	while (begun < BEGUN_A_TURN && give_one(turns))
		begun++;
	if (begun == BEGUN_A_TURN)
		event_active(turns->give, EV_TIMEOUT, 0);
}

struct turns *turns_new(struct event_base *base, const struct config_host *host)
{
	struct turns *turns = calloc(1, sizeof(*turns));

	if (!turns)
		return NULL;
	turns->give = event_new(base, -1, 0, on_give, turns);
	if (!turns->give || event_priority_set(turns->give, LOOP_PRIORITY_BULK) < 0) {
		if (turns->give)
			event_free(turns->give);
		free(turns);
		return NULL;
	}
	call_queue_init(&turns->queues[TURN_JOB], host->file_jobs);
	call_queue_init(&turns->queues[TURN_COMMAND], host->commands);
	return turns;
}

void turns_free(struct turns *turns)
{
	if (!turns)
		return;
	event_free(turns->give);
	free(turns);
}

static void give_soon(struct turns *turns)
{
	event_active(turns->give, EV_TIMEOUT, 0);
}

void turns_set_host(struct turns *turns, const struct config_host *host)
{
	turns->queues[TURN_JOB].limit = host->file_jobs;
	turns->queues[TURN_COMMAND].limit = host->commands;
	give_soon(turns);
}

static void set_flows(struct turns *turns, struct tenant *tenant)
{
	struct queue_flow *flows = tenant->usage->flows;

	queue_flow_set(
		&turns->queues[TURN_JOB], &flows[TURN_JOB], tenant->weight, SIZE_MAX, now_us());
	queue_flow_set(&turns->queues[TURN_COMMAND], &flows[TURN_COMMAND], tenant->weight,
		tenant->limits.commands, now_us());
}

void turns_groups_init(struct turns *turns, struct turn_groups *groups, struct tenant *tenant)
{
	set_flows(turns, tenant);
	for (size_t i = 0; i < TURN_KINDS; i++)
		queue_group_init(&groups->of[i], &tenant->usage->flows[i]);
}

void turns_groups_move(struct turns *turns, struct turn_groups *groups, struct tenant *tenant)
{
	set_flows(turns, tenant);
	for (size_t i = 0; i < TURN_KINDS; i++)
		queue_group_move(
			&turns->queues[i], &groups->of[i], &tenant->usage->flows[i], now_us());
	give_soon(turns);
}

void turns_groups_set(
	struct turns *turns, struct turn_groups *groups, const size_t limits[TURN_KINDS])
{
	for (size_t i = 0; i < TURN_KINDS; i++) {
		struct queue_group *group = &groups->of[i];
		bool was_listed = group->listed;

		queue_group_set(&turns->queues[i], group, limits[i] > 0, limits[i], now_us());
		if (group->listed && !was_listed)
			give_soon(turns);
	}
}

void turns_wait(struct turns *turns, struct turn *turn, struct turn_groups *groups)
{
	if (turn->kind == TURN_NONE)
		return;
	call_queue_add(&turns->queues[turn->kind], &turn->place, &groups->of[turn->kind], now_us());
	if (groups->of[turn->kind].listed)
		give_soon(turns);
}

void turns_return(struct turns *turns, struct turn *turn)
{
	call_queue_return(&turns->queues[turn->kind], &turn->place, now_us());
}

void turns_leave(struct turns *turns, struct turn *turn)
{
	if (turn->kind == TURN_NONE)
		return;
	call_queue_remove(&turns->queues[turn->kind], &turn->place, now_us());
	if (!LIST_EMPTY(&turns->queues[turn->kind].flows))
		give_soon(turns);
}

void turns_give(struct turns *turns)
{
	while (give_one(turns))
		;
}

uint64_t turns_wait_us(const struct turns *turns, const struct tenant *tenant)
{
	uint64_t longest = 0;

	for (size_t i = 0; i < TURN_KINDS; i++) {
		uint64_t wait = queue_flow_wait_us(&turns->queues[i], &tenant->usage->flows[i]);

		if (wait > longest)
			longest = wait;
	}
	return longest;
}
