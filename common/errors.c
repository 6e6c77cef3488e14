// SPDX-License-Identifier: Apache-2.0
#include "common/errors.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stddef.h>

static const struct {
	const char *name;
	const char *sentence;
} table[TOOL_ERROR_COUNT] = {
	[TOOL_OK] = {"OK", "Success"},
	[TOOL_PATH_OUTSIDE_WORKSPACE] = {"PATH_OUTSIDE_WORKSPACE",
		"Invalid path: access outside workspace is not allowed"},
	[TOOL_SYMLINK_OUTSIDE_WORKSPACE] = {"SYMLINK_OUTSIDE_WORKSPACE",
		"The path goes through a symbolic link that leads outside the workspace"},
	[TOOL_COMMAND_BLOCKED] = {"COMMAND_BLOCKED",
		"The command is on the list of blocked commands"},
	[TOOL_FILE_TOO_LARGE] = {"FILE_TOO_LARGE", "The file is too large"},
	[TOOL_UNKNOWN_TOOL] = {"UNKNOWN_TOOL", "There is no tool of this name"},
	[TOOL_INVALID_ARGUMENTS] = {"INVALID_ARGUMENTS", "The arguments do not fit the tool"},
	[TOOL_NOT_FOUND] = {"NOT_FOUND", "No such file or directory"},
	[TOOL_NOT_A_DIRECTORY] = {"NOT_A_DIRECTORY", "A part of the path is not a directory"},
	[TOOL_IS_A_DIRECTORY] = {"IS_A_DIRECTORY", "The path is a directory"},
	[TOOL_NOT_A_REGULAR_FILE] = {"NOT_A_REGULAR_FILE",
		"The path is a FIFO, socket or device, not a regular file"},
	[TOOL_PERMISSION_DENIED] = {"PERMISSION_DENIED", "Permission denied"},
	[TOOL_TOO_MANY_LINKS] = {"TOO_MANY_LINKS", "Too many symbolic links"},
	[TOOL_NAME_TOO_LONG] = {"NAME_TOO_LONG", "The path or a name in it is too long"},
	[TOOL_NO_SPACE] = {"NO_SPACE",
		"No space is left for the file; the old content is unchanged"},
	[TOOL_INVALID_PATTERN] = {"INVALID_PATTERN", "The pattern is not valid"},
	[TOOL_PATTERN_TOO_COMPLEX] = {"PATTERN_TOO_COMPLEX",
		"The pattern takes too long to match; use a simpler one"},
	[TOOL_TIMEOUT] = {"TIMEOUT", "The call did not end before its deadline"},
	[TOOL_CANCELLED] = {"CANCELLED", "The call was cancelled"},
	[TOOL_OUTPUT_LIMIT] = {"OUTPUT_LIMIT", "The command wrote more output than is allowed"},
	[TOOL_MEMORY_LIMIT] = {"MEMORY_LIMIT", "The command used more memory than is allowed"},
	[TOOL_PROCESS_LIMIT] = {"PROCESS_LIMIT",
		"The command started more processes than are allowed"},
	[TOOL_BUSY] = {"BUSY", "Too many calls are in flight; try again later"},
	[TOOL_QUOTA_EXCEEDED] = {"QUOTA_EXCEEDED", "The disk quota is exhausted"},
	[TOOL_FORBIDDEN] = {"FORBIDDEN", "This is not allowed for this user"},
	[TOOL_WORKSPACE_NOT_FOUND] = {"WORKSPACE_NOT_FOUND", "There is no workspace of this name"},
	[TOOL_WORKER_LOST] = {"WORKER_LOST", "The workspace's process died during the call"},
	[TOOL_SHUTTING_DOWN] = {"SHUTTING_DOWN", "The service is shutting down"},
	[TOOL_EXECUTION_ERROR] = {"EXECUTION_ERROR", "The operation failed"},
};

const char *tool_error_name(enum tool_error error)
{
	if ((unsigned)error >= TOOL_ERROR_COUNT)
		error = TOOL_EXECUTION_ERROR;
	return table[error].name;
}

const char *tool_error_sentence(enum tool_error error)
{
	if ((unsigned)error >= TOOL_ERROR_COUNT)
		error = TOOL_EXECUTION_ERROR;
	return table[error].sentence;
}

enum tool_error tool_error_from_errno(int error_number)
{
	static const struct {
		int error_number;
		enum tool_error error;
	} map[] = {
		{ENOENT, TOOL_NOT_FOUND},
		{ENOTDIR, TOOL_NOT_A_DIRECTORY},
		{EISDIR, TOOL_IS_A_DIRECTORY},
		{EACCES, TOOL_PERMISSION_DENIED},
		{EPERM, TOOL_PERMISSION_DENIED},
		{EROFS, TOOL_PERMISSION_DENIED},
		{ELOOP, TOOL_TOO_MANY_LINKS},
		{ENAMETOOLONG, TOOL_NAME_TOO_LONG},
		{ENOSPC, TOOL_NO_SPACE},
		{EDQUOT, TOOL_QUOTA_EXCEEDED},
		{EFBIG, TOOL_FILE_TOO_LARGE},
		{ENXIO, TOOL_NOT_A_REGULAR_FILE},
		{EXDEV, TOOL_PATH_OUTSIDE_WORKSPACE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(map); i++)
		if (map[i].error_number == error_number)
			return map[i].error;
	return TOOL_EXECUTION_ERROR;
}
