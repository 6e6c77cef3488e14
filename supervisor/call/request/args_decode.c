// SPDX-License-Identifier: Apache-2.0
#include "supervisor/call/request/args_decode.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/utf8.h"
#include "supervisor/call/request/args_alias.h"
#include "supervisor/call/request/notes.h"
#include "supervisor/workspace/managed/properties.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define TWO_TO_63        9223372036854775808.0
#define INTEGER_DIGITS   20 /* of the longest integer, with its sign */
#define NAME_SHOWN_BYTES 64 /* how much of a name that the client invented a message shows */

/* The part being decoded, for messages: `read_file: argument "path" must be a string`. */
struct subject {
	const char *tool;
	const char *kind; /* "argument" or "option" */
	char **ret_message;
	struct notes *notes; /* NULL: values of another type are refused */
};

static enum tool_error fail_argument(const struct subject *subject, enum tool_error error,
	const char *name, const char *format, ...) __attribute__((format(printf, 4, 5)));

static enum tool_error fail_argument(const struct subject *subject, enum tool_error error,
	const char *name, const char *format, ...)
{
	_cleanup_free_ char *rest = NULL;
	struct text shown = {name, strnlen(name, NAME_SHOWN_BYTES)};
	va_list arguments;
	int r;

	va_start(arguments, format);
	r = vasprintf(&rest, format, arguments);
	va_end(arguments);
	if (r < 0) {
		rest = NULL;
		*subject->ret_message = NULL;
		return error;
	}
	if (asprintf(subject->ret_message, "%s: %s \"%.*s\" %s", subject->tool, subject->kind,
		    (int)utf8_valid_prefix(shown), name, rest) < 0)
		*subject->ret_message = NULL;
	return error;
}

static struct text string_text(struct json_object *value)
{
	return (struct text){
		json_object_get_string(value), (size_t)json_object_get_string_len(value)};
}

static enum tool_error decode_string(const struct subject *subject, const struct tool_param *param,
	struct json_object *value, struct text *ret_text)
{
	/* The bound of text is also that of decoded base64, so messages name it. */
	int64_t named_max = param->max_plain > 0 ? param->max_plain : param->max;
	struct text text;

	if (!json_object_is_type(value, json_type_string))
		return fail_argument(
			subject, TOOL_INVALID_ARGUMENTS, param->name, "must be a string");
	text = string_text(value);
	if (text.len > (uint64_t)param->max)
		return fail_argument(subject, param->too_long, param->name,
			"must be at most %" PRId64 " bytes long", named_max);
	if (text.len < (uint64_t)param->min)
		return fail_argument(
			subject, TOOL_INVALID_ARGUMENTS, param->name, "must not be empty");
	if (!param->nul_allowed && text_has_nul(text))
		return fail_argument(subject, TOOL_INVALID_ARGUMENTS, param->name,
			"must not hold a NUL character");
	*ret_text = text;
	return TOOL_OK;
}

/* Accepts also a number such as 5.0 or 5e0, which some models write for an integer. */
static bool integer_value(struct json_object *value, int64_t *ret_number)
{
	double number;

	if (json_object_is_type(value, json_type_int)) {
		*ret_number = json_object_get_int64(value);
		return true;
	}
	if (!json_object_is_type(value, json_type_double))
		return false;
	number = json_object_get_double(value);
	/* 2^63 itself does not fit. The comparisons are written so that NaN fails them. */
	if (!(number >= -TWO_TO_63) || !(number < TWO_TO_63) || (double)(int64_t)number != number)
		return false;
	*ret_number = (int64_t)number;
	return true;
}

/* Reads a string that is exactly a decimal integer, as some models write one. */
static bool integer_text(
	const struct subject *subject, const char *name, struct text text, int64_t *ret_number)
{
	size_t sign = text.len > 0 && text.data[0] == '-';
	char *end;

	if (text.len == sign || text.len > INTEGER_DIGITS || text.data[sign] < '0' ||
		text.data[sign] > '9' || (text.data[sign] == '0' && text.len > 1))
		return false;
	errno = 0;
	*ret_number = strtoll(text.data, &end, 10);
	if (errno != 0 || end != text.data + text.len)
		return false;
	notes_add(subject->notes,
		"\"%s\" was taken as the number %" PRId64 "; give it without quotes", name,
		*ret_number);
	return true;
}

