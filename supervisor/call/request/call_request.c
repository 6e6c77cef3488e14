// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. A model or a client wrote everything in a request, and it is hostile. */
#include "supervisor/call/request/call_request.h"

#include "common/base64.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/path_rules.h"
#include "common/wire/wire_files.h"
#include "supervisor/call/request/patch_text.h"
#include "supervisor/call/request/path_guess.h"
#include "supervisor/call/request/tool_call_form.h"
#include "supervisor/config/command_policy.h"
#include "supervisor/config/tenant.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <stdarg.h>
#include <stdio.h>

static void put_json(struct json_object **json)
{
	json_object_put(*json);
}

static int __attribute__((format(printf, 3, 4)))
refuse(struct call_refusal *refusal, enum tool_error error, const char *format, ...)
{
	va_list arguments;

	refusal->why.error = error;
	va_start(arguments, format);
	if (vasprintf(&refusal->why.message, format, arguments) < 0)
		refusal->why.message = NULL;
	va_end(arguments);
	return -EINVAL;
}

static struct text json_text_of(struct json_object *json)
{
	return (struct text){
		json_object_get_string(json), (size_t)json_object_get_string_len(json)};
}

/*
 * Reads name and arguments, given plainly or in the form of a model's API. @ret_arguments is a
 * reference or NULL.
 */
static int read_call(struct json_object *params, size_t memory, struct text *ret_name,
	struct json_object **ret_arguments, size_t *ret_memory, struct call_refusal *refusal)
{
	int r;
	struct json_object *form, *name, *arguments;

	if (json_object_object_get_ex(params, "tool_call", &form)) {
		if (json_object_object_get_ex(params, "tool", NULL) ||
			json_object_object_get_ex(params, "arguments", NULL))
			return refuse(refusal, TOOL_OK,
				"give either tool_call or tool and arguments, not both");
		r = tool_call_form(
			form, memory, ret_name, ret_arguments, ret_memory, &refusal->why.message);
		if (r == 0)
			return 0;
		if (r == -ENOBUFS)
			return refuse(refusal, TOOL_BUSY,
				"The requests in flight use all the memory that they may use, so "
				"cloisterd cannot parse arguments given as a string; give them as "
				"an object, or try again when calls have been answered");
		refusal->why.error = TOOL_INVALID_ARGUMENTS;
		return -EINVAL;
	}
	if (!json_object_object_get_ex(params, "tool", &name) ||
		!json_object_is_type(name, json_type_string))
		return refuse(refusal, TOOL_OK, "tool must be a string: the tool's name");
	if (!json_object_object_get_ex(params, "arguments", &arguments))
		arguments = NULL;
	if (arguments && !json_object_is_type(arguments, json_type_object)) {
		refusal->tool = strdup(json_object_get_string(name));
		return refuse(refusal, TOOL_INVALID_ARGUMENTS, "arguments must be a JSON object");
	}
	*ret_name = json_text_of(name);
	*ret_arguments = json_object_get(arguments);
	return 0;
}

static int check_members(struct json_object *params, struct call_refusal *refusal)
{
	static const char *const known[] = {
		"workspace", "tool", "arguments", "tool_call", "options"};

	json_object_object_foreach (params, key, value) {
		size_t i = 0;

		(void)value;
		while (i < ARRAY_SIZE(known) && strcmp(key, known[i]) != 0)
			i++;
		if (i == ARRAY_SIZE(known))
			return refuse(refusal, TOOL_OK, "unknown parameter \"%.64s\"", key);
	}
	return 0;
}

/*
 * With options.encoding base64, content and stdin are decoded: bytes that no JSON string can hold.
 */
static int decode_base64(struct call_request *request, struct call_refusal *refusal)
{
	const enum tool_id tool = request->tool->id;
	const bool is_write = tool == TOOL_WRITE_FILE;
	struct text *encoded = is_write                  ? &request->args.content
			       : tool == TOOL_SEND_INPUT ? &request->args.input
							 : &request->options.input;
	size_t len;

	request->large = encoded->len;
	if (!request->options.base64 || !encoded->data)
		return 0;
	request->decoded = malloc(base64_decoded_size(encoded->len) + 1);
	if (!request->decoded)
		return refuse(refusal, TOOL_BUSY, "Out of memory");
	if (base64_decode(*encoded, request->decoded, &len) < 0)
		return refuse(refusal, TOOL_INVALID_ARGUMENTS,
			"options.encoding is base64, but %s is not valid base64",
			is_write                  ? "content"
			: tool == TOOL_SEND_INPUT ? "input"
						  : "options.stdin");
	*encoded = (struct text){request->decoded, len};
	return 0;
}

