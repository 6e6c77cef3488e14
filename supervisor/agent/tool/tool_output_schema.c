// SPDX-License-Identifier: Apache-2.0
#include "supervisor/agent/tool/tool_output_schema.h"

#include "supervisor/base/json_build.h"

#include <json-c/linkhash.h>

enum field_type {
	FIELD_TEXT,
	FIELD_TEXT_OR_NULL,
	FIELD_INTEGER,
	FIELD_INTEGER_OR_NULL,
	FIELD_BOOLEAN,
	FIELD_ENTRIES, /* of a directory */
	FIELD_MATCHES,
	FIELD_PATCHED,
	FIELD_TEXTS,
	FIELD_DENIALS,
	FIELD_INTEGERS,
	FIELD_COMMANDS,
	FIELD_OBJECT, /* described elsewhere */
	FIELD_DISK,
};

/* Objects are not closed, because a later version may add members. */
struct field {
	const char *name; /* NULL ends a table */
	enum field_type type;
	bool optional;
	const char *description; /* NULL: the name is enough */
};

#define FIELDS_MAX 17
#define VERSION    "Digest of the file's content, for expect"
#define GITIGNORED "Files and directories left out because git ignores them"
#define NOT_SHOWN  "What is not shown, and how to get it"

#define PATH_FIELDS                                                          \
	{"path", FIELD_TEXT, false, "Relative to the workspace root"},       \
	{                                                                    \
		"path_base64", FIELD_TEXT, true,                             \
			"The path in base64, if path cannot show it exactly" \
	}

/* What the tools that act on one command in the background have in common. */
#define SESSION_FIELDS                                                                            \
	{"name", FIELD_TEXT_OR_NULL, false, NULL}, {"session", FIELD_TEXT, false, NULL},          \
		{"state", FIELD_TEXT, false, "starting, running, ending or ended"},               \
		{"age_ms", FIELD_INTEGER, false, NULL},                                           \
		{"ports", FIELD_INTEGERS, true, "TCP ports at which it listens"},                 \
		{"output", FIELD_TEXT, false,                                                     \
			"What it has written to stdout and stderr since it was read last"},       \
		{"output_bytes", FIELD_INTEGER, false, "Its length before anything is left out"}, \
		{"truncated", FIELD_BOOLEAN, false, "Its middle is left out"},                    \
		{"lost_bytes", FIELD_INTEGER, false, "Bytes before it that are not kept"},        \
		{"skipped_bytes", FIELD_INTEGER, true, "Bytes before it that are not shown"},     \
		{"next", FIELD_INTEGER, false, "Cursor after it, for after"},                     \
		{"encoding", FIELD_TEXT, true, "base64 if output is in base64"},                  \
	{                                                                                         \
		"end", FIELD_OBJECT, true, "The observation of run_command, once it has ended"    \
	}