/* Lowers a model's number that is above the parameter's maximum to it, and notes that. */
static void lower(const struct subject *subject, const struct tool_param *param, int64_t *number)
{
	if (!subject->notes || *number <= param->max)
		return;
	notes_add(subject->notes, "\"%s\" was lowered from %" PRId64 " to its maximum, %" PRId64,
		param->name, *number, param->max);
	*number = param->max;
}

static enum tool_error decode_integer(const struct subject *subject, const struct tool_param *param,
	struct json_object *value, int64_t *ret_number)
{
	bool is_number;
	int64_t number = 0;

	if (subject->notes && json_object_is_type(value, json_type_string))
		is_number = integer_text(subject, param->name, string_text(value), &number);
	else
		is_number = integer_value(value, &number);
	if (is_number)
		lower(subject, param, &number);
	if (is_number && number >= param->min && number <= param->max) {
		*ret_number = number;
		return TOOL_OK;
	}
	if (param->max == INT64_MAX)
		return fail_argument(subject, TOOL_INVALID_ARGUMENTS, param->name,
			"must be an integer of at least %" PRId64, param->min);
	return fail_argument(subject, TOOL_INVALID_ARGUMENTS, param->name,
		"must be an integer from %" PRId64 " to %" PRId64, param->min, param->max);
}

static enum tool_error decode_boolean(const struct subject *subject, const struct tool_param *param,
	struct json_object *value, bool *ret_value)
{
	struct text text = {NULL, 0};
	bool is_true;

	if (json_object_is_type(value, json_type_boolean)) {
		*ret_value = json_object_get_boolean(value);
		return TOOL_OK;
	}
	if (subject->notes && json_object_is_type(value, json_type_string))
		text = string_text(value);
	is_true = text_equal(text, TEXT_LITERAL("true"));
	if (!is_true && !text_equal(text, TEXT_LITERAL("false")))
		return fail_argument(
			subject, TOOL_INVALID_ARGUMENTS, param->name, "must be true or false");
	notes_add(subject->notes, "\"%s\" was taken as %s; give it without quotes", param->name,
		is_true ? "true" : "false");
	*ret_value = is_true;
	return TOOL_OK;
}

static enum tool_error edit_text(const struct subject *subject, struct json_object *edit,
	size_t number, const char *name, size_t *bytes)
{
	struct json_object *value = NULL;

	if (json_object_object_get_ex(edit, name, &value) &&
		json_object_is_type(value, json_type_string)) {
		*bytes += string_text(value).len;
		return TOOL_OK;
	}
	return fail_argument(subject, TOOL_INVALID_ARGUMENTS, "edits",
		"must be a list of objects like {\"old\": \"text\", \"new\": \"text\"}; \"%s\" of "
		"number %zu is %s",
		name, number, value ? "not a string" : "missing");
}

/* The members of an edit, and names that models know from other tools; all without doubt. */
static const char *const edit_names[][2] = {{"old", "old"}, {"new", "new"}, {"all", "all"},
	{"old_string", "old"}, {"new_string", "new"}, {"old_str", "old"}, {"new_str", "new"},
	{"oldText", "old"}, {"newText", "new"}, {"oldString", "old"}, {"newString", "new"},
	{"old_text", "old"}, {"new_text", "new"}, {"replace_all", "all"}, {"replaceAll", "all"}};

