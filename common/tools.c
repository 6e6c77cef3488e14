// SPDX-License-Identifier: Apache-2.0
#include "common/tools.h"

#include "common/cleanup.h"
#include "common/config_defaults.h"
#include "common/limits.h"
#include "common/wire/wire_files.h"

#include <errno.h>
#include <stdio.h>

/*
 * Bounds of a row's string. The least length is 1 where an empty string has no meaning of its own.
 */
#define PATH_BOUNDS    .min = 1, .max = LIMIT_PATH_BYTES, .too_long = TOOL_NAME_TOO_LONG
#define PATTERN_BOUNDS .max = LIMIT_PATTERN_BYTES, .too_long = TOOL_INVALID_ARGUMENTS
#define VERSION_BOUNDS .min = 1, .max = FILES_VERSION_BYTES, .too_long = TOOL_INVALID_ARGUMENTS
#define NAME_BOUNDS    .min = 1, .max = LIMIT_SESSION_NAME_BYTES, .too_long = TOOL_INVALID_ARGUMENTS
#define FIELD(name)    .offset = offsetof(struct tool_args, name)
/* A parameter has the name of its field. */
#define PARAM(field, kind) .name = #field, .type = PARAM_##kind, FIELD(field)

/* clang-format off */
const struct tool tools[TOOL_COUNT] = {
	[TOOL_READ_FILE] = {.id = TOOL_READ_FILE, .name = "read_file",
		.description = "Read the contents of a file. Returns content with line numbers. "
			"Use start_line/end_line to read a specific range.",
		.params = {
			{PARAM(path, STRING), .required = true, PATH_BOUNDS,
				.description = "File path relative to workspace root"},
			{PARAM(start_line, INTEGER), .min = 1, .max = INT64_MAX,
				.description = "Starting line number (1-based, optional)"},
			{PARAM(end_line, INTEGER), .min = 1, .max = INT64_MAX,
				.description = "Ending line number (inclusive, optional)"},
		}},
	[TOOL_WRITE_FILE] = {.id = TOOL_WRITE_FILE, .name = "write_file",
		.description = "Write content to a file. Creates parent directories if needed. "
			"Overwrites existing content.",
		.params = {
			{PARAM(path, STRING), .required = true, PATH_BOUNDS,
				.description = "File path relative to workspace root"},
			{PARAM(content, STRING), .required = true, .nul_allowed = true,
				.max = LIMIT_CONTENT_TEXT_BYTES, .max_plain = LIMIT_CONTENT_BYTES,
				.too_long = TOOL_FILE_TOO_LARGE,
				.description = "The whole new content of the file"},
			{PARAM(create_dirs, BOOLEAN), .has_default = true, .number = true,
				.description = "Create missing parent directories (default true)"},
			{PARAM(expect, STRING), .set = TOOLS_EDIT, VERSION_BOUNDS,
				.description = "Write only if the file has this version, or "
					"\"absent\" if there must be none"},
		}},
	[TOOL_LIST_DIRECTORY] = {.id = TOOL_LIST_DIRECTORY, .name = "list_directory",
		.description = "List files and directories at the given path. Use recursive=true "
			"for deep listing. Use pattern for glob filtering.",
		.params = {
			{PARAM(path, STRING), .required = true, PATH_BOUNDS,
				.description = "Directory path relative to workspace root; \".\" "
					"is the root itself"},
			{PARAM(recursive, BOOLEAN), .has_default = true, .number = false,
				.description = "List subdirectories too (default false)"},
			{PARAM(pattern, STRING), PATTERN_BOUNDS,
				.description = "Glob that the entries must match, such as *.c "
					"(optional)"},
		}},
	[TOOL_RUN_COMMAND] = {.id = TOOL_RUN_COMMAND, .name = "run_command",
		.description = "Execute a shell command in the workspace directory. Returns "
			"stdout, stderr, and exit code. Timeout default 30 seconds.",
		.params = {
			{PARAM(command, STRING), .required = true, .min = 1,
				.max = LIMIT_COMMAND_BYTES, .too_long = TOOL_INVALID_ARGUMENTS,
				.description = "The command line, run by /bin/sh"},
			{PARAM(timeout_ms, INTEGER), .has_default = true,
				.number = DEFAULT_COMMAND_MS, .min = 1, .max = LIMIT_COMMAND_MAX_MS,
				.description = "Milliseconds after which the command is ended "
					"(default 30000)"},
			{PARAM(background, BOOLEAN), .set = TOOLS_SESSIONS, .has_default = true,
				.number = false,
				.description = "Let it run on, for a server or a watcher: the "
					"answer comes within a second (default false)"},
			{PARAM(name, STRING), .set = TOOLS_SESSIONS, NAME_BOUNDS,
				.description = "A short name for a command in the background, "
					"such as server (optional)"},
		}},
	[TOOL_SEARCH_FILES] = {.id = TOOL_SEARCH_FILES, .name = "search_files",
		.description = "Search for a regex pattern across files. Returns matching lines "
			"with file paths and line numbers. Max 50 results.",
		.params = {
			{PARAM(pattern, STRING), .required = true, .min = 1, PATTERN_BOUNDS,
				.description = "Regular expression (PCRE2 syntax)"},
			{PARAM(path, STRING), .has_default = true, .text = ".", PATH_BOUNDS,
				.description = "File or directory to search, relative to "
					"workspace root (default \".\")"},
			{PARAM(file_pattern, STRING), PATTERN_BOUNDS,
				.description = "Glob that file names must match, such as *.js "
					"(optional)"},
			{PARAM(max_results, INTEGER), .has_default = true,
				.number = LIMIT_SEARCH_RESULTS, .min = 1,
				.max = LIMIT_SEARCH_RESULTS,
				.description = "The most matches to return (default 50, at most "
					"50)"},
			{PARAM(context, INTEGER), .set = TOOLS_EDIT, .min = 0,
				.max = LIMIT_SEARCH_CONTEXT,
				.description = "Lines to show before and after each match "
					"(default 0)"},
			{PARAM(offset, INTEGER), .set = TOOLS_EDIT, .min = 0,
				.max = LIMIT_SEARCH_OFFSET,
				.description = "Matches to pass over: 50 for the next 50 "
					"(default 0)"},
			{PARAM(limit, INTEGER), .set = TOOLS_EDIT, .min = 1,
				.max = LIMIT_SEARCH_MOST,
				.description = "The most matches to return, in place of "
					"max_results"},
		}},
	[TOOL_EDIT_FILE] = {.id = TOOL_EDIT_FILE, .set = TOOLS_EDIT, .name = "edit_file",
		.description = "Replace exact pieces of text in a file. Each old text must occur "
			"exactly once; all edits are made or none. Returns the diff.",
		.params = {
			{PARAM(path, STRING), .required = true, PATH_BOUNDS,
				.description = "File path relative to workspace root"},
			{PARAM(edits, EDITS), .required = true,
				.description = "The edits, matched against the file as it is; "
					"old without line numbers"},
			{PARAM(expect, STRING), VERSION_BOUNDS,
				.description = "Edit only if the file has this version"},
		}},
	[TOOL_APPLY_PATCH] = {.id = TOOL_APPLY_PATCH, .set = TOOLS_PATCH, .name = "apply_patch",
		.description = "Add, update, move and delete files by one patch: all of it is "
			"done or nothing. Begins with \"*** Begin Patch\" and ends with \"*** "
			"End Patch\".",
		.params = {
			{PARAM(patch, STRING), .required = true, .min = 1, .max = LIMIT_PATCH_BYTES,
				.too_long = TOOL_FILE_TOO_LARGE,
				.description = "*** Add File: PATH, then lines with +; *** "
					"Delete File: PATH; *** Update File: PATH, optionally "
					"*** Move to: PATH, then hunks: @@ or @@ and a line "
					"above, then lines with space, - or +. A hunk's lines "
					"with space and - must occur once"},
		}},
	[TOOL_READ_OUTPUT] = {.id = TOOL_READ_OUTPUT, .set = TOOLS_SESSIONS, .on_sessions = true, .name = "read_output",
		.description = "Read what a command in the background has written since it was "
			"read last, and whether it still runs.",
		.params = {
			{PARAM(name, STRING), .required = true, NAME_BOUNDS,
				.description = "Name of the command"},
			{PARAM(wait_for, STRING), .min = 1, .max = LIMIT_SESSION_UNTIL_BYTES,
				.too_long = TOOL_INVALID_ARGUMENTS,
				.description = "Text to wait for in the output, such as "
					"listening (optional)"},
			{PARAM(wait_ms, INTEGER), .has_default = true,
				.number = DEFAULT_OUTPUT_WAIT_MS, .min = 0,
				.max = LIMIT_SESSION_WAIT_MS,
				.description = "Milliseconds to wait at most for new output, or "
					"for wait_for (default 10000)"},
			{PARAM(after, INTEGER), .min = 0, .max = INT64_MAX,
				.description = "Read from this byte of the output on; 0 is its "
					"beginning (optional)"},
		}},
	[TOOL_SEND_INPUT] = {.id = TOOL_SEND_INPUT, .set = TOOLS_SESSIONS, .on_sessions = true, .name = "send_input",
		.description = "Type a line into a command in the background. Returns what it "
			"writes within a second.",
		.params = {
			{PARAM(name, STRING), .required = true, NAME_BOUNDS,
				.description = "Name of the command"},
			{PARAM(input, STRING), .required = true, .nul_allowed = true,
				.max = (LIMIT_TOOL_INPUT_BYTES + 2) / 3 * 4,
				.max_plain = LIMIT_TOOL_INPUT_BYTES,
				.too_long = TOOL_INVALID_ARGUMENTS,
				.description = "The text"},
			{PARAM(newline, BOOLEAN), .has_default = true, .number = true,
				.description = "End the text with a newline unless it ends with "
					"a control character (default true)"},
			{PARAM(eof, BOOLEAN), .has_default = true, .number = false,
				.description = "Close the input of the command after it (default "
					"false)"},
		}},
	[TOOL_STOP_COMMAND] = {.id = TOOL_STOP_COMMAND, .set = TOOLS_SESSIONS, .on_sessions = true, .name = "stop_command",
		.description = "End a command in the background and all that it started. Returns "
			"its last output.",
		.params = {
			{PARAM(name, STRING), .required = true, NAME_BOUNDS,
				.description = "Name of the command"},
		}},
	[TOOL_LIST_COMMANDS] = {.id = TOOL_LIST_COMMANDS, .set = TOOLS_SESSIONS, .on_sessions = true, .name = "list_commands",
		.description = "List the commands in the background: which run, and how the "
			"others ended."},
};
/* clang-format on */

