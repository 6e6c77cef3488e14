// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. A worker can lie here, but only about its own commands. Sentences are for
 * models and people; no text in them comes from a workspace.
 */
#include "supervisor/call/result/ended_by.h"

#include "common/limits.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/config/tenant.h"
#include "supervisor/workspace/limits.h"

#include <inttypes.h>
#include <stdio.h>
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
	[ENDED_BY_LEASE] = {"lease", TOOL_LEASE_ENDED},
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

const char *call_cause_sentence(const struct call_request *request, enum ended_by cause, bool begun,
	uint64_t after_ms, char *buffer, size_t size)
{
	bool is_command = request->tool->id == TOOL_RUN_COMMAND;
	long long after = (long long)after_ms;

	switch (cause) {
	case ENDED_BY_TIMEOUT:
		if (begun && tool_streams(request->tool)) {
			snprintf(buffer, size,
				"The stream was ended after %lld ms: no byte has moved for as long "
				"as its tenant allows, or its timeout_ms are over",
				after);
			return buffer;
		}
		if (!begun) {
			snprintf(buffer, size,
				"The call waited %lld ms for its turn, until its deadline, and was "
				"not begun; try again later",
				after);
			return buffer;
		}
		snprintf(buffer, size,
			is_command ? "The command was ended after %lld ms, at its deadline; output "
				     "has what it wrote until then; give a larger timeout_ms or a "
				     "faster command%s"
				   : "The call was ended after %lld ms, at its deadline; ask for "
				     "less at once%s",
			after,
			is_command && request->tools & TOOLS_SESSIONS
				? ", or background=true for one that is to run on"
				: "");
		return buffer;
	case ENDED_BY_LIFETIME:
		snprintf(buffer, size,
			"The session was ended after %lld ms, when its lifetime was over; start it "
			"again if it is still needed",
			after);
		return buffer;
	case ENDED_BY_WORKSPACE_CLOSED:
		if (request->tool->id == TOOL_FILE_WATCH)
			return "The watch was ended because its client closed the workspace";
		if (!request->session.id)
			return "The command was ended because no connection had its workspace open "
			       "any more; output has what it wrote until then";
		return "The session was ended because its workspace was closed: no connection had "
		       "it open, or it was removed, or the tenant may not use it any more";
	case ENDED_BY_LEASE:
		return is_command
			       ? "The command was ended because the lease of its workspace has "
				 "ended; output has what it wrote until then"
			       : "The call was ended because the lease of its workspace has ended";
	case ENDED_BY_IDLE_TIMEOUT:
		if (request->session.id)
			return "The session was ended because nothing was written or read in it "
			       "for as long as its tenant allows";
		snprintf(buffer, size,
			"The command wrote nothing for %lld ms and was ended; output has what it "
			"wrote before",
			(long long)request->options.idle_timeout_ms);
		return buffer;
	case ENDED_BY_INPUT:
		return "The command was ended: it waited for input; there is no terminal: use -y "
		       "or give stdin; output has what it wrote until then";
	case ENDED_BY_ADMIN:
		return is_command ? "An administrator ended the command; output has what it wrote "
				    "until then"
				  : "An administrator ended the call";
	case ENDED_BY_DISK:
		if (!is_command)
			return "The workspace has no room for the rest of the file, and nothing "
			       "was written; remove files that are not needed, or ask the user";
		return "The workspace takes as much on disk as it may, and the command was ended "
		       "or failed for that; remove files that are not needed, or ask the user; "
		       "output has what it wrote until then";
	case ENDED_BY_OUTPUT_LIMIT:
		snprintf(buffer, size,
			"The command wrote more than %llu KiB and was ended; redirect its output "
			"to a file",
			(unsigned long long)(request->tenant->limits.output_total_bytes / KIB));
		return buffer;
	default:
		return command_cause_sentence(cause, &request->tenant->limits, buffer, size);
	}
}