/* Encodes the edits for the files process, as what stands for the content of a write. */
static int encode_edits(struct call_request *request, struct call_refusal *refusal)
{
	struct json_object *edits = request->args.edits;
	size_t count = edits ? json_object_array_length(edits) : 0, size = 0;
	struct wire_writer writer;

	if (count == 0)
		return 0;
	for (size_t i = 0; i < count; i++) {
		struct json_object *edit = json_object_array_get_idx(edits, i);

		size += json_text_of(json_object_object_get(edit, "old")).len +
			json_text_of(json_object_object_get(edit, "new")).len + FILES_EDIT_OVERHEAD;
	}
	request->decoded = malloc(size);
	if (!request->decoded)
		return refuse(refusal, TOOL_BUSY, "Out of memory");
	writer = wire_writer(request->decoded, size);
	for (size_t i = 0; i < count; i++) {
		struct json_object *edit = json_object_array_get_idx(edits, i);

		wire_put_u8(&writer, json_object_get_boolean(json_object_object_get(edit, "all")));
		wire_put_text(&writer, json_text_of(json_object_object_get(edit, "old")));
		wire_put_text(&writer, json_text_of(json_object_object_get(edit, "new")));
	}
	request->args.content = (struct text){request->decoded, writer.len};
	request->args.edits = NULL; /* they are dropped once they have been sent */
	request->large = size;
	return 0;
}

/* Reads the patch; its parts stand for the content of a write. */
static int read_patch(
	struct call_request *request, struct text visible_root, struct call_refusal *refusal)
{
	struct patch_text patch;
	enum tool_error error = patch_text_read(visible_root, request->args.patch, &patch);

	if (error != TOOL_OK) {
		refusal->why = (struct refusal){.error = error, .message = patch.message};
		return -EINVAL;
	}
	request->decoded = patch.parts;
	request->path = patch.first;
	request->large = patch.len;
	request->args.content = (struct text){patch.parts, patch.len};
	request->args.patch = (struct text){NULL, 0}; /* it is dropped once it has been sent */
	return 0;
}

/* The table's bound leaves room for base64; this is the bound of the decoded content. */
static int check_content(const struct call_request *request, struct call_refusal *refusal)
{
	if (request->args.input.len > LIMIT_TOOL_INPUT_BYTES)
		return refuse(refusal, TOOL_INVALID_ARGUMENTS,
			"send_input: argument \"input\" must be at most %llu bytes long",
			LIMIT_TOOL_INPUT_BYTES);
	if (request->args.content.len <= LIMIT_CONTENT_BYTES)
		return 0;
	return refuse(refusal, TOOL_FILE_TOO_LARGE,
		"write_file: argument \"content\" must be at most %llu bytes long",
		LIMIT_CONTENT_BYTES);
}

static int check_path(
	struct call_request *request, struct text visible_root, struct call_refusal *refusal)
{
	struct text encoded = request->options.path_base64, path = request->args.path;
	_cleanup_free_ char *decoded = NULL;
	enum tool_error error;

	if (encoded.data) {
		decoded = malloc(base64_decoded_size(encoded.len) + 1);
		if (!decoded)
			return refuse(refusal, TOOL_BUSY, "Out of memory");
		if (base64_decode(encoded, decoded, &path.len) < 0)
			return refuse(refusal, TOOL_OK, "options.path_base64 is not valid base64");
		path.data = decoded;
	}
	error = path_rules_check(visible_root, path, encoded.data != NULL, &request->path);
	if (error == TOOL_PATH_OUTSIDE_WORKSPACE)
		path_guess_note(visible_root, path, &request->notes);
	if (error != TOOL_OK)
		return refuse(refusal, error, "%s", path_rules_sentence(error, path));
	return 0;
}

static int check_command(struct call_request *request, struct text visible_root,
	const struct command_policy *policy, struct call_refusal *refusal)
{
	const char *why =
		request->options.blocked_list
			? command_policy_match(policy, request->args.command, visible_root)
			: NULL;

	return why ? refuse(refusal, TOOL_COMMAND_BLOCKED, "The command was not run: %s", why) : 0;
}

/*
 * With options.path_base64 the argument path may be missing, but the decoder requires it for some
 * tools.
 */
static int stand_in_for_path(
	const struct tool *tool, struct json_object *options, struct json_object **arguments)
{
	if (!tool->params[0].required || strcmp(tool->params[0].name, "path") != 0 ||
		!json_object_object_get_ex(options, "path_base64", NULL) ||
		(*arguments && json_object_object_get_ex(*arguments, "path", NULL)))
		return 0;
	if (!*arguments)
		*arguments = json_object_new_object();
	return *arguments ? json_object_object_add(*arguments, "path", json_object_new_string("."))
			  : -ENOMEM;
}

