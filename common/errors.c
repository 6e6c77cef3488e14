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
		"The path goes through a symbolic link that leads outside the workspace; use a "
		"path that stays inside"},
	[TOOL_COMMAND_BLOCKED] = {"COMMAND_BLOCKED", "The command is on the list of blocked "
						     "commands; do it another way or ask the user"},
	[TOOL_FILE_TOO_LARGE] = {"FILE_TOO_LARGE",
		"The file is too large; use a smaller one, or handle it in parts with run_command"},
	[TOOL_UNKNOWN_TOOL] = {"UNKNOWN_TOOL",
		"There is no tool of this name; use one of those that are offered"},
	[TOOL_INVALID_ARGUMENTS] = {"INVALID_ARGUMENTS",
		"The arguments do not fit the tool; give those that its description names"},
	[TOOL_NOT_FOUND] = {"NOT_FOUND",
		"No such file or directory; list_directory shows what there is"},
	[TOOL_NOT_A_DIRECTORY] = {"NOT_A_DIRECTORY",
		"A part of the path is not a directory; list_directory shows what there is"},
	[TOOL_IS_A_DIRECTORY] = {"IS_A_DIRECTORY",
		"The path is a directory; name a file in it, or use list_directory"},
	[TOOL_NOT_A_REGULAR_FILE] = {"NOT_A_REGULAR_FILE",
		"The path is a FIFO, socket or device, not a regular file; use another one"},
	[TOOL_PERMISSION_DENIED] = {"PERMISSION_DENIED",
		"Permission denied: the workspace's user may not do this there; use another path "
		"or ask the user"},
	[TOOL_TOO_MANY_LINKS] = {"TOO_MANY_LINKS",
		"Too many symbolic links; use the path that they were to lead to"},
	[TOOL_NAME_TOO_LONG] = {"NAME_TOO_LONG",
		"The path or a name in it is too long; use a shorter one"},
	[TOOL_NO_SPACE] = {"NO_SPACE", "No space is left for the file and the old content is "
				       "unchanged; remove what is not needed or ask the user"},
	[TOOL_INVALID_PATTERN] = {"INVALID_PATTERN", "The pattern is not valid; write a backslash "
						     "before characters that stand for themselves"},
	[TOOL_PATTERN_TOO_COMPLEX] = {"PATTERN_TOO_COMPLEX",
		"The pattern takes too long to match; use a simpler one"},
	[TOOL_TIMEOUT] = {"TIMEOUT",
		"The call did not end before its deadline; ask for less at once"},
	[TOOL_CANCELLED] = {"CANCELLED",
		"The call was cancelled; do not repeat it unless you are asked to"},
	[TOOL_OUTPUT_LIMIT] = {"OUTPUT_LIMIT",
		"The command wrote more output than is allowed; redirect its output to a file"},
	[TOOL_MEMORY_LIMIT] = {"MEMORY_LIMIT",
		"The command used more memory than is allowed; handle less data at a time"},
	[TOOL_PROCESS_LIMIT] = {"PROCESS_LIMIT",
		"The command started more processes than are allowed; run fewer at once"},
	[TOOL_BUSY] = {"BUSY", "Too many calls are in flight; try again later"},
	[TOOL_QUOTA_EXCEEDED] = {"QUOTA_EXCEEDED",
		"The disk quota is exhausted; remove what is not needed or ask the user"},
	[TOOL_FORBIDDEN] = {"FORBIDDEN",
		"This is not allowed for this user; ask the administrator of the service"},
	[TOOL_WORKSPACE_NOT_FOUND] = {"WORKSPACE_NOT_FOUND",
		"There is no workspace of this name; workspace.list names those there are"},
	[TOOL_WORKER_LOST] = {"WORKER_LOST",
		"The workspace's process died during the call; try again"},
	[TOOL_SHUTTING_DOWN] = {"SHUTTING_DOWN", "The service is shutting down; try again later"},
	[TOOL_NO_MATCH] = {"NO_MATCH", "The old text is not in the file; read the file again"},
	[TOOL_AMBIGUOUS_MATCH] = {"AMBIGUOUS_MATCH",
		"The old text is in the file more than once; add lines around it"},
	[TOOL_EDITS_OVERLAP] = {"EDITS_OVERLAP",
		"Two edits change the same text; make one edit of them"},
	[TOOL_STALE_FILE] = {"STALE_FILE",
		"The file is not the one that was expected; read it again, nothing was written"},
	[TOOL_EXECUTION_ERROR] = {"EXECUTION_ERROR", "The operation failed; try another way"},
	[TOOL_KEY_CONFLICT] = {"KEY_CONFLICT",
		"This key belongs to another call in this workspace, and nothing was run; repeat "
		"that call unchanged, or use a new key"},
	[TOOL_SESSION_NOT_FOUND] = {"SESSION_NOT_FOUND",
		"There is no such session, or it ended long ago; session.list names those there "
		"are"},
	[TOOL_MOVED] = {"MOVED",
		"The work of this host goes on at another; open the workspace there"},
	[TOOL_LEASE_ENDED] = {"LEASE_ENDED", "The lease of the workspace has ended, and with it "
					     "what ran there; open the workspace again"},
	[TOOL_OUTCOME_UNKNOWN] = {"OUTCOME_UNKNOWN", "The result of this call is lost and it may "
						     "have had effects; look, then use a new key"},
};