static enum tool_error rename_in_edit(const struct subject *subject, struct json_object *edit)
{
	for (size_t i = 0; i < ARRAY_SIZE(edit_names); i++) {
		struct json_object *value;

		if (strcmp(edit_names[i][0], edit_names[i][1]) == 0 ||
			!json_object_object_get_ex(edit, edit_names[i][0], &value) ||
			json_object_object_get_ex(edit, edit_names[i][1], NULL))
			continue;
		if (json_object_object_add(edit, edit_names[i][1], json_object_get(value)) < 0)
			return TOOL_BUSY;
		json_object_object_del(edit, edit_names[i][0]);
		notes_add(subject->notes, "\"%s\" was taken as \"%s\"", edit_names[i][0],
			edit_names[i][1]);
	}
	return TOOL_OK;
}

static enum tool_error decode_edit(
	const struct subject *subject, struct json_object *edit, size_t number, size_t *bytes)
{
	enum tool_error error = json_object_is_type(edit, json_type_object)
					? rename_in_edit(subject, edit)
					: TOOL_OK;
	struct json_object *all, *old_text, *new_text;

	if (error == TOOL_OK)
		error = edit_text(subject, edit, number, "old", bytes);
	if (error == TOOL_OK)
		error = edit_text(subject, edit, number, "new", bytes);
	if (error != TOOL_OK)
		return error;
	old_text = json_object_object_get(edit, "old");
	new_text = json_object_object_get(edit, "new");
	if (string_text(old_text).len == 0)
		return fail_argument(subject, TOOL_INVALID_ARGUMENTS, "edits",
			"must say what to replace: \"old\" of number %zu is empty; give the line "
			"before or after which to insert, or use write_file for a new file",
			number);
	if (text_equal(string_text(old_text), string_text(new_text)))
		return fail_argument(subject, TOOL_INVALID_ARGUMENTS, "edits",
			"must change something: \"old\" and \"new\" of number %zu are the same",
			number);
	if (json_object_object_get_ex(edit, "all", &all) &&
		!json_object_is_type(all, json_type_boolean))
		return fail_argument(subject, TOOL_INVALID_ARGUMENTS, "edits",
			"must have true or false as \"all\"; number %zu has not", number);
	json_object_object_foreach (edit, name, value) {
		(void)value;
		if (strcmp(name, "old") != 0 && strcmp(name, "new") != 0 &&
			strcmp(name, "all") != 0)
			return fail_argument(subject, TOOL_INVALID_ARGUMENTS, name,
				"is not known in an edit; use \"old\", \"new\", \"all\"");
	}
	return TOOL_OK;
}

static enum tool_error decode_edits(const struct subject *subject, const char *name,
	struct json_object *value, struct json_object **ret_edits)
{
	size_t bytes = 0, count;

	if (!json_object_is_type(value, json_type_array))
		return fail_argument(subject, TOOL_INVALID_ARGUMENTS, name,
			"must be a list of objects like {\"old\": \"text\", \"new\": \"text\"}");
	count = json_object_array_length(value);
	if (count == 0 || count > LIMIT_EDITS)
		return fail_argument(subject, TOOL_INVALID_ARGUMENTS, name,
			"must have from 1 to %d edits", LIMIT_EDITS);
	for (size_t i = 0; i < count; i++) {
		enum tool_error error =
			decode_edit(subject, json_object_array_get_idx(value, i), i + 1, &bytes);

		if (error != TOOL_OK)
			return error;
	}
	if (bytes > LIMIT_EDIT_BYTES)
		return fail_argument(subject, TOOL_INVALID_ARGUMENTS, name,
			"must have at most %llu bytes in all; make several calls",
			LIMIT_EDIT_BYTES);
	*ret_edits = value;
	return TOOL_OK;
}

/* Checks @value against @param's row and stores it in its field of the struct at @fields. */
static enum tool_error decode_value(const struct subject *subject, const struct tool_param *param,
	struct json_object *value, void *fields)
{
	void *field = (char *)fields + param->offset;

	switch (param->type) {
	case PARAM_STRING:
		return decode_string(subject, param, value, field);
	case PARAM_INTEGER:
		return decode_integer(subject, param, value, field);
	case PARAM_EDITS:
		return decode_edits(subject, param->name, value, field);
	case PARAM_BOOLEAN:
		break;
	}
	return decode_boolean(subject, param, value, field);
}