const struct tool tool_diff = {.id = TOOL_DIFF, .name = "workspace.diff"};

/* The methods of files: their parameters are the program's, so nothing describes them to a model.
 */
/* clang-format off */
#define FILE_PARAMS \
		{.name = "path", .type = PARAM_STRING, .required = true, PATH_BOUNDS, FIELD(path)}, \
		{.name = "path_base64", .type = PARAM_STRING, .min = 1, \
			.max = (LIMIT_PATH_BYTES + INT64_C(2)) / 3 * 4, .too_long = TOOL_NAME_TOO_LONG, \
			FIELD(path_base64)}, \
		{.name = "timeout_ms", .type = PARAM_INTEGER, .min = 1, .max = LIMIT_COMMAND_MAX_MS, \
			FIELD(timeout_ms)}
#define FILE_FLAG(field, value) \
		{.name = #field, .type = PARAM_BOOLEAN, .has_default = true, .number = (value), FIELD(field)}
#define FILE_NUMBER(field, value, least, most) \
		{.name = #field, .type = PARAM_INTEGER, .has_default = true, .number = (value), \
			.min = (least), .max = (most), FIELD(field)}
#define FILE_WORD(field, least, most) \
		{.name = #field, .type = PARAM_STRING, .min = (least), .max = (most), \
			.too_long = TOOL_INVALID_ARGUMENTS, FIELD(field)}

const struct tool file_methods[TOOL_KINDS - TOOL_FILE_STAT] = {
	[0] = {.id = TOOL_FILE_STAT, .name = "file.stat", .params = {
		FILE_PARAMS,
		FILE_FLAG(follow, true),
		FILE_FLAG(attributes, true),
	}},
	[TOOL_FILE_LIST - TOOL_FILE_STAT] = {.id = TOOL_FILE_LIST, .name = "file.list", .params = {
		FILE_PARAMS,
		FILE_NUMBER(depth, 1, 0, LIMIT_PATH_BYTES),
		FILE_NUMBER(limit, LIMIT_LIST_ENTRIES, 1, LIMIT_LIST_ENTRIES),
		FILE_FLAG(attributes, false),
	}},
	[TOOL_FILE_MAKE_DIRECTORY - TOOL_FILE_STAT] = {.id = TOOL_FILE_MAKE_DIRECTORY, .name = "file.make_directory", .params = {
		FILE_PARAMS,
		FILE_WORD(mode, 3, 4),
		FILE_FLAG(parents, true),
	}},
	[TOOL_FILE_MOVE - TOOL_FILE_STAT] = {.id = TOOL_FILE_MOVE, .name = "file.move", .params = {
		FILE_PARAMS,
		{.name = "to", .type = PARAM_STRING, .required = true, PATH_BOUNDS, FIELD(to)},
		FILE_FLAG(replace, false),
		FILE_FLAG(parents, true),
	}},
	[TOOL_FILE_REMOVE - TOOL_FILE_STAT] = {.id = TOOL_FILE_REMOVE, .name = "file.remove", .params = {
		FILE_PARAMS,
		FILE_FLAG(recursive, false),
	}},
	[TOOL_FILE_READ - TOOL_FILE_STAT] = {.id = TOOL_FILE_READ, .name = "file.read", .params = {
		FILE_PARAMS,
		FILE_NUMBER(offset, 0, 0, INT64_MAX),
		FILE_NUMBER(length, -1, -1, INT64_MAX),
		FILE_FLAG(attributes, true),
		FILE_WORD(encoding, 1, LIMIT_NAME_BYTES),
	}},
	[TOOL_FILE_WRITE - TOOL_FILE_STAT] = {.id = TOOL_FILE_WRITE, .name = "file.write", .params = {
		FILE_PARAMS,
		FILE_WORD(mode, 3, 4),
		FILE_FLAG(create_dirs, true),
		FILE_WORD(expect, 1, FILES_VERSION_BYTES),
		FILE_WORD(durability, 1, LIMIT_NAME_BYTES),
	}},
	[TOOL_FILE_WATCH - TOOL_FILE_STAT] = {.id = TOOL_FILE_WATCH, .name = "file.watch", .params = {
		FILE_PARAMS,
		FILE_FLAG(recursive, false),
		{.name = "entries", .type = PARAM_BOOLEAN, .has_default = true, .number = false, FIELD(attributes)},
	}},
};
/* clang-format on */

const struct tool *tool_by_name(struct text name)
{
	for (size_t i = 0; i < TOOL_COUNT; i++)
		if (text_equal(text_from(tools[i].name), name))
			return &tools[i];
	return NULL;
}

size_t tool_param_count(const struct tool *tool)
{
	size_t count = 0;

	while (count < TOOL_PARAMS_MAX && tool->params[count].name)
		count++;
	return count;
}

const struct tool *tool_offered(const struct tool *tool, uint64_t set, struct tool *buffer)
{
	size_t count = 0;

	while (count < tool_param_count(tool) &&
		((set & TOOLS_SESSIONS) || tool->params[count].set != TOOLS_SESSIONS))
		count++;
	if (count == tool_param_count(tool))
		return tool;
	*buffer = *tool;
	for (; count < TOOL_PARAMS_MAX; count++)
		buffer->params[count] = (struct tool_param){0};
	return buffer;
}

const char *tool_names(uint64_t set, char buffer[static TOOL_NAMES_SIZE])
{
	const char *last = NULL;
	size_t len = 0;

	buffer[0] = '\0';
	for (size_t i = 0; i < TOOL_COUNT; i++) {
		if (tools[i].set & ~set)
			continue;
		if (last)
			len += (size_t)snprintf(buffer + len, TOOL_NAMES_SIZE - len, "%s%s",
				len > 0 ? ", " : "", last);
		last = tools[i].name;
	}
	snprintf(buffer + len, TOOL_NAMES_SIZE - len, " or %s", last);
	return buffer;
}

int tool_set_read(struct text words, uint64_t *ret_set)
{
	static const struct {
		const char *name;
		uint64_t set;
	} sets[] = {{"basic", TOOLS_BASIC}, {"edit", TOOLS_EDIT}, {"patch", TOOLS_PATCH},
		{"sessions", TOOLS_SESSIONS}};
	uint64_t set = TOOLS_BASIC;
	size_t count = 0;

	while (words.len > 0) {
		size_t len = 0, i = 0;

		while (len < words.len && !strchr(" \t,", words.data[len]))
			len++;
		if (len > 0) {
			while (i < ARRAY_SIZE(sets) && !text_equal(text_from(sets[i].name),
							       (struct text){words.data, len}))
				i++;
			if (i == ARRAY_SIZE(sets))
				return -EINVAL;
			set |= sets[i].set;
			count++;
		}
		words = (struct text){
			words.data + len + (len < words.len), words.len - len - (len < words.len)};
	}
	if (count == 0)
		return -EINVAL;
	*ret_set = set;
	return 0;
}

void tool_args_defaults(const struct tool *tool, struct tool_args *ret_args)
{
	*ret_args = (struct tool_args){.after = -1};
	for (size_t i = 0; i < tool_param_count(tool); i++) {
		const struct tool_param *param = &tool->params[i];
		void *field = (char *)ret_args + param->offset;

		if (!param->has_default)
			continue;
		switch (param->type) {
		case PARAM_STRING:
			*(struct text *)field = text_from(param->text);
			break;
		case PARAM_INTEGER:
			*(int64_t *)field = param->number;
			break;
		case PARAM_BOOLEAN:
			*(bool *)field = param->number;
			break;
		case PARAM_EDITS:
			break;
		}
	}
}