/* clang-format off */
static const struct field outputs[TOOL_COUNT][FIELDS_MAX] = {
	[TOOL_READ_FILE] = {
		PATH_FIELDS,
		{"content", FIELD_TEXT, true, "The lines, numbered; absent for a binary file"},
		{"lines", FIELD_INTEGER, true, "Number of lines in content"},
		{"total_lines", FIELD_INTEGER_OR_NULL, true,
			"Number of lines in the file; null if they were not counted"},
		{"size", FIELD_INTEGER, false, "Size of the file in bytes"},
		{"truncated", FIELD_BOOLEAN, true,
			"Some of the lines asked for are not in content"},
		{"encoding", FIELD_TEXT, true, "utf-8, utf-8-replaced or base64"},
		{"binary", FIELD_BOOLEAN, true, "The file is not text"},
		{"type", FIELD_TEXT, true, "Kind of the binary file"},
		{"version", FIELD_TEXT, true, VERSION},
		{"note", FIELD_TEXT, true, NOT_SHOWN},
	},
	[TOOL_WRITE_FILE] = {
		PATH_FIELDS,
		{"bytes_written", FIELD_INTEGER, false, NULL},
		{"created", FIELD_BOOLEAN, false, "The file did not exist before"},
		{"version", FIELD_TEXT, true, VERSION},
	},
	[TOOL_LIST_DIRECTORY] = {
		PATH_FIELDS,
		{"entries", FIELD_ENTRIES, false, NULL},
		{"count", FIELD_INTEGER, false, NULL},
		{"truncated", FIELD_BOOLEAN, false, "There are more entries"},
		{"gitignored", FIELD_INTEGER, true, GITIGNORED},
		{"total", FIELD_INTEGER, true, "Number of entries, if that is more"},
		{"note", FIELD_TEXT, true, NOT_SHOWN},
	},
	[TOOL_RUN_COMMAND] = {
		{"command", FIELD_TEXT, false, NULL},
		{"exit_code", FIELD_INTEGER_OR_NULL, false, NULL},
		{"signal", FIELD_TEXT_OR_NULL, false, "Signal that ended the command"},
		{"stdout", FIELD_TEXT, false, NULL},
		{"stderr", FIELD_TEXT, false, NULL},
		{"stdout_bytes", FIELD_INTEGER, false, "Bytes that the command wrote to stdout"},
		{"stderr_bytes", FIELD_INTEGER, false, "Bytes that the command wrote to stderr"},
		{"truncated", FIELD_BOOLEAN, false, "The middle of stdout or stderr is left out"},
		{"timed_out", FIELD_BOOLEAN, false, NULL},
		{"ended_by", FIELD_TEXT, false,
			"exit, signal, or the reason why cloister ended the command"},
		{"duration_ms", FIELD_INTEGER, false, NULL},
		{"state", FIELD_TEXT, true, "running: the command goes on"},
		{"session", FIELD_TEXT, true, "The session as which it goes on"},
		{"name", FIELD_TEXT, true, "Its name in the background"},
		{"next", FIELD_INTEGER, true, "Cursor after the output so far"},
		{"encoding", FIELD_TEXT, true, "base64 if stdout and stderr are in base64"},
	},
	[TOOL_SEARCH_FILES] = {
		{"pattern", FIELD_TEXT, false, NULL},
		{"matches", FIELD_MATCHES, false, NULL},
		{"count", FIELD_INTEGER, false, NULL},
		{"truncated", FIELD_BOOLEAN, false, "There are more matches"},
		{"files_searched", FIELD_INTEGER, false, NULL},
		{"files_skipped", FIELD_INTEGER, false, NULL},
		{"gitignored", FIELD_INTEGER, true, GITIGNORED},
		{"total", FIELD_INTEGER, true, "Number of matches, if that is more"},
		{"note", FIELD_TEXT, true, NOT_SHOWN},
	},
	[TOOL_EDIT_FILE] = {
		PATH_FIELDS,
		{"replacements", FIELD_INTEGER, false, NULL},
		{"first_line", FIELD_INTEGER, false, "First line that was changed"},
		{"size", FIELD_INTEGER, false, "Size of the file in bytes"},
		{"version", FIELD_TEXT, false, VERSION},
		{"diff", FIELD_TEXT, false, "What was changed, as diff -u shows it"},
	},
	[TOOL_APPLY_PATCH] = {
		{"files", FIELD_PATCHED, false, NULL},
	},
	[TOOL_READ_OUTPUT] = {
		SESSION_FIELDS,
		{"found", FIELD_BOOLEAN, true, "The text of wait_for was written"},
	},
	[TOOL_SEND_INPUT] = {
		SESSION_FIELDS,
		{"taken", FIELD_INTEGER, false, "Bytes of input that were written"},
		{"input_closed", FIELD_BOOLEAN, false, "It takes no more input"},
	},
	[TOOL_STOP_COMMAND] = {
		SESSION_FIELDS,
	},
	[TOOL_LIST_COMMANDS] = {
		{"commands", FIELD_COMMANDS, false, NULL},
		{"count", FIELD_INTEGER, false, NULL},
	},
};
/* clang-format on */