static const struct tool_param *param_by_name(
	const struct tool_param *params, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(params[i].name, name) == 0)
			return &params[i];
	return NULL;
}

/* `is not known; use "path", "start_line", "end_line"; did you mean "end_line"?` */
static enum tool_error unknown_argument(const struct subject *subject, const struct tool *tool,
	struct json_object *arguments, const char *name)
{
	const struct tool_param *nearest = args_nearest(tool, name);
	char known[256] = "";
	size_t len = 0;

	for (size_t i = 0; i < tool_param_count(tool) && len < sizeof(known); i++)
		len += (size_t)snprintf(known + len, sizeof(known) - len, "%s\"%s\"",
			i > 0 ? ", " : "", tool->params[i].name);
	if (len == 0)
		return fail_argument(subject, TOOL_INVALID_ARGUMENTS, name,
			"is not known; this tool takes no arguments");
	if (tool->id == TOOL_RUN_COMMAND && args_is_directory(name))
		return fail_argument(subject, TOOL_INVALID_ARGUMENTS, name,
			"is not known; begin the command with it: {\"command\": \"cd DIRECTORY "
			"&& make\"}");
	if (nearest && !json_object_object_get_ex(arguments, nearest->name, NULL))
		return fail_argument(subject, TOOL_INVALID_ARGUMENTS, name,
			"is not known; use %s; did you mean \"%s\"?", known, nearest->name);
	return fail_argument(subject, TOOL_INVALID_ARGUMENTS, name, "is not known; use %s", known);
}

/* An argument under another name, and the parameter that the name means. */
struct alias_use {
	const char *name;
	const struct tool_param *param;
};

/* Notes that @name means @param, unless another argument means it too. */
static enum tool_error use_alias(const struct subject *subject, struct json_object *arguments,
	struct alias_use *uses, size_t *count, struct alias_use use)
{
	const char *other = NULL;

	if (json_object_object_get_ex(arguments, use.param->name, NULL))
		other = use.param->name;
	for (size_t i = 0; i < *count; i++)
		if (uses[i].param == use.param)
			other = uses[i].name;
	if (other)
		return fail_argument(subject, TOOL_INVALID_ARGUMENTS, use.name,
			"means the same as \"%.*s\"; give only \"%s\"", NAME_SHOWN_BYTES, other,
			use.param->name);
	uses[(*count)++] = use;
	return TOOL_OK;
}

static enum tool_error rename_argument(
	struct json_object *arguments, const struct alias_use *use, struct notes *notes)
{
	struct json_object *value = json_object_get(json_object_object_get(arguments, use->name));

	if (json_object_object_add(arguments, use->param->name, value) < 0) {
		json_object_put(value);
		return TOOL_BUSY;
	}
	notes_add(notes, "\"%.*s\" was taken as \"%s\"", NAME_SHOWN_BYTES, use->name,
		use->param->name);
	json_object_object_del(arguments, use->name);
	return TOOL_OK;
}

/* Makes one element of edits of what stands beside the path: models know tools with one edit. */
static enum tool_error gather_edit(struct json_object *arguments, struct notes *notes)
{
	struct json_object *edit, *edits;

	if (json_object_object_get_ex(arguments, "edits", NULL))
		return TOOL_OK;
	edit = json_object_new_object();
	edits = edit ? json_object_new_array() : NULL;
	for (size_t i = 0; edits && i < ARRAY_SIZE(edit_names); i++) {
		struct json_object *value;

		if (!json_object_object_get_ex(arguments, edit_names[i][0], &value))
			continue;
		json_object_object_add(edit, edit_names[i][1], json_object_get(value));
		json_object_object_del(arguments, edit_names[i][0]);
	}
	if (!edits || json_object_object_length(edit) == 0) {
		json_object_put(edit);
		json_object_put(edits);
		return edits ? TOOL_OK : TOOL_BUSY;
	}
	notes_add(notes, "\"old\" and \"new\" were taken as an element of \"edits\"");
	if (json_object_array_add(edits, edit) < 0 ||
		json_object_object_add(arguments, "edits", edits) < 0)
		return TOOL_BUSY;
	return TOOL_OK;
}

