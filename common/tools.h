/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The table of the tools. The definitions that a model sees (Ollama, OpenAI, MCP), the validation
 * of arguments, their documentation and the dispatch all come from it. Names, descriptions,
 * parameters and defaults of the five basic tools are fixed by the tools' specification and do not
 * change; the others are offered to the tenants whose key tools names their set.
 */

#include "common/errors.h"
#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_object;

enum tool_id {
	TOOL_READ_FILE,
	TOOL_WRITE_FILE,
	TOOL_LIST_DIRECTORY,
	TOOL_RUN_COMMAND,
	TOOL_SEARCH_FILES,
	TOOL_EDIT_FILE,
	TOOL_APPLY_PATCH,
	TOOL_READ_OUTPUT,
	TOOL_SEND_INPUT,
	TOOL_STOP_COMMAND,
	TOOL_LIST_COMMANDS,
	TOOL_COUNT,
	/* workspace.diff: not a tool, and in no list of tools, but a call of the files process like
	 * a tool's
	 */
	TOOL_DIFF = TOOL_COUNT,
	/* the methods of files, likewise */
	TOOL_FILE_STAT,
	TOOL_FILE_LIST,
	TOOL_FILE_MAKE_DIRECTORY,
	TOOL_FILE_MOVE,
	TOOL_FILE_REMOVE,
	TOOL_FILE_READ,
	TOOL_FILE_WRITE,
	TOOL_FILE_WATCH,
	TOOL_KINDS,
};

/* Groups of tools that the key tools adds to the five, as bits. */
enum tool_set {
	TOOLS_BASIC,
	TOOLS_EDIT,
	TOOLS_PATCH,
	TOOLS_SESSIONS = 4,
	TOOLS_ALL = TOOLS_EDIT | TOOLS_PATCH | TOOLS_SESSIONS
};

enum param_type {
	PARAM_STRING,
	PARAM_INTEGER,
	PARAM_BOOLEAN,
	PARAM_EDITS, /* an array of objects: old, new and all */
};

/*
 * The decoded arguments of one tool call. Texts are borrowed from the decoded request. A parameter
 * that was not given holds its default or, if it has none, {NULL, 0} or 0.
 */
struct tool_args {
	struct text path;
	/* of write_file; for edit_file and apply_patch what is sent (common/wire/wire_files.h) */
	struct text content;
	struct text patch;
	struct json_object *edits; /* of edit_file, checked */
	struct text expect;
	struct text pattern;
	struct text file_pattern;
	struct text command;
	struct text name; /* of a command in the background */
	struct text input;
	struct text wait_for;
	int64_t wait_ms;
	int64_t after; /* -1: not given */
	int64_t start_line;
	int64_t end_line;
	int64_t timeout_ms;
	int64_t max_results;
	int64_t since; /* of workspace.diff: the checkpoint */
	/* of the methods of files */
	struct text path_base64;
	struct text to;
	struct text mode; /* permission bits, as octal digits */
	struct text durability;
	struct text encoding;
	int64_t offset;  /* of search_files: matches that are passed over */
	int64_t context; /* lines on each side of a match */
	int64_t length;  /* -1: not given */
	int64_t depth;
	int64_t limit; /* of search_files: in place of max_results; 0: not given */
	bool follow;
	bool parents;
	bool replace;
	bool attributes;
	bool as_patch; /* likewise */
	bool create_dirs;
	bool recursive;
	bool background;
	bool newline;
	bool eof;
};

struct tool_param {
	const char *name;
	const char *description;
	const char *text; /* the default of a string */
	enum param_type type;
	enum tool_set set; /* the tool's definition has it where this set is offered */
	int64_t number;    /* the default of an integer or boolean */
	int64_t min, max;  /* integers: the value; strings: the length in bytes; both inclusive */
	/* strings that may come as base64: the bound of one that does not; 0: max */
	int64_t max_plain;
	size_t offset;            /* offset of the field in struct tool_args */
	enum tool_error too_long; /* strings: the error code for one longer than max */
	bool required;
	bool has_default;
	bool nul_allowed; /* strings: may hold a NUL byte */
};

#define TOOL_PARAMS_MAX 8

struct tool {
	enum tool_id id;
	enum tool_set set;
	/* it acts on commands in the background: cloisterd does it, and asks no other process */
	bool on_sessions;
	const char *name;
	const char *description;
	struct tool_param params[TOOL_PARAMS_MAX]; /* ended by a parameter without a name */
};

/** The table, indexed by enum tool_id. */
extern const struct tool tools[TOOL_COUNT];

/** The name of a TOOL_DIFF in place of a tool's. */
extern const struct tool tool_diff;

/** Entries for the methods of files, in the form of tools, from TOOL_FILE_STAT on. */
extern const struct tool file_methods[TOOL_KINDS - TOOL_FILE_STAT];

/** Returns the name of a tool, or of the method, for metrics. */
static inline const char *tool_kind_name(size_t kind)
{
	if (kind >= TOOL_FILE_STAT)
		return file_methods[kind - TOOL_FILE_STAT].name;
	return kind == TOOL_DIFF ? tool_diff.name : tools[kind].name;
}

/** Whether @tool is a method that moves a file's bytes as a stream. */
static inline bool tool_streams(const struct tool *tool)
{
	return tool->id == TOOL_FILE_READ || tool->id == TOOL_FILE_WRITE;
}

/** Whether calls of @tool may change files of their workspace. */
static inline bool tool_changes_files(const struct tool *tool)
{
	return tool->id == TOOL_WRITE_FILE || tool->id == TOOL_RUN_COMMAND ||
	       tool->id == TOOL_EDIT_FILE || tool->id == TOOL_APPLY_PATCH ||
	       tool->id == TOOL_FILE_MAKE_DIRECTORY || tool->id == TOOL_FILE_MOVE ||
	       tool->id == TOOL_FILE_REMOVE || tool->id == TOOL_FILE_WRITE;
}

/** Returns the tool called @name, or NULL. Names are case-sensitive. */
const struct tool *tool_by_name(struct text name);

/** Returns the number of @tool's parameters. */
size_t tool_param_count(const struct tool *tool);

/**
 * Returns @tool without the parameters of commands in the background, which come last, in @buffer,
 * if @set does not offer them; otherwise @tool. A model that invents one of these arguments could
 * not use the command that it starts.
 */
const struct tool *tool_offered(const struct tool *tool, uint64_t set, struct tool *buffer);

#define TOOL_NAMES_SIZE 256

/** Writes the names of the tools that @set offers, "a, b or c", into @buffer, and returns it. */
const char *tool_names(uint64_t set, char buffer[static TOOL_NAMES_SIZE]);

/**
 * Reads the words basic, edit, patch and sessions, in any order and with blanks or commas between
 * them, as the set that they offer. Returns 0, or -EINVAL if there is another word, or none.
 */
int tool_set_read(struct text words, uint64_t *ret_set);

/** Returns how many matches a search with @args reports at most. */
static inline int64_t tool_search_most(const struct tool_args *args)
{
	return args->limit > 0 ? args->limit : args->max_results;
}

/** Sets every field of @ret_args to its default in @tool. */
void tool_args_defaults(const struct tool *tool, struct tool_args *ret_args);
