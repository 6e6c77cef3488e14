/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Why a call ended: part of run_command's output, and the source of a failed call's code. */

#include "common/errors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call_request;
struct command_ended;
struct tenant_limits;

enum ended_by {
	ENDED_BY_EXIT, /* the command ended by itself with an exit code */
	/*
	 * a signal, not necessarily from the kernel: a command can send SIGSYS, or install a filter
	 */
	ENDED_BY_SIGNAL,
	ENDED_BY_TIMEOUT,
	ENDED_BY_IDLE_TIMEOUT,
	ENDED_BY_INPUT, /* it waited for input that never comes */
	ENDED_BY_CANCEL,
	ENDED_BY_OUTPUT_LIMIT,
	ENDED_BY_MEMORY, /* killed at the memory limit of its cgroup */
	ENDED_BY_PIDS,   /* failed at the limit of processes */
	ENDED_BY_ADMIN,  /* an administrator ended it on the control socket */
	ENDED_BY_SHUTDOWN,
	ENDED_BY_WORKER_LOST,
	ENDED_BY_LIFETIME,         /* a session has run as long as it may */
	ENDED_BY_WORKSPACE_CLOSED, /* a session's workspace is gone, or nobody uses it */
	ENDED_BY_DISK,  /* ended, or failed, because the workspace takes all that it may on disk */
	ENDED_BY_YIELD, /* only the call has ended: the command goes on as that of a session */
	ENDED_BY_LEASE, /* the lease of its workspace has ended */
	ENDED_BY_COUNT,
};

/** Returns the cause for a shell that was not cancelled; @wait_status is that of wait(2). */
enum ended_by ended_by_itself(int wait_status);

/** Returns the protocol's name, such as "idle_timeout". Static storage. */
const char *ended_by_name(enum ended_by cause);

/** Returns the error code of a call that ended so: TOOL_OK for exit, signal and yield. */
enum tool_error ended_by_error(enum ended_by cause);

/**
 * Returns why a command ended that cloisterd did not cancel, from its shell's status and its
 * cgroup's counters. memory and pids are causes only if the shell was killed or failed: if a limit
 * was exceeded and the command succeeded, the limit did not end it.
 */
enum ended_by command_cause(const struct command_ended *ended);

/**
 * Writes to @buffer what to do about @cause, given @limits. Returns NULL for a cause that needs no
 * advice.
 */
const char *command_cause_sentence(
	enum ended_by cause, const struct tenant_limits *limits, char *buffer, size_t size);

/**
 * Returns a sentence that says why a call like @request ended with @cause, @after_ms after its
 * admission, and what to do about it; @begun is false if it was still waiting. The sentence is in
 * @buffer or static. NULL: the error code's own sentence is enough.
 */
const char *call_cause_sentence(const struct call_request *request, enum ended_by cause, bool begun,
	uint64_t after_ms, char *buffer, size_t size);
