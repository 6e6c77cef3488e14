// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. A worker can lie here, but only about its own commands. */
#include "supervisor/call/command_cause.h"

#include "common/limits.h"
#include "supervisor/workspace/limits.h"

#include <stdio.h>
#include <sys/wait.h>

enum ended_by command_cause(const struct command_ended *ended)
{
	int status = (int)ended->wait_status;
	bool ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;

	if (!ended_well && ended->cgroup.oom_kills > 0)
		return ENDED_BY_MEMORY;
	if (!ended_well && ended->cgroup.refused_forks > 0)
		return ENDED_BY_PIDS;
	if (!ended_well && ended->disk_full)
		return ENDED_BY_DISK;
	return ended_by_itself(status);
}

const char *command_cause_sentence(
	enum ended_by cause, const struct tenant_limits *limits, char *buffer, size_t size)
{
	switch (cause) {
	case ENDED_BY_MEMORY:
		snprintf(buffer, size,
			"The command was killed because it needed too much memory: a command may "
			"use %llu MiB, all of a workspace together %llu MiB; handle less data at a "
			"time or run fewer jobs at once, and see output for what it wrote until "
			"then",
			(unsigned long long)(limits_of_command(limits).memory_bytes / MIB),
			(unsigned long long)(limits_of_workspace(limits).memory_bytes / MIB));
		return buffer;
	case ENDED_BY_PIDS:
		snprintf(buffer, size,
			"The command failed at the limit of processes and threads: a command may "
			"have %u, all of a workspace together %u; run fewer jobs at once, and see "
			"output for what it wrote until then",
			limits_of_command(limits).processes, limits_of_workspace(limits).processes);
		return buffer;
	default:
		return NULL;
	}
}
