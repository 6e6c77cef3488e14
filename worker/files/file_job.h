/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/limits.h"
#include "common/wire/channel.h"
#include "worker/files/reply.h"
#include "worker/files/walk/root_open.h"

#include <poll.h>

/*
 * Calls that may take long run in jobs, forked children of the files process, so that none delays
 * another and each can be killed at its deadline. The child writes frames to a pipe and the parent
 * forwards only whole ones, so a killed job leaves no partial frame.
 */

/*
 * The work of a job: answers @reply with exactly one reply_end() or reply_error(). @request is the
 * one given to job_table_start().
 */
typedef void (*job_function)(const struct root *root, const void *request, struct reply *reply);

/* The jobs of calls, one that sweeps, and those that watch. */
#define JOB_TABLE_SIZE (LIMIT_FILE_JOBS + 1 + LIMIT_FILE_WATCHES)

struct job_table;

/**
 * Returns an empty table whose results go to @up (borrowed, blocking), or NULL if memory is out.
 */
struct job_table *job_table_new(int up);

/**
 * Runs @function for @call in a child. Returns 0, -EBUSY if JOB_TABLE_SIZE jobs are running, or
 * another -errno.
 */
int job_table_start(struct job_table *table, const struct root *root, uint64_t call,
	job_function function, const void *request);

/** Likewise, but passes on only as many bytes as job_table_more() has allowed, and less than a
 * frame more. The job waits in write(2) meanwhile. */
int job_table_start_pulled(struct job_table *table, const struct root *root, uint64_t call,
	job_function function, const void *request);

/**
 * Passes on @bytes more of the job of @call, if there is one. Returns 0, or -errno if cloisterd is
 * gone.
 */
int job_table_more(struct job_table *table, uint64_t call, uint64_t bytes);

/** Kills the job of @call, if there is one; CANCELLED is answered once the job is gone. */
void job_table_cancel(struct job_table *table, uint64_t call);

/**
 * Fills @poll_fds (JOB_TABLE_SIZE of them) with the pipes of jobs and returns their number.
 */
size_t job_table_poll_fds(const struct job_table *table, struct pollfd *poll_fds);

/**
 * Forwards the frames that jobs have written, and ends the jobs that are done. Returns 0, or -errno
 * if cloisterd is gone.
 */
int job_table_serve(struct job_table *table);
