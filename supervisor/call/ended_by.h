/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Why a call ended, said in a run_command's output and implied by a failed call's code. */

#include "common/errors.h"

enum ended_by {
	ENDED_BY_EXIT,   /* by itself, with an exit code */
	ENDED_BY_SIGNAL, /* which need not be the kernel's: SIGSYS can be sent, or be of a filter of
			    its own */
	ENDED_BY_TIMEOUT,
	ENDED_BY_IDLE_TIMEOUT,
	ENDED_BY_CANCEL,
	ENDED_BY_OUTPUT_LIMIT,
	ENDED_BY_MEMORY, /* killed at the limit of its cgroup */
	ENDED_BY_PIDS,   /* failed at the limit of processes */
	ENDED_BY_ADMIN,  /* through the control socket */
	ENDED_BY_SHUTDOWN,
	ENDED_BY_WORKER_LOST,
	ENDED_BY_COUNT,
};

/** Why a shell ended that nobody told to: @wait_status as of wait(2). */
enum ended_by ended_by_itself(int wait_status);

/** The protocol's name, such as "idle_timeout". Static storage. */
const char *ended_by_name(enum ended_by cause);

/** The code of a call that ended so: TOOL_OK for exit and signal. */
enum tool_error ended_by_error(enum ended_by cause);