static const struct field command_fields[] = {
	{"name", FIELD_TEXT_OR_NULL, false, NULL},
	{"session", FIELD_TEXT, false, NULL},
	{"state", FIELD_TEXT, false, "starting, running, ending or ended"},
	{"age_ms", FIELD_INTEGER, false, NULL},
	{"ports", FIELD_INTEGERS, true, "TCP ports at which it listens"},
	{"command", FIELD_TEXT, false, NULL},
	{"unread_bytes", FIELD_INTEGER, false, "Output that read_output has not shown"},
	{0},
};

static const struct field patched_fields[] = {
	{"path", FIELD_TEXT, false, NULL},
	{"path_base64", FIELD_TEXT, true, NULL},
	{"op", FIELD_TEXT, false, "add, update, delete or move"},
	{"old_path", FIELD_TEXT, true, "The path before a move"},
	{"added", FIELD_INTEGER, false, "Lines"},
	{"removed", FIELD_INTEGER, false, "Lines"},
	{"version", FIELD_TEXT, true, VERSION},
	{0},
};

static const struct field entry_fields[] = {
	{"path", FIELD_TEXT, false, NULL},
	{"path_base64", FIELD_TEXT, true, NULL},
	{"type", FIELD_TEXT, false, "file, directory, symlink, …"},
	{"size", FIELD_INTEGER, false, NULL},
	{"mtime", FIELD_TEXT, false, "RFC 3339, UTC"},
	{"target", FIELD_TEXT, true, "Target of a symlink"},
	{"entries_left_out", FIELD_INTEGER, true, "Entries of the directory, not listed"},
	{0},
};

static const struct field match_fields[] = {
	{"path", FIELD_TEXT, false, NULL},
	{"path_base64", FIELD_TEXT, true, NULL},
	{"line", FIELD_INTEGER, false, NULL},
	{"text", FIELD_TEXT, false, NULL},
	{"cut", FIELD_BOOLEAN, true, "The line is longer than text"},
	{"context", FIELD_BOOLEAN, true, "The line stands near a match, and does not match"},
	{0},
};

static const struct field error_fields[] = {
	{"code", FIELD_TEXT, false, NULL},
	{"message", FIELD_TEXT, false, "What is wrong and what to do"},
	{0},
};

static const struct field disk_fields[] = {
	{"bytes", FIELD_INTEGER, false, NULL},
	{"limit", FIELD_INTEGER, false, NULL},
	{0},
};

static const struct field usage_fields[] = {
	{"wall_us", FIELD_INTEGER, false, NULL},
	{"user_us", FIELD_INTEGER, true, NULL},
	{"system_us", FIELD_INTEGER, true, NULL},
	{"max_rss_bytes", FIELD_INTEGER, true, NULL},
	{"processes_ended", FIELD_INTEGER, true, "Left over when the shell ended, and killed"},
	{"peak_memory_bytes", FIELD_INTEGER, true, NULL},
	{"io_read_bytes", FIELD_INTEGER, true, NULL},
	{"io_write_bytes", FIELD_INTEGER, true, NULL},
	{"disk", FIELD_DISK, true, "Of the workspace, after a write"},
	{0},
};

static const struct field denial_fields[] = {
	{"host", FIELD_TEXT, false, NULL},
	{"port", FIELD_INTEGER, false, NULL},
	{"reason", FIELD_TEXT, false, "not_allowed, denied, port, private_address, …"},
	{"count", FIELD_INTEGER, false, NULL},
	{"via", FIELD_TEXT_OR_NULL, false, NULL},
	{0},
};

