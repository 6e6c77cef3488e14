/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A job is work for one tenant that a child of the spawner does, because it may take long, or may
 * hang: closing descriptors, clearing and measuring trees, copying, merging, reading archives. Each
 * kind of job is a const table: the child's confinement (forked.h), how many run at once and how
 * long, and the functions for its turn and for its end. Tenants take turns (common/fair_queue.h). A
 * child that runs longer than late_ms delays only its own tenant's jobs, even if it was killed and
 * the kernel does not end it.
 *
 * Runs in the spawner.
 */

#include "common/fair_queue.h"
#include "worker/spawner/job/forked.h"

struct job_queue;

#define JOB_WAITS (-4096) /* no errno */

/* The first member of a kind of job's structure. Zeroed memory is a job in no queue. */
struct job {
	struct fair_entry turn; /* first */
	LIST_ENTRY(job) entry;  /* while it runs */
	struct job_queue *queue;
	pid_t pid; /* 0: none */
	uint64_t began_us;
	uint64_t pass; /* of its queue, in which it was tried last */
	int ended;     /* -errno: why the spawner has ended it; 0: it has not */
};

struct job_kind {
	size_t at_once;      /* children of all tenants, but late ones */
	size_t of_tenant;    /* of one tenant, late ones among them */
	size_t kept;         /* of at_once, for tenants that have none */
	uint64_t late_ms;    /* from when on it does not count for other tenants */
	uint64_t end_ms;     /* when it is killed; 0: its resource limits end it */
	bool is_tried_again; /* a job that cannot begin now is tried when any child has ended */
	/* Starts the child of a job whose turn it is. Returns its pid; JOB_WAITS if it cannot begin
	 * now, though others may; or 0 or -errno: it has ended so. */
	pid_t (*start)(struct job *job);
	/* Whether the job has another turn after its child has ended with @status. NULL: never. */
	bool (*again)(struct job *job, int status);
	/* Called every look_ms for a running job: returns -errno to kill it for that reason, or 0.
	 * NULL: never. */
	int look_ms;
	int (*look)(const struct job *job);
	/* Decodes the exit status: 0 or -errno. NULL: forked_result(). */
	int (*result)(int status);
	/* The job has ended with @result, 0 or -errno, and belongs to nobody: frees it. */
	void (*ended)(struct job *job, int result);
};

/* All queues of the spawner. */
struct jobs {
	LIST_HEAD(, job_queue) queues;
};

struct job_queue {
	LIST_ENTRY(job_queue) entry;
	const struct job_kind *kind;
	void *owner;
	struct fair_queue turns;
	LIST_HEAD(, job) running;
	bool held; /* no job begins */
	uint64_t pass;
};

void jobs_init(struct jobs *jobs);
/** Adds an empty @queue for jobs of @kind. */
void job_queue_init(
	struct job_queue *queue, struct jobs *jobs, const struct job_kind *kind, void *owner);

/** @job of @tenant waits for its turn, which may have come already. Returns 0 or -ENOMEM. */
int job_add(struct job_queue *queue, struct job *job, const char *tenant);
/** Takes a job out of its queue, and kills its child. It belongs to the caller again. */
void job_cancel(struct job *job);
/** Kills the child of a job. It ends with @error when that has been reaped. */
void job_end(struct job *job, int error);

/** Begins what can begin now. */
void job_queue_go_on(struct job_queue *queue);
/** While @held, no job begins. */
void job_queue_hold(struct job_queue *queue, bool held);
/** How many jobs of @tenant wait or run. */
size_t job_queue_count(const struct job_queue *queue, const char *tenant);

/** How long the job has run. */
uint64_t job_us(const struct job *job);

/** @pid has been reaped with @status. Returns whether it was a job's. */
bool jobs_reaped(struct jobs *jobs, pid_t pid, int status);
/** Returns the time in ms until jobs_look() must be called; -1: never. */
int jobs_bound(const struct jobs *jobs);
/** Kills jobs that have run for too long, and begins jobs that waited for late ones. */
void jobs_look(struct jobs *jobs);
