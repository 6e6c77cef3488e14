// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The form of the request has been checked, but it may ask for any amount: the
 * tenant's limits decide.
 */
#include "supervisor/call/call_needs.h"

#include "supervisor/call/call_request.h"
#include "supervisor/config/tenant.h"

/* The shortest of argument, option and limit. */
int64_t call_timeout_ms(const struct call_request *request)
{
	int64_t deadline;

	if (request->session.id)
		return request->session.lifetime_ms;
	deadline = request->tool->id == TOOL_RUN_COMMAND
			   ? request->args.timeout_ms
			   : (int64_t)request->tenant->limits.file_timeout_ms;

	if (request->options.timeout_ms > 0 && request->options.timeout_ms < deadline)
		deadline = request->options.timeout_ms;
	return deadline;
}

enum call_class call_class(const struct call_request *request)
{
	switch (request->tool->id) {
	case TOOL_RUN_COMMAND:
		return request->session.id ? CALL_CLASS_SESSION : CALL_CLASS_COMMAND;
	case TOOL_WRITE_FILE:
	case TOOL_EDIT_FILE:
	case TOOL_APPLY_PATCH:
		return CALL_CLASS_WRITE;
	case TOOL_SEARCH_FILES:
	case TOOL_DIFF:
		return CALL_CLASS_JOB;
	case TOOL_LIST_DIRECTORY:
		return request->args.recursive ? CALL_CLASS_JOB : CALL_CLASS_SHORT;
	default:
		/*
		 * A range may lie deep in a large file; only the files process knows the file's
		 * size.
		 */
		return request->args.start_line > 0 || request->args.end_line > 0
			       ? CALL_CLASS_JOB
			       : CALL_CLASS_SHORT;
	}
}

bool call_is_scheduled(const struct call_request *request)
{
	enum call_class class = call_class(request);

	return class == CALL_CLASS_COMMAND || class == CALL_CLASS_JOB;
}