static const struct field network_fields[] = {
	{"connections", FIELD_INTEGER, false, NULL},
	{"bytes_in", FIELD_INTEGER, false, NULL},
	{"bytes_out", FIELD_INTEGER, false, NULL},
	{"denied", FIELD_DENIALS, false, "Refused connections"},
	{"denied_unlisted", FIELD_INTEGER, true, "Refused ones of further kinds"},
	{"incomplete", FIELD_BOOLEAN, true, "There may have been more"},
	{0},
};

/* Adds "type", which may be a list of two types. */
static bool add_type(struct json_object *object, const char *type, bool or_null)
{
	_cleanup_json_ struct json_object *types = NULL;

	if (!or_null)
		return json_build_add(object, "type", json_object_new_string(type));
	types = json_object_new_array();
	return json_build_append(types, json_object_new_string(type)) &&
	       json_build_append(types, json_object_new_string("null")) &&
	       json_build_add(object, "type", TAKE_PTR(types));
}

static struct json_object *object_schema(const struct field *fields, size_t max, bool or_null);

static struct json_object *array_schema(const struct field *fields)
{
	_cleanup_json_ struct json_object *array = json_object_new_object();

	if (!add_type(array, "array", false) ||
		!json_build_add(array, "items", object_schema(fields, FIELDS_MAX, false)))
		return NULL;
	return TAKE_PTR(array);
}

static struct json_object *list_schema(const char *type)
{
	_cleanup_json_ struct json_object *array = json_object_new_object();
	_cleanup_json_ struct json_object *items = json_object_new_object();

	if (!add_type(array, "array", false) || !add_type(items, type, false) ||
		!json_build_add(array, "items", TAKE_PTR(items)))
		return NULL;
	return TAKE_PTR(array);
}

static struct json_object *field_schema(const struct field *field)
{
	static const char *const types[] = {
		[FIELD_TEXT] = "string",
		[FIELD_TEXT_OR_NULL] = "string",
		[FIELD_INTEGER] = "integer",
		[FIELD_INTEGER_OR_NULL] = "integer",
		[FIELD_BOOLEAN] = "boolean",
		[FIELD_OBJECT] = "object",
	};
	_cleanup_json_ struct json_object *object = NULL;

	if (field->type == FIELD_DISK)
		return object_schema(disk_fields, FIELDS_MAX, false);
	if (field->type == FIELD_ENTRIES)
		return array_schema(entry_fields);
	if (field->type == FIELD_MATCHES)
		return array_schema(match_fields);
	if (field->type == FIELD_PATCHED)
		return array_schema(patched_fields);
	if (field->type == FIELD_DENIALS)
		return array_schema(denial_fields);
	if (field->type == FIELD_COMMANDS)
		return array_schema(command_fields);
	if (field->type == FIELD_TEXTS || field->type == FIELD_INTEGERS)
		return list_schema(field->type == FIELD_TEXTS ? "string" : "integer");
	object = json_object_new_object();
	if (!add_type(object, types[field->type],
		    field->type == FIELD_TEXT_OR_NULL || field->type == FIELD_INTEGER_OR_NULL) ||
		(field->description && !json_build_add(object, "description",
					       json_object_new_string(field->description))))
		return NULL;
	return TAKE_PTR(object);
}

static struct json_object *object_schema(const struct field *fields, size_t max, bool or_null)
{
	_cleanup_json_ struct json_object *properties = json_object_new_object();
	_cleanup_json_ struct json_object *required = json_object_new_array();
	_cleanup_json_ struct json_object *object = json_object_new_object();

	for (size_t i = 0; i < max && fields[i].name; i++)
		if (!json_build_add(properties, fields[i].name, field_schema(&fields[i])) ||
			(!fields[i].optional && !json_build_append(required,
							json_object_new_string(fields[i].name))))
			return NULL;
	if (!add_type(object, "object", or_null) ||
		!json_build_add(object, "properties", TAKE_PTR(properties)) ||
		!json_build_add(object, "required", TAKE_PTR(required)))
		return NULL;
	return TAKE_PTR(object);
}