const char *tool_error_name(enum tool_error error)
{
	if ((unsigned)error >= TOOL_ERROR_COUNT)
		error = TOOL_EXECUTION_ERROR;
	return table[error].name;
}

enum tool_error tool_error_by_name(struct text name)
{
	for (unsigned error = 0; error < TOOL_ERROR_COUNT; error++)
		if (text_equal(name, text_from(table[error].name)))
			return (enum tool_error)error;
	return TOOL_EXECUTION_ERROR;
}

const char *tool_error_sentence(enum tool_error error)
{
	if ((unsigned)error >= TOOL_ERROR_COUNT)
		error = TOOL_EXECUTION_ERROR;
	return table[error].sentence;
}

/* The tool error of each errno(3) value. A row without a sentence uses the sentence of its code. */
static const struct errno_meaning {
	int error_number;
	enum tool_error error;
	const char *sentence;
} errno_table[] = {
	{ENOENT, TOOL_NOT_FOUND, NULL},
	{ENOTDIR, TOOL_NOT_A_DIRECTORY, NULL},
	{EISDIR, TOOL_IS_A_DIRECTORY, NULL},
	{EACCES, TOOL_PERMISSION_DENIED, NULL},
	{EPERM, TOOL_PERMISSION_DENIED,
		"The file system does not permit it, as with a file that is immutable; use another "
		"path or ask the user"},
	{EROFS, TOOL_PERMISSION_DENIED,
		"The file system is mounted read-only there; use another path or ask the user"},
	{ENOKEY, TOOL_PERMISSION_DENIED,
		"The directory is encrypted and its key is not loaded; use another path or ask the "
		"user"},
	{ELOOP, TOOL_TOO_MANY_LINKS, NULL},
	{ENAMETOOLONG, TOOL_NAME_TOO_LONG, NULL},
	{EILSEQ, TOOL_INVALID_ARGUMENTS,
		"The file system does not take a name of these bytes; use one that is plain UTF-8"},
	{ENOSPC, TOOL_NO_SPACE, NULL},
	{EMLINK, TOOL_NO_SPACE,
		"The directory holds as many directories as its file system allows; use another "
		"one or remove what is not needed"},
	{EDQUOT, TOOL_QUOTA_EXCEEDED, NULL},
	{EFBIG, TOOL_FILE_TOO_LARGE, NULL},
	{EOVERFLOW, TOOL_FILE_TOO_LARGE, NULL},
	{ENXIO, TOOL_NOT_A_REGULAR_FILE, NULL},
	{EXDEV, TOOL_PATH_OUTSIDE_WORKSPACE, NULL},
	{EBUSY, TOOL_BUSY, "Another process or a mount uses it; try again later"},
	{ETXTBSY, TOOL_BUSY, "The file is a program that runs; try again when it has ended"},
	{EMFILE, TOOL_BUSY, "Too many files are open; try again later"},
	{ENFILE, TOOL_BUSY, "Too many files are open on this machine; try again later"},
	{ENOMEM, TOOL_EXECUTION_ERROR, "Out of memory; ask for less at once or try again later"},
	{EIO, TOOL_EXECUTION_ERROR,
		"The disk reported an input/output error; try again, and tell the user if it "
		"stays"},
	{ESTALE, TOOL_EXECUTION_ERROR,
		"The file was removed or replaced on the server of its file system; try again"},
	{ENOTCONN, TOOL_EXECUTION_ERROR,
		"The file system's server has ended; use another path or ask the user"},
	{ETIMEDOUT, TOOL_EXECUTION_ERROR,
		"The file system's server does not answer; try again later or ask the user"},
};

static const struct errno_meaning *meaning_of(int error_number)
{
	for (size_t i = 0; i < ARRAY_SIZE(errno_table); i++)
		if (errno_table[i].error_number == error_number)
			return &errno_table[i];
	return NULL;
}

enum tool_error tool_error_from_errno(int error_number)
{
	const struct errno_meaning *meaning = meaning_of(error_number);

	return meaning ? meaning->error : TOOL_EXECUTION_ERROR;
}

const char *tool_errno_sentence(int error_number)
{
	const struct errno_meaning *meaning = meaning_of(error_number);

	return meaning && meaning->sentence
		       ? meaning->sentence
		       : tool_error_sentence(tool_error_from_errno(error_number));
}
