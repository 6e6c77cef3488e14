// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Sentences for models and people; no text in them comes from a workspace. */
#include "supervisor/call/call_cause.h"

#include "common/limits.h"
#include "supervisor/call/call_request.h"
#include "supervisor/call/command_cause.h"
#include "supervisor/config/tenant.h"

#include <stdio.h>

const char *call_cause_sentence(const struct call_request *request, enum ended_by cause, bool begun,
	uint64_t after_ms, char *buffer, size_t size)
{
	bool is_command = request->tool->id == TOOL_RUN_COMMAND;
	long long after = (long long)after_ms;

	switch (cause) {
	case ENDED_BY_TIMEOUT:
		if (!begun) {
			snprintf(buffer, size,
				"The call waited %lld ms for its turn, until its deadline, and was "
				"not begun; try again later",
				after);
			return buffer;
		}
		snprintf(buffer, size,
			is_command ? "The command was ended after %lld ms, at its deadline; "
				     "output has what it wrote until then; give a larger "
				     "timeout_ms or a faster command%s"
				   : "The call was ended after %lld ms, at its deadline; ask "
				     "for less at once%s",
			after,
			is_command && request->tenant->tools & TOOLS_SESSIONS
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
		if (!request->session.id)
			return "The command was ended because no connection had its workspace open "
			       "any more; output has what it wrote until then";
		return "The session was ended because its workspace was closed: no connection had "
		       "it open, or it was removed, or the tenant may not use it any more";
	case ENDED_BY_IDLE_TIMEOUT:
		if (request->session.id)
			return "The session was ended because nothing was written or read in it "
			       "for as long as its tenant allows";
		snprintf(buffer, size,
			"The command wrote nothing for %lld ms and was ended; output has what it "
			"wrote "
			"before",
			(long long)request->options.idle_timeout_ms);
		return buffer;
	case ENDED_BY_INPUT:
		return "The command was ended: it waited for input; there is no terminal: use -y "
		       "or give stdin; output has what it wrote until then";
	case ENDED_BY_ADMIN:
		return is_command ? "An administrator ended the command; output has what it "
				    "wrote until then"
				  : "An administrator ended the call";
	case ENDED_BY_DISK:
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