/* Without a deadline from the model the tenant's default applies, and its limit in any case. */
static void limit_timeout(struct call_request *request, struct json_object *arguments,
	const struct tenant_limits *limits)
{
	int64_t *timeout_ms = &request->args.timeout_ms,
		max = (int64_t)limits->command_timeout_max_ms;
	struct json_object *given = NULL;

	if (!json_object_object_get_ex(arguments, "timeout_ms", &given) || !given)
		*timeout_ms = (int64_t)limits->command_timeout_ms;
	if (*timeout_ms <= max)
		return;
	if (given)
		notes_add(&request->notes,
			"\"timeout_ms\" was lowered from %" PRId64 " to its maximum here, %" PRId64,
			*timeout_ms, max);
	*timeout_ms = max;
}

/*
 * A command in the background is one that goes on as a session if it is not over within a moment.
 * The model's time limit does not end it; the tenant's limits hold.
 */
static int run_in_background(
	struct call_request *request, struct json_object *arguments, struct call_refusal *refusal)
{
	struct call_options *options = &request->options;
	struct json_object *given;
	int64_t timeout_ms;

	if (!request->args.background) {
		if (request->args.name.data && !request->tool->on_sessions)
			notes_add(&request->notes,
				"\"name\" is only for a command with background=true");
		return 0;
	}
	if (options->stdin_stream)
		return refuse(refusal, TOOL_INVALID_ARGUMENTS,
			"run_command: argument \"background\" cannot be used here: the program "
			"gives the command its input itself; leave it out");
	if (json_object_object_get_ex(arguments, "timeout_ms", &given) && given)
		notes_add(&request->notes,
			"\"timeout_ms\" does not end a command in the background; stop_command "
			"does");
	request->args.timeout_ms = (int64_t)request->tenant->limits.command_timeout_ms;
	options->input_later = !options->input.data;
	if (options->yield_ms == 0 || options->yield_ms > LIMIT_TOOL_LOOK_MS)
		options->yield_ms = LIMIT_TOOL_LOOK_MS;
	/* It goes on before its time as a call is over. */
	timeout_ms = call_timeout_ms(request);
	if (options->yield_ms >= timeout_ms)
		options->yield_ms = timeout_ms > 1 ? timeout_ms / 2 : 1;
	return 0;
}

/* Takes the names and values of the model's arguments. */
static int read_arguments(struct call_request *request, struct json_object *options,
	struct json_object **arguments, struct call_refusal *refusal)
{
	char **message = &refusal->why.message;
	struct tool buffer;
	const struct tool *tool = tool_offered(request->tool, request->tools, &buffer);
	enum tool_error error = args_rename(tool, *arguments, &request->notes, message);

	if (error == TOOL_OK && stand_in_for_path(request->tool, options, arguments) < 0)
		return -EINVAL;
	if (error == TOOL_OK)
		error = args_decode(tool, *arguments, &request->notes, &request->args, message);
	refusal->why.error = error;
	refusal->names_none = error != TOOL_OK && request->tool->on_sessions &&
			      tool_param_count(request->tool) > 0 &&
			      !json_object_object_get(*arguments, "name");
	return error == TOOL_OK ? 0 : -EINVAL;
}

/* The request is refused, but what was said about its arguments is told. */
static int give_up_call_request(struct call_request *request, struct call_refusal *refusal)
{
	refusal->notes = request->notes;
	request->notes.count = 0;
	call_request_done(request);
	return -EINVAL;
}

/* Checks what the decoded arguments mean, and encodes what is sent after the request. */
static int check_values(struct call_request *request, struct text visible_root,
	const struct command_policy *policy, struct call_refusal *refusal)
{
	int r;

	if (request->tool->id == TOOL_APPLY_PATCH)
		return read_patch(request, visible_root, refusal);
	r = request->tool->id == TOOL_EDIT_FILE ? encode_edits(request, refusal)
						: decode_base64(request, refusal);
	if (r == 0)
		r = check_content(request, refusal);
	if (r < 0 || request->tool->on_sessions)
		return r;
	return request->tool->id == TOOL_RUN_COMMAND
		       ? check_command(request, visible_root, policy, refusal)
		       : check_path(request, visible_root, refusal);
}

int call_request_read(struct json_object *params, size_t memory, struct text visible_root,
	struct tenant *tenant, uint64_t offered, enum reader reader,
	struct call_request *ret_request, struct call_refusal *ret_refusal)
{
	_cleanup_(put_json) struct json_object *arguments = NULL;
	struct call_refusal *refusal = ret_refusal;
	struct call_request request = {0};
	struct json_object *options = NULL;
	struct text name = {NULL, 0};
	char names[TOOL_NAMES_SIZE];
	int r;