/* Drops arguments in which models say why they make a call. */
static void drop_remarks(
	const struct tool *tool, struct json_object *arguments, struct notes *notes)
{
	static const char *const remarks[] = {
		"description", "explanation", "reason", "toolSummary"};

	for (size_t i = 0; i < ARRAY_SIZE(remarks); i++) {
		if (args_alias(tool, remarks[i]) ||
			!json_object_object_get_ex(arguments, remarks[i], NULL))
			continue;
		json_object_object_del(arguments, remarks[i]);
		notes_add(notes, "\"%s\" has no effect", remarks[i]);
	}
}

enum tool_error args_rename(const struct tool *tool, struct json_object *arguments,
	struct notes *notes, char **ret_message)
{
	struct subject subject = {tool->name, "argument", ret_message, notes};
	struct alias_use uses[TOOL_PARAMS_MAX];
	const size_t n_params = tool_param_count(tool);
	enum tool_error error = TOOL_OK;
	size_t count = 0;

	if (!json_object_is_type(arguments, json_type_object))
		return TOOL_OK;
	drop_remarks(tool, arguments, notes);
	if (tool->id == TOOL_EDIT_FILE)
		error = gather_edit(arguments, notes);
	if (error != TOOL_OK)
		return error;
	json_object_object_foreach (arguments, name, value) {
		struct alias_use use = {name, NULL};

		(void)value;
		if (!param_by_name(tool->params, n_params, name))
			use.param = args_alias(tool, name);
		if (use.param)
			error = use_alias(&subject, arguments, uses, &count, use);
		if (error != TOOL_OK)
			return error;
	}
	for (size_t i = 0; i < count && error == TOOL_OK; i++)
		error = rename_argument(arguments, &uses[i], notes);
	return error;
}

enum tool_error args_decode(const struct tool *tool, struct json_object *arguments,
	struct notes *notes, struct tool_args *ret_args, char **ret_message)
{
	struct subject subject = {tool->name, "argument", ret_message, notes};
	size_t count = tool_param_count(tool);
	struct tool_args args;

	if (arguments && !json_object_is_type(arguments, json_type_object)) {
		if (asprintf(ret_message, "%s: the arguments must be a JSON object", tool->name) <
			0)
			*ret_message = NULL;
		return TOOL_INVALID_ARGUMENTS;
	}
	tool_args_defaults(tool, &args);
	if (arguments) {
		json_object_object_foreach (arguments, name, value) {
			const struct tool_param *param = param_by_name(tool->params, count, name);
			enum tool_error error = TOOL_OK;

			if (!param)
				error = unknown_argument(&subject, tool, arguments, name);
			else if (value)
				error = decode_value(&subject, param, value, &args);
			if (error != TOOL_OK)
				return error;
		}
	}
	for (size_t i = 0; i < count; i++)
		if (tool->params[i].required &&
			!json_object_object_get(arguments, tool->params[i].name))
			return fail_argument(&subject, TOOL_INVALID_ARGUMENTS, tool->params[i].name,
				tool->params[i].type == PARAM_EDITS
					? "is required: a list of objects like {\"old\": "
					  "\"text\", \"new\": \"text\"}"
					: "is required");
	if (args.end_line > 0 && args.start_line > args.end_line)
		return fail_argument(&subject, TOOL_INVALID_ARGUMENTS, "end_line",
			"must not be less than \"start_line\"");
	*ret_args = args;
	return TOOL_OK;
}

#define FIELD(field) .offset = offsetof(struct call_options, field)

