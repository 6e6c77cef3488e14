// SPDX-License-Identifier: Apache-2.0
/* Runs in the spawner. What a child works on is hostile, and may keep it from ending. */
#include "worker/spawner/job/job.h"

#include "common/cleanup.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void jobs_init(struct jobs *jobs)
{
	LIST_INIT(&jobs->queues);
}

void job_queue_init(
	struct job_queue *queue, struct jobs *jobs, const struct job_kind *kind, void *owner)
{
	*queue = (struct job_queue){.kind = kind, .owner = owner};
	fair_queue_init(&queue->turns, kind->at_once, kind->of_tenant, kind->kept);
	LIST_INIT(&queue->running);
	LIST_INSERT_HEAD(&jobs->queues, queue, entry);
}

static void finish_job(struct job *job, int result)
{
	fair_queue_end(&job->queue->turns, &job->turn, now_us());
	job->queue->kind->ended(job, result);
}

static bool is_untried(void *context, struct fair_entry *entry)
{
	const struct job_queue *queue = context;

	return ((struct job *)entry)->pass != queue->pass;
}

void job_queue_go_on(struct job_queue *queue)
{
	struct job *job;

	queue->pass++;
	while (!queue->held &&
		(job = (struct job *)fair_queue_next(&queue->turns, now_us(), is_untried, queue))) {
		pid_t pid;

		job->pass = queue->pass;
		job->began_us = now_us();
		pid = queue->kind->start(job);
		if (pid > 0) {
			job->pid = pid;
			LIST_INSERT_HEAD(&queue->running, job, entry);
		} else if (pid == JOB_WAITS) {
			fair_queue_return(&queue->turns, &job->turn, now_us());
		} else {
			finish_job(job, pid);
		}
	}
}

int job_add(struct job_queue *queue, struct job *job, const char *tenant)
{
	int r = fair_queue_add(&queue->turns, &job->turn, text_from(tenant));

	if (r < 0)
		return r;
	job->queue = queue;
	job->pid = 0;
	job->ended = 0;
	job->pass = 0;
	job_queue_go_on(queue);
	return 0;
}

void job_cancel(struct job *job)
{
	if (job->turn.state == FAIR_NOWHERE)
		return;
	if (job->pid > 0) {
		kill(job->pid, SIGKILL);
		LIST_REMOVE(job, entry);
		job->pid = 0;
	}
	fair_queue_end(&job->queue->turns, &job->turn, now_us());
}

void job_end(struct job *job, int error)
{
	if (job->pid <= 0 || job->ended < 0)
		return;
	job->ended = error;
	kill(job->pid, SIGKILL);
}

void job_queue_hold(struct job_queue *queue, bool held)
{
	queue->held = held;
	job_queue_go_on(queue);
}

size_t job_queue_count(const struct job_queue *queue, const char *tenant)
{
	return fair_queue_count(&queue->turns, text_from(tenant));
}

uint64_t job_us(const struct job *job)
{
	return now_us() - job->began_us;
}

static struct job *find_job(const struct jobs *jobs, pid_t pid)
{
	const struct job_queue *queue;
	struct job *job;

	LIST_FOREACH (queue, &jobs->queues, entry)
		LIST_FOREACH (job, &queue->running, entry)
			if (job->pid == pid)
				return job;
	return NULL;
}

bool jobs_reaped(struct jobs *jobs, pid_t pid, int status)
{
	struct job *job = find_job(jobs, pid);
	struct job_queue *queue;

	/* What could not start for want of memory may be able to now. */
	LIST_FOREACH (queue, &jobs->queues, entry)
		if (!job && queue->kind->is_tried_again)
			job_queue_go_on(queue);
	if (!job)
		return false;
	queue = job->queue;
	LIST_REMOVE(job, entry);
	job->pid = 0;
	if (job->ended == 0 && queue->kind->again && queue->kind->again(job, status))
		fair_queue_return(&queue->turns, &job->turn, now_us());
	else
		finish_job(job, job->ended < 0        ? job->ended
				: queue->kind->result ? queue->kind->result(status)
						      : forked_result(status));
	job_queue_go_on(queue);
	return true;
}

/* In how many ms @job has run for too long; -1: never. */
static int late_in(const struct job *job)
{
	const struct job_kind *kind = job->queue->kind;
	uint64_t ran_ms = job_us(job) / 1000, next_ms;

	if (job->turn.state == FAIR_RUNS)
		next_ms = kind->late_ms;
	else if (kind->end_ms > 0 && job->ended == 0)
		next_ms = kind->end_ms;
	else
		return -1;
	return ran_ms < next_ms ? (int)(next_ms - ran_ms) : 0;
}

int jobs_bound(const struct jobs *jobs)
{
	const struct job_queue *queue;
	const struct job *job;
	int bound = -1, ms;

	LIST_FOREACH (queue, &jobs->queues, entry)
		LIST_FOREACH (job, &queue->running, entry) {
			ms = late_in(job);
			if (ms >= 0 && (bound < 0 || ms < bound))
				bound = ms;
			ms = queue->kind->look_ms;
			if (queue->kind->look && (bound < 0 || ms < bound))
				bound = ms;
		}
	return bound;
}

void jobs_look(struct jobs *jobs)
{
	struct job_queue *queue;
	struct job *job;

	LIST_FOREACH (queue, &jobs->queues, entry) {
		bool is_late = false;

		LIST_FOREACH (job, &queue->running, entry) {
			int r = queue->kind->look ? queue->kind->look(job) : 0;

			if (r < 0)
				job_end(job, r);
			if (late_in(job) != 0)
				continue;
			if (job->turn.state == FAIR_RUNS) {
				is_late = true;
				fair_queue_late(&queue->turns, &job->turn, now_us());
			} else {
				job_end(job, -ETIMEDOUT);
			}
		}
		if (is_late)
			job_queue_go_on(queue);
	}
}