struct json_object *tool_output_schema(const struct tool *tool)
{
	static const struct field success = {"success", FIELD_BOOLEAN, false, NULL};
	static const struct field name = {"tool", FIELD_TEXT, false, NULL};
	static const struct field optional[] = {{"notes", FIELD_TEXTS, true, NULL},
		{"replayed", FIELD_BOOLEAN, true, NULL}, {"resolved", FIELD_BOOLEAN, true, NULL},
		{"key_horizon_ms", FIELD_INTEGER, true, NULL}};
	_cleanup_json_ struct json_object *properties = json_object_new_object();
	_cleanup_json_ struct json_object *required = json_object_new_array();
	_cleanup_json_ struct json_object *object = json_object_new_object();

	if (!json_build_add(properties, "success", field_schema(&success)) ||
		!json_build_add(properties, "tool", field_schema(&name)) ||
		!json_build_add(
			properties, "output", object_schema(outputs[tool->id], FIELDS_MAX, true)) ||
		!json_build_add(
			properties, "error", object_schema(error_fields, FIELDS_MAX, true)) ||
		!json_build_add(
			properties, "usage", object_schema(usage_fields, FIELDS_MAX, false)))
		return NULL;
	json_object_object_foreach (properties, key, value) {
		(void)value;
		if (!json_build_append(required, json_object_new_string(key)))
			return NULL;
	}
	/* Only where there are some. */
	for (size_t i = 0; i < ARRAY_SIZE(optional); i++)
		if (!json_build_add(properties, optional[i].name, field_schema(&optional[i])))
			return NULL;
	if (tool->id == TOOL_RUN_COMMAND &&
		!json_build_add(
			properties, "network", object_schema(network_fields, FIELDS_MAX, false)))
		return NULL;
	if (!add_type(object, "object", false) ||
		!json_build_add(object, "properties", TAKE_PTR(properties)) ||
		!json_build_add(object, "required", TAKE_PTR(required)))
		return NULL;
	return TAKE_PTR(object);
}

struct json_object *tool_annotations(const struct tool *tool)
{
	static const struct {
		const char *title;
		bool read_only, destructive, idempotent;
	} hints[TOOL_COUNT] = {
		[TOOL_READ_FILE] = {"Read a file", true, false, true},
		[TOOL_WRITE_FILE] = {"Write a file", false, true, true},
		[TOOL_LIST_DIRECTORY] = {"List a directory", true, false, true},
		[TOOL_RUN_COMMAND] = {"Run a command", false, true, false},
		[TOOL_SEARCH_FILES] = {"Search in files", true, false, true},
		[TOOL_EDIT_FILE] = {"Edit a file", false, true, false},
		[TOOL_APPLY_PATCH] = {"Apply a patch", false, true, false},
		[TOOL_READ_OUTPUT] = {"Read output", true, false, false},
		[TOOL_SEND_INPUT] = {"Send input", false, true, false},
		[TOOL_STOP_COMMAND] = {"Stop a command", false, true, true},
		[TOOL_LIST_COMMANDS] = {"List commands", true, false, true},
	};
	_cleanup_json_ struct json_object *object = json_object_new_object();

	if (!json_build_add(object, "title", json_object_new_string(hints[tool->id].title)) ||
		!json_build_add(object, "readOnlyHint",
			json_object_new_boolean(hints[tool->id].read_only)) ||
		!json_build_add(object, "destructiveHint",
			json_object_new_boolean(hints[tool->id].destructive)) ||
		!json_build_add(object, "idempotentHint",
			json_object_new_boolean(hints[tool->id].idempotent)) ||
		/* Commands have no network, so a tool acts in a closed world. */
		!json_build_add(object, "openWorldHint", json_object_new_boolean(false)))
		return NULL;
	return TAKE_PTR(object);
}