/* Options that are one value of one type. */
static const struct tool_param plain_options[] = {
	{.name = "timeout_ms",
		.type = PARAM_INTEGER,
		.min = 1,
		.max = LIMIT_COMMAND_MAX_MS,
		FIELD(timeout_ms)},
	{.name = "idle_timeout_ms",
		.type = PARAM_INTEGER,
		.min = 1,
		.max = LIMIT_COMMAND_MAX_MS,
		FIELD(idle_timeout_ms)},
	{.name = "key_wait_ms",
		.type = PARAM_INTEGER,
		.min = 1,
		.max = LIMIT_COMMAND_MAX_MS,
		FIELD(key_wait_ms)},
	{.name = "yield_ms",
		.type = PARAM_INTEGER,
		.min = 1,
		.max = LIMIT_COMMAND_MAX_MS,
		FIELD(yield_ms)},
	{.name = "max_output",
		.type = PARAM_INTEGER,
		.min = 1,
		.max = LIMIT_STREAM_KEPT_MAX_BYTES,
		FIELD(max_output)},
	{.name = "stdin",
		.type = PARAM_STRING,
		.nul_allowed = true,
		.max = LIMIT_STDIN_BYTES,
		.too_long = TOOL_INVALID_ARGUMENTS,
		FIELD(input)},
	{.name = "path_base64",
		.type = PARAM_STRING,
		.min = 1,
		.max = (LIMIT_PATH_BYTES + INT64_C(2)) / 3 * 4, /* the base64 of the longest path */
		.too_long = TOOL_INVALID_ARGUMENTS,
		FIELD(path_base64)},
	{.name = "cwd",
		.type = PARAM_STRING,
		.min = 1,
		.max = LIMIT_PATH_BYTES,
		.too_long = TOOL_INVALID_ARGUMENTS,
		FIELD(cwd)},
	{.name = "stream", .type = PARAM_BOOLEAN, FIELD(stream)},
	{.name = "stream_bytes", .type = PARAM_BOOLEAN, FIELD(stream_bytes)},
	{.name = "stdin_stream", .type = PARAM_BOOLEAN, FIELD(stdin_stream)},
	{.name = "keep_output", .type = PARAM_BOOLEAN, FIELD(keep_output)},
	{.name = "line_numbers", .type = PARAM_BOOLEAN, FIELD(line_numbers)},
	{.name = "gitignore", .type = PARAM_BOOLEAN, FIELD(gitignore)},
	{.name = "blocked_list", .type = PARAM_BOOLEAN, FIELD(blocked_list)},
};

/* Options that are one of two words. */
static const struct choice {
	const char *name;
	const char *no, *yes;
	size_t offset; /* of the bool in struct call_options */
} choices[] = {
	{"encoding", "utf-8", "base64", offsetof(struct call_options, base64)},
	{"reply", "observation", "message", offsetof(struct call_options, reply_message)},
	{"durability", "durable", "fast", offsetof(struct call_options, fast_write)},
	{"transaction", "none", "preview", offsetof(struct call_options, preview)},
};

static enum tool_error decode_choice(const struct subject *subject, const struct choice *choice,
	struct json_object *value, struct call_options *options)
{
	bool *field = (bool *)((char *)options + choice->offset);
	struct text text = {NULL, 0};

	if (json_object_is_type(value, json_type_string))
		text = string_text(value);
	*field = text_equal(text, text_from(choice->yes));
	if (!*field && !text_equal(text, text_from(choice->no)))
		return fail_argument(subject, TOOL_INVALID_ARGUMENTS, choice->name,
			"must be \"%s\" or \"%s\"", choice->no, choice->yes);
	return TOOL_OK;
}

static enum tool_error decode_env(
	const struct subject *subject, struct json_object *value, struct call_options *options)
{
	char buffer[128];
	const char *fault = env_fault(value, LIMIT_ENV_COUNT, LIMIT_ENV_BYTES, &options->env_count,
		buffer, sizeof(buffer));

	if (fault)
		return fail_argument(subject, TOOL_INVALID_ARGUMENTS, "env", "%s", fault);
	options->env = value;
	return TOOL_OK;
}

static enum tool_error decode_key(const struct subject *subject, const char *name,
	struct json_object *value, struct text *ret_key)
{
	static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				  "0123456789._:-";
	struct text key = {NULL, 0};

