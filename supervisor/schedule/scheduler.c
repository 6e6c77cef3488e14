// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/schedule/scheduler.h"

#include "supervisor/config/config.h"

#include "supervisor/base/clock.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/schedule/usage.h"

#include <event2/event.h>
#include <stdlib.h>

#define BEGUN_A_LOOP_TURN 4

struct scheduler {
	struct call_queue queues[SCHED_CLASSES];
	struct event *run;
};

static uint64_t now_us(void)
{
	return (uint64_t)(clock_now() / CLOCK_NS_PER_US);
}

static bool begin_one(struct scheduler *scheduler)
{
	for (size_t i = 0; i < SCHED_CLASSES; i++) {
		struct queue_entry *next = call_queue_next(&scheduler->queues[i], now_us());
		struct sched_entry *entry;

		if (!next)
			continue;
		entry = (struct sched_entry *)((char *)next - offsetof(struct sched_entry, queued));
		entry->begin(entry);
		return true;
	}
	return false;
}

static void on_run(evutil_socket_t fd, short what, void *context)
{
	struct scheduler *scheduler = context;
	int begun = 0;

	(void)fd;
	(void)what;
	while (begun < BEGUN_A_LOOP_TURN && begin_one(scheduler))
		begun++;
	if (begun == BEGUN_A_LOOP_TURN)
		event_active(scheduler->run, EV_TIMEOUT, 0);
}

struct scheduler *scheduler_new(struct event_base *base, const struct config_host *host)
{
	struct scheduler *scheduler = calloc(1, sizeof(*scheduler));

	if (!scheduler)
		return NULL;
	scheduler->run = event_new(base, -1, 0, on_run, scheduler);
	if (!scheduler->run || event_priority_set(scheduler->run, LOOP_PRIORITY_BULK) < 0) {
		if (scheduler->run)
			event_free(scheduler->run);
		free(scheduler);
		return NULL;
	}
	call_queue_init(&scheduler->queues[SCHED_JOB], host->file_jobs);
	call_queue_init(&scheduler->queues[SCHED_COMMAND], host->commands);
	return scheduler;
}

void scheduler_free(struct scheduler *scheduler)
{
	if (!scheduler)
		return;
	event_free(scheduler->run);
	free(scheduler);
}

static void run_soon(struct scheduler *scheduler)
{
	event_active(scheduler->run, EV_TIMEOUT, 0);
}

void scheduler_set_host(struct scheduler *scheduler, const struct config_host *host)
{
	scheduler->queues[SCHED_JOB].limit = host->file_jobs;
	scheduler->queues[SCHED_COMMAND].limit = host->commands;
	run_soon(scheduler);
}

static void set_flows(struct scheduler *scheduler, struct tenant *tenant)
{
	struct queue_flow *flows = tenant->usage->flows;

	queue_flow_set(&scheduler->queues[SCHED_JOB], &flows[SCHED_JOB], tenant->weight, SIZE_MAX,
		now_us());
	queue_flow_set(&scheduler->queues[SCHED_COMMAND], &flows[SCHED_COMMAND], tenant->weight,
		tenant->limits.commands, now_us());
}

void scheduler_queues_init(
	struct scheduler *scheduler, struct sched_queues *queues, struct tenant *tenant)
{
	set_flows(scheduler, tenant);
	for (size_t i = 0; i < SCHED_CLASSES; i++)
		workspace_queue_init(&queues->of[i], &tenant->usage->flows[i]);
}

void scheduler_queues_move(
	struct scheduler *scheduler, struct sched_queues *queues, struct tenant *tenant)
{
	set_flows(scheduler, tenant);
	for (size_t i = 0; i < SCHED_CLASSES; i++)
		workspace_queue_move(
			&scheduler->queues[i], &queues->of[i], &tenant->usage->flows[i], now_us());
	run_soon(scheduler);
}

void scheduler_queues_set(struct scheduler *scheduler, struct sched_queues *queues,
	const size_t limits[SCHED_CLASSES])
{
	for (size_t i = 0; i < SCHED_CLASSES; i++) {
		struct workspace_queue *workspace = &queues->of[i];
		bool was_listed = workspace->listed;

		workspace_queue_set(
			&scheduler->queues[i], workspace, limits[i] > 0, limits[i], now_us());
		if (workspace->listed && !was_listed)
			run_soon(scheduler);
	}
}

void scheduler_add(
	struct scheduler *scheduler, struct sched_entry *entry, struct sched_queues *queues)
{
	if (entry->class == SCHED_NONE)
		return;
	call_queue_add(&scheduler->queues[entry->class], &entry->queued, &queues->of[entry->class],
		now_us());
	if (queues->of[entry->class].listed)
		run_soon(scheduler);
}

void scheduler_return(struct scheduler *scheduler, struct sched_entry *entry)
{
	call_queue_return(&scheduler->queues[entry->class], &entry->queued, now_us());
}

void scheduler_remove(struct scheduler *scheduler, struct sched_entry *entry)
{
	if (entry->class == SCHED_NONE)
		return;
	call_queue_remove(&scheduler->queues[entry->class], &entry->queued, now_us());
	if (!LIST_EMPTY(&scheduler->queues[entry->class].flows))
		run_soon(scheduler);
}

void scheduler_run(struct scheduler *scheduler)
{
	while (begin_one(scheduler))
		;
}

uint64_t scheduler_wait_us(const struct scheduler *scheduler, const struct tenant *tenant)
{
	uint64_t longest = 0;

	for (size_t i = 0; i < SCHED_CLASSES; i++) {
		uint64_t wait = queue_flow_wait_us(&scheduler->queues[i], &tenant->usage->flows[i]);

		if (wait > longest)
			longest = wait;
	}
	return longest;
}