	*refusal = (struct call_refusal){0};
	r = check_members(params, refusal);
	if (r == 0)
		r = read_call(params, memory, &name, &arguments, &request.memory, refusal);
	if (r < 0)
		return r;
	refusal->tool = name.data ? strndup(name.data, name.len < 64 ? name.len : 64) : NULL;
	request.tool = tool_by_name(name);
	request.tools = offered;
	if (!request.tool)
		return refuse(refusal, TOOL_UNKNOWN_TOOL, "There is no tool of this name; use %s",
			tool_names(offered, names));
	json_object_object_get_ex(params, "options", &options);
	if (options_decode(request.tool, options, &request.options, &refusal->why.message) < 0)
		return -EINVAL;
	request.tenant = tenant_hold(tenant);
	if (read_arguments(&request, options, &arguments, refusal) < 0)
		return give_up_call_request(&request, refusal);
	limit_timeout(&request, arguments, &tenant->limits);
	if (!json_object_object_get_ex(options, "durability", NULL))
		request.options.fast_write = tenant->durability == TENANT_FAST;
	request.shown = shown_to(reader, &request.options, &tenant->limits);
	request.params = json_object_get(params);
	request.arguments = json_object_get(arguments);
	/* The string has been parsed. */
	json_object_object_del(params, "tool_call");
	r = check_values(&request, visible_root, tenant->policy, refusal);
	if (r == 0)
		r = run_in_background(&request, arguments, refusal);
	if (r < 0)
		return give_up_call_request(&request, refusal);
	call_refusal_done(refusal);
	*ret_request = request;
	return 0;
}

/* Drops the only member that may be large, in the arguments or in the options. */
static void drop_large(struct call_request *request)
{
	struct json_object *arguments = request->arguments, *options;

	if (request->tool->id == TOOL_WRITE_FILE)
		json_object_object_del(arguments, "content");
	else if (request->tool->id == TOOL_EDIT_FILE)
		json_object_object_del(arguments, "edits");
	else if (request->tool->id == TOOL_APPLY_PATCH)
		json_object_object_del(arguments, "patch");
	else if (request->tool->id == TOOL_SEND_INPUT)
		json_object_object_del(arguments, "input");
	else if (json_object_object_get_ex(request->params, "options", &options))
		json_object_object_del(options, "stdin");
}

int call_request_diff(struct json_object *params, struct tenant *tenant, int64_t since, bool patch,
	struct call_request *ret)
{
	struct json_object *arguments = json_object_new_object();

	*ret = (struct call_request){.tool = &tool_diff,
		.args = {.since = since, .as_patch = patch},
		.path = strdup("."),
		.params = json_object_get(params),
		.arguments = arguments,
		.tenant = tenant_hold(tenant)};
	options_defaults(&ret->options);
	if (!arguments || !ret->path) {
		call_request_done(ret);
		return -ENOMEM;
	}
	json_object_object_add(arguments, "since", json_object_new_int64(since));
	json_object_object_add(arguments, "patch", json_object_new_boolean(patch));
	return 0;
}

void call_request_drop_encoded(struct call_request *request)
{
	if (request->decoded)
		drop_large(request);
}

void call_request_drop_sent(struct call_request *request)
{
	drop_large(request);
	free(request->decoded);
	request->decoded = NULL;
	request->args.content = (struct text){NULL, 0};
	request->args.input = (struct text){NULL, 0};
	request->options.input = (struct text){NULL, 0};
}

void call_request_done(struct call_request *request)
{
	json_object_put(request->params);
	json_object_put(request->arguments);
	free(request->decoded);
	free(request->attributes);
	free(request->path);
	free(request->to);
	notes_done(&request->notes);
	tenant_release(request->tenant);
	*request = (struct call_request){0};
}

void call_refusal_done(struct call_refusal *refusal)
{
	free(refusal->tool);
	notes_done(&refusal->notes);
	refusal_done(&refusal->why);
	*refusal = (struct call_refusal){0};
}

/* The shortest of argument, option and limit. */
int64_t call_timeout_ms(const struct call_request *request)
{
	int64_t deadline;

	if (request->session.id)
		return request->session.lifetime_ms;
	deadline = request->tool->id == TOOL_RUN_COMMAND
			   ? request->args.timeout_ms
			   : (int64_t)request->tenant->limits.file_timeout_ms;

	if (request->options.timeout_ms > 0 &&
		(request->options.timeout_ms < deadline || request->tool->id == TOOL_FILE_WATCH))
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
	case TOOL_FILE_MAKE_DIRECTORY:
	case TOOL_FILE_MOVE:
		return CALL_CLASS_WRITE;
	case TOOL_FILE_READ:
	case TOOL_FILE_WRITE:
		return CALL_CLASS_STREAM;
	case TOOL_FILE_WATCH:
		return CALL_CLASS_WATCH;
	case TOOL_FILE_REMOVE:
		return request->args.recursive ? CALL_CLASS_JOB : CALL_CLASS_WRITE;
	case TOOL_FILE_LIST:
		return request->args.depth != 1 ? CALL_CLASS_JOB : CALL_CLASS_SHORT;
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