	if (json_object_is_type(value, json_type_string))
		key = string_text(value);
	if (key.len < 1 || key.len > LIMIT_KEY_BYTES || strspn(key.data, all) != key.len)
		return fail_argument(subject, TOOL_INVALID_ARGUMENTS, name,
			"must be 1 to %d of the characters A-Z, a-z, 0-9, \".\", \"_\", \":\" and "
			"\"-\"",
			LIMIT_KEY_BYTES);
	*ret_key = key;
	return TOOL_OK;
}

static enum tool_error decode_option(const struct subject *subject, const char *name,
	struct json_object *value, struct call_options *options)
{
	const struct tool_param *param =
		param_by_name(plain_options, ARRAY_SIZE(plain_options), name);

	if (param)
		return value ? decode_value(subject, param, value, options) : TOOL_OK;
	for (size_t i = 0; i < ARRAY_SIZE(choices); i++)
		if (strcmp(choices[i].name, name) == 0)
			return value ? decode_choice(subject, &choices[i], value, options)
				     : TOOL_OK;
	if (strcmp(name, "key") == 0)
		return value ? decode_key(subject, name, value, &options->key) : TOOL_OK;
	if (strcmp(name, "forget_key") == 0)
		return value ? decode_key(subject, name, value, &options->forget_key) : TOOL_OK;
	if (strcmp(name, "env") == 0)
		return value ? decode_env(subject, value, options) : TOOL_OK;
	return fail_argument(subject, TOOL_INVALID_ARGUMENTS, name, "is not known");
}

void options_defaults(struct call_options *ret_options)
{
	*ret_options = (struct call_options){
		.line_numbers = true, .gitignore = true, .blocked_list = true, .keep_output = true};
}

int options_decode(const struct tool *tool, struct json_object *options,
	struct call_options *ret_options, char **ret_message)
{
	struct subject subject = {tool->name, "option", ret_message, NULL};
	struct call_options decoded;

	options_defaults(&decoded);
	if (options && !json_object_is_type(options, json_type_object)) {
		if (asprintf(ret_message, "%s: the options must be a JSON object", tool->name) < 0)
			*ret_message = NULL;
		return -EINVAL;
	}
	if (options) {
		json_object_object_foreach (options, name, value) {
			if (decode_option(&subject, name, value, &decoded) != TOOL_OK)
				return -EINVAL;
		}
	}
	if (decoded.stream_bytes && !decoded.stream) {
		(void)fail_argument(&subject, TOOL_INVALID_ARGUMENTS, "stream_bytes",
			"says how output is streamed: give \"stream\" too");
		return -EINVAL;
	}
	if (decoded.key.data && decoded.stdin_stream) {
		(void)fail_argument(&subject, TOOL_INVALID_ARGUMENTS, "key",
			"cannot be used with \"stdin_stream\", whose input is not part of the "
			"call; "
			"give the input as \"stdin\"");
		return -EINVAL;
	}
	if (decoded.key.data && text_equal(decoded.key, decoded.forget_key)) {
		(void)fail_argument(&subject, TOOL_INVALID_ARGUMENTS, "forget_key",
			"must be the key of an earlier call, whose answer has come, not \"key\"");
		return -EINVAL;
	}
	if (decoded.yield_ms > 0 && decoded.stdin_stream) {
		(void)fail_argument(&subject, TOOL_INVALID_ARGUMENTS, "yield_ms",
			"cannot be used with \"stdin_stream\", whose input ends with the call; use "
			"session.start with \"stdin\"");
		return -EINVAL;
	}
	if (decoded.preview && (decoded.key.data || decoded.yield_ms > 0)) {
		(void)fail_argument(&subject, TOOL_INVALID_ARGUMENTS, "transaction",
			"cannot be used with \"%s\": what a preview has done counts only when it "
			"is committed",
			decoded.key.data ? "key" : "yield_ms");
		return -EINVAL;
	}
	*ret_options = decoded;
	return 0;
}
