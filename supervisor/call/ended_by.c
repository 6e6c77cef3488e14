// SPDX-License-Identifier: Apache-2.0
#include "supervisor/call/ended_by.h"

#include <sys/wait.h>

static const struct {
	const char *name;
	enum tool_error error;
} table[ENDED_BY_COUNT] = {
	[ENDED_BY_EXIT] = {"exit", TOOL_OK},
	[ENDED_BY_SIGNAL] = {"signal", TOOL_OK},
	[ENDED_BY_TIMEOUT] = {"timeout", TOOL_TIMEOUT},
	[ENDED_BY_IDLE_TIMEOUT] = {"idle_timeout", TOOL_TIMEOUT},
	[ENDED_BY_INPUT] = {"input", TOOL_TIMEOUT},
	[ENDED_BY_CANCEL] = {"cancel", TOOL_CANCELLED},
	[ENDED_BY_OUTPUT_LIMIT] = {"output_limit", TOOL_OUTPUT_LIMIT},
	[ENDED_BY_MEMORY] = {"memory", TOOL_MEMORY_LIMIT},
	[ENDED_BY_PIDS] = {"pids", TOOL_PROCESS_LIMIT},
	[ENDED_BY_ADMIN] = {"admin", TOOL_CANCELLED},
	[ENDED_BY_SHUTDOWN] = {"shutdown", TOOL_SHUTTING_DOWN},
	[ENDED_BY_WORKER_LOST] = {"worker_lost", TOOL_WORKER_LOST},
	[ENDED_BY_LIFETIME] = {"lifetime", TOOL_TIMEOUT},
	[ENDED_BY_WORKSPACE_CLOSED] = {"workspace_closed", TOOL_CANCELLED},
	[ENDED_BY_DISK] = {"disk", TOOL_QUOTA_EXCEEDED},
	[ENDED_BY_YIELD] = {"yield", TOOL_OK},
};

enum ended_by ended_by_itself(int wait_status)
{
	return WIFSIGNALED(wait_status) ? ENDED_BY_SIGNAL : ENDED_BY_EXIT;
}

const char *ended_by_name(enum ended_by cause)
{
	return table[cause].name;
}

enum tool_error ended_by_error(enum ended_by cause)
{
	return table[cause].error;
}
