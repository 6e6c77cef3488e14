/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The table of the five tools. The definitions that a model sees (Ollama, OpenAI, MCP), the
 * validation of arguments, their documentation and the dispatch all come from it. Names,
 * descriptions, parameters and defaults are fixed by the tools' specification and do not change.
 */

#include "common/errors.h"
#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tool_id {
	TOOL_READ_FILE,
	TOOL_WRITE_FILE,
	TOOL_LIST_DIRECTORY,
	TOOL_RUN_COMMAND,
	TOOL_SEARCH_FILES,
	TOOL_COUNT,
};

enum param_type {
	PARAM_STRING,
	PARAM_INTEGER,
	PARAM_BOOLEAN,
};

/*
 * The decoded arguments of one tool call. Texts are borrowed from the decoded request. A parameter
 * that was not given holds its default or, if it has none, {NULL, 0} or 0.
 */
struct tool_args {
	struct text path;
	struct text content;
	struct text expect;
	struct text pattern;
	struct text file_pattern;
	struct text command;
	int64_t start_line;
	int64_t end_line;
	int64_t timeout_ms;
	int64_t max_results;
	bool create_dirs;
	bool recursive;
};

struct tool_param {
	const char *name;
	const char *description;
	enum param_type type;
	bool required;
	bool has_default;
	bool nul_allowed; /* strings: may hold a NUL byte */
	const char *text; /* the default of a string */
	int64_t number;   /* the default of an integer or boolean */
	int64_t min, max; /* integers: the value; strings: the length in bytes; both inclusive */
	/* strings that may come as base64: the bound of one that does not; 0: max */
	int64_t max_plain;
	enum tool_error too_long; /* strings: the error code for one longer than max */
	size_t offset;            /* offset of the field in struct tool_args */
};

#define TOOL_PARAMS_MAX 4

struct tool {
	enum tool_id id;
	const char *name;
	const char *description;
	struct tool_param params[TOOL_PARAMS_MAX]; /* ended by a parameter without a name */
};

/** The table, indexed by enum tool_id. */
extern const struct tool tools[TOOL_COUNT];

/** Returns the tool called @name, or NULL. Names are case-sensitive. */
const struct tool *tool_by_name(struct text name);

/** Returns the number of @tool's parameters. */
size_t tool_param_count(const struct tool *tool);

/** Sets every field of @ret_args to its default in @tool. */
void tool_args_defaults(const struct tool *tool, struct tool_args *ret_args);
