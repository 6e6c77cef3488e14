// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/schedule/scheduler.h"

#include "common/limits.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/base/timer.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/cpu_load.h"
#include "supervisor/schedule/usage.h"

#include <event2/event.h>
#include <stdlib.h>

#define BEGUN_A_LOOP_TURN 4

struct scheduler {
	struct call_queue queues[SCHED_CLASSES];
	struct cpu_load load;
	struct event *run;
	size_t elsewhere;        /* commands of another generation */
	struct timer look_again; /* set while a command waits for the soft limit */
};

static uint64_t now_us(void)
{
	return (uint64_t)(clock_now() / CLOCK_NS_PER_US);
}

static bool has_soft_limit(const struct scheduler *scheduler)
{
	return scheduler->queues[SCHED_COMMAND].soft_limit != SIZE_MAX;
}

/* Commands that compute are few for each CPU; those that sleep keep no CPU from others. */
static void look_for_room(struct scheduler *scheduler)
{
	struct call_queue *commands = &scheduler->queues[SCHED_COMMAND];

	if (call_queue_is_held(commands))
		commands->has_room = cpu_load_now(&scheduler->load, now_us()) + 1 <=
				     (double)commands->soft_limit;
}

static bool begin_one(struct scheduler *scheduler)
{
	look_for_room(scheduler);
	for (size_t i = 0; i < SCHED_CLASSES; i++) {
		struct queue_entry *next = call_queue_next(&scheduler->queues[i], now_us());
		struct sched_entry *entry;

		if (!next)
			continue;
		if (i == SCHED_COMMAND && has_soft_limit(scheduler))
			cpu_load_begun(&scheduler->load, now_us());
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
	else if (call_queue_is_held(&scheduler->queues[SCHED_COMMAND]))
		timer_set_ns(&scheduler->look_again, CPU_LOAD_LOOK_US * CLOCK_NS_PER_US);
}

static void on_look_again(void *context)
{
	struct scheduler *scheduler = context;

	event_active(scheduler->run, EV_TIMEOUT, 0);
}

/* Keeps places for tenants that run none, not more than there can be of these. */
static void set_limit(struct call_queue *queue, size_t limit, size_t n_tenants)
{
	size_t kept = limit / LIMIT_PLACES_KEPT_PART, others = n_tenants > 0 ? n_tenants - 1 : 0;

	queue->limit = limit;
	queue->kept = kept < others ? kept : others;
}

static void set_scheduler_limits(struct scheduler *scheduler, const struct config *config)
{
	const struct config_host *host = &config->host;
	struct call_queue *commands = &scheduler->queues[SCHED_COMMAND];

	set_limit(&scheduler->queues[SCHED_JOB], host->file_jobs, config->n_tenants);
	set_limit(commands,
		host->commands > scheduler->elsewhere ? host->commands - scheduler->elsewhere : 0,
		config->n_tenants);
	commands->soft_limit = host->commands_per_cpu > 0 && cpu_load_is_known(&scheduler->load)
				       ? host->commands_per_cpu * scheduler->load.cpus
				       : SIZE_MAX;
}

struct scheduler *scheduler_new(struct event_base *base, const struct config *config)
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
	for (size_t i = 0; i < SCHED_CLASSES; i++)
		call_queue_init(&scheduler->queues[i], 0);
	timer_init(&scheduler->look_again, on_look_again, scheduler);
	cpu_load_open(&scheduler->load);
	set_scheduler_limits(scheduler, config);
	return scheduler;
}

void scheduler_free(struct scheduler *scheduler)
{
	if (!scheduler)
		return;
	timer_cancel(&scheduler->look_again);
	event_free(scheduler->run);
	cpu_load_close(&scheduler->load);
	free(scheduler);
}

static void run_soon(struct scheduler *scheduler)
{
	event_active(scheduler->run, EV_TIMEOUT, 0);
}

void scheduler_set_config(struct scheduler *scheduler, const struct config *config)
{
	set_scheduler_limits(scheduler, config);
	run_soon(scheduler);
}

void scheduler_set_elsewhere(
	struct scheduler *scheduler, const struct config *config, size_t commands)
{
	scheduler->elsewhere = commands;
	scheduler_set_config(scheduler, config);
}

size_t scheduler_commands(const struct scheduler *scheduler)
{
	return scheduler->queues[SCHED_COMMAND].n_running;
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
	if (entry->class == SCHED_COMMAND)
		cpu_load_ended(&scheduler->load);
}

void scheduler_remove(struct scheduler *scheduler, struct sched_entry *entry)
{
	if (entry->class == SCHED_NONE)
		return;
	if (entry->class == SCHED_COMMAND && entry->queued.workspace && entry->queued.running)
		cpu_load_ended(&scheduler->load);
	call_queue_remove(&scheduler->queues[entry->class], &entry->queued, now_us());
	if (!LIST_EMPTY(&scheduler->queues[entry->class].flows))
		run_soon(scheduler);
}

void scheduler_run(struct scheduler *scheduler)
{
	while (begin_one(scheduler))
		;
}

bool scheduler_soft_limit(const struct scheduler *scheduler, uint64_t *ret_limit)
{
	if (!has_soft_limit(scheduler))
		return false;
	*ret_limit = scheduler->queues[SCHED_COMMAND].soft_limit;
	return true;
}

bool scheduler_load(
	struct scheduler *scheduler, double *ret_runnable, double *ret_average, unsigned *ret_cpus)
{
	if (!cpu_load_is_known(&scheduler->load))
		return false;
	*ret_runnable = cpu_load_now(&scheduler->load, now_us());
	*ret_average = scheduler->load.average;
	*ret_cpus = scheduler->load.cpus;
	return true;
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
