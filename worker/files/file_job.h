/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/channel.h"
#include "common/limits.h"
#include "worker/files/reply.h"
#include "worker/files/root_open.h"

#include <poll.h>

/*
 * cloister-files: calls that can take long run in a forked child, so that none delays another and a
 * deadline can kill each. The child writes its frames to a pipe, and the parent passes whole ones
 * on: a job that is killed in the middle of a frame tears nothing.
 */

/* What a job does: answers @reply with exactly one reply_end or reply_error. @request is as given
 * to job_table_start. */
typedef void (*job_function)(const struct root *root, const void *request, struct reply *reply);

/* The calls' jobs and the one that sweeps. */
#define JOB_TABLE_SIZE (LIMIT_FILE_JOBS + 1)

struct job_table;

/** An empty table whose results go to @up (borrowed, blocking). NULL: out of memory. */
struct job_table *job_table_new(int up);

/** Starts @function for @call in a child. -EBUSY: JOB_TABLE_SIZE are running. Otherwise 0 or
 * -errno. */
int job_table_start(struct job_table *table, const struct root *root, uint64_t call,
	job_function function, const void *request);

/** Kills the job of @call, if there is one, and answers CANCELLED. 0, or -errno when cloisterd is
 * gone. */
int job_table_cancel(struct job_table *table, uint64_t call);

/** Fills @poll_fds (JOB_TABLE_SIZE of them) with the running jobs' pipes and returns how
 * many. */
size_t job_table_poll_fds(const struct job_table *table, struct pollfd *poll_fds);

/** Passes on what the jobs have written, and ends those that are done. 0, or -errno when cloisterd
 * is gone. */
int job_table_serve(struct job_table *table);
