/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The error codes of a tool's observation. The names are part of the protocol and never change. The
 * numbers travel only between processes of one version.
 */

#include "common/text.h"

#include <stdint.h>

enum tool_error {
	TOOL_OK = 0,
	TOOL_PATH_OUTSIDE_WORKSPACE,
	TOOL_SYMLINK_OUTSIDE_WORKSPACE,
	TOOL_COMMAND_BLOCKED,
	TOOL_FILE_TOO_LARGE,
	TOOL_UNKNOWN_TOOL,
	TOOL_INVALID_ARGUMENTS,
	TOOL_NOT_FOUND,
	TOOL_NOT_A_DIRECTORY,
	TOOL_IS_A_DIRECTORY,
	TOOL_NOT_A_REGULAR_FILE,
	TOOL_PERMISSION_DENIED,
	TOOL_TOO_MANY_LINKS,
	TOOL_NAME_TOO_LONG,
	TOOL_NO_SPACE,
	TOOL_INVALID_PATTERN,
	TOOL_PATTERN_TOO_COMPLEX,
	TOOL_TIMEOUT,
	TOOL_CANCELLED,
	TOOL_OUTPUT_LIMIT,
	TOOL_MEMORY_LIMIT,
	TOOL_PROCESS_LIMIT,
	TOOL_BUSY,
	TOOL_QUOTA_EXCEEDED,
	TOOL_FORBIDDEN,
	TOOL_WORKSPACE_NOT_FOUND,
	TOOL_WORKER_LOST,
	TOOL_SHUTTING_DOWN,
	TOOL_EXECUTION_ERROR,
	TOOL_NO_MATCH,
	TOOL_AMBIGUOUS_MATCH,
	TOOL_EDITS_OVERLAP,
	TOOL_STALE_FILE,
	TOOL_KEY_CONFLICT,
	TOOL_OUTCOME_UNKNOWN,
	TOOL_SESSION_NOT_FOUND,
	TOOL_MOVED,
	TOOL_LEASE_ENDED,
	TOOL_ERROR_COUNT,
};

/**
 * Returns the protocol's name of @error, such as "NOT_FOUND". A value outside the enum, which a
 * hostile peer could send, gives "EXECUTION_ERROR". Static storage.
 */
const char *tool_error_name(enum tool_error error);

/** Returns the code of that name; a name that is not one gives TOOL_EXECUTION_ERROR. */
enum tool_error tool_error_by_name(struct text name);

/**
 * Returns the code for a failed system call of a file operation. @error_number is a positive
 * errno(3) value. A value without a code gives TOOL_EXECUTION_ERROR.
 */
enum tool_error tool_error_from_errno(int error_number);

/**
 * Returns a sentence for the model about @error, for a caller that knows nothing more exact. Static
 * storage.
 */
const char *tool_error_sentence(enum tool_error error);

/** Returns such a sentence about a failed system call, as tool_error_from_errno(). */
const char *tool_errno_sentence(int error_number);
