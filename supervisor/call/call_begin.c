// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The receivers are worker/files/files_serve.c and
 * worker/commands/command_table.c. The pipes lead to a command, which is hostile.
 */
#include "supervisor/call/call_begin.h"

#include "common/byte_queue.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire/wire_commands.h"
#include "common/wire/wire_files.h"
#include "supervisor/call/call_answer.h"
#include "supervisor/call/call_disk.h"
#include "supervisor/call/call_network.h"
#include "supervisor/call/call_stream.h"
#include "supervisor/call/call_watch.h"
#include "supervisor/call/command_input.h"
#include "supervisor/call/service.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/limits.h"
#include "supervisor/workspace/managed/workspace_properties.h"
#include "supervisor/workspace/network/network_use.h"
#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspace_disk.h"
#include "supervisor/workspace/workspace_pause.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>

/* Only one request is encoded at a time. */
static uint8_t payload[WIRE_PAYLOAD_MAX];

static uint8_t put_read(struct wire_writer *writer, const struct call_request *request)
{
	struct files_read message = {
		.path = text_from(request->path),
		.start_line = (uint64_t)request->args.start_line,
		.end_line = (uint64_t)request->args.end_line,
		.numbered = request->shown.numbered,
		.raw = request->options.base64,
		.images = request->shown.images,
		.by_type = request->shown.bytes > 0,
	};

	files_read_put(writer, &message);
	return FILES_READ;
}

static uint8_t put_write(struct wire_writer *writer, const struct call_request *request)
{
	struct files_write message = {
		.path = text_from(request->path),
		.expect = request->args.expect,
		.size = request->args.content.len,
		.create_dirs = request->args.create_dirs,
		.durable = !request->options.fast_write,
		.held = request->held,
		.look = request->look,
	};

	files_write_put(writer, &message);
	return FILES_WRITE;
}

static uint8_t put_edit(struct wire_writer *writer, const struct call_request *request)
{
	struct files_edit message = {
		.path = text_from(request->path),
		.expect = request->args.expect,
		.size = request->args.content.len,
		.durable = !request->options.fast_write,
		.held = request->held,
		.look = request->look,
	};

	files_edit_put(writer, &message);
	return FILES_EDIT;
}

static uint8_t put_patch(struct wire_writer *writer, const struct call_request *request)
{
	struct files_patch message = {
		.size = request->args.content.len,
		.durable = !request->options.fast_write,
		.held = request->held,
		.look = request->look,
	};

	files_patch_put(writer, &message);
	return FILES_PATCH;
}

static uint8_t put_list(struct wire_writer *writer, const struct call_request *request)
{
	struct files_list message = {
		.path = text_from(request->path),
		.pattern = request->args.pattern,
		.recursive = request->args.recursive,
		.gitignore = request->options.gitignore,
		.by_depth = request->args.recursive && request->shown.sent < UINT64_MAX &&
			    request->shown.bytes > 0,
		.max_entries = LIMIT_LIST_ENTRIES,
	};

	if (message.by_depth)
		message.max_entries = LIMIT_SHOWN_ENTRIES;
	files_list_put(writer, &message);
	return FILES_LIST;
}

static uint8_t put_search(struct wire_writer *writer, const struct call_request *request)
{
	struct files_search message = {
		.pattern = request->args.pattern,
		.path = text_from(request->path),
		.file_pattern = request->args.file_pattern,
		.gitignore = request->options.gitignore,
		.max_results = (uint32_t)tool_search_most(&request->args),
		.offset = (uint32_t)request->args.offset,
		.context = (uint32_t)request->args.context,
	};

	files_search_put(writer, &message);
	return FILES_SEARCH;
}

static uint8_t put_diff(struct wire_writer *writer, const struct call_request *request)
{
	struct files_diff message = {
		/* the layer that the checkpoint froze: supervisor/workspace/layers/layers.h */
		.since = (uint32_t)request->args.since - 1,
		.patch = request->args.as_patch,
		.max_changes = LIMIT_DIFF_CHANGES,
	};

	files_diff_put(writer, &message);
	return FILES_DIFF;
}

/* The permission bits that octal digits name, which were checked; none: 0. */
static uint32_t mode_of(struct text digits)
{
	uint32_t mode = 0;

	for (size_t i = 0; i < digits.len; i++)
		mode = mode * 8 + (uint32_t)(digits.data[i] - '0');
	return mode;
}

/* Each method uses its own members; file_methods has what others get by default. */
static uint8_t put_ask(struct wire_writer *writer, const struct call_request *request)
{
	static const uint8_t types[TOOL_KINDS] = {
		[TOOL_FILE_STAT] = FILES_STAT,
		[TOOL_FILE_LIST] = FILES_TREE,
		[TOOL_FILE_MAKE_DIRECTORY] = FILES_MAKE_DIRECTORY,
		[TOOL_FILE_MOVE] = FILES_RENAME,
		[TOOL_FILE_REMOVE] = FILES_REMOVE,
		[TOOL_FILE_READ] = FILES_FETCH,
		[TOOL_FILE_WATCH] = FILES_WATCH,
	};
	const struct tool_args *args = &request->args;
	struct files_ask message = {
		.path = text_from(request->path),
		.to = text_from(request->to),
		.offset = (uint64_t)args->offset,
		.length = args->length < 0 ? UINT64_MAX : (uint64_t)args->length,
		.depth = (uint32_t)args->depth,
		.max_entries = (uint32_t)args->limit,
		.mode = mode_of(args->mode),
		.follow = args->follow,
		.parents = args->parents,
		.replace = args->replace,
		.recursive = args->recursive,
		.attributes = args->attributes,
	};

	files_ask_put(writer, &message);
	return types[request->tool->id];
}

static uint8_t put_stream(struct wire_writer *writer, const struct call_request *request)
{
	struct files_write message = {
		.path = text_from(request->path),
		.expect = request->args.expect,
		.mode = mode_of(request->args.mode),
		.create_dirs = request->args.create_dirs,
		.durable = !request->options.fast_write,
		.streamed = true,
		.sets_attributes = request->attributes != NULL,
		.attributes = {(const char *)request->attributes, request->attributes_len},
	};

	files_write_put(writer, &message);
	return FILES_WRITE;
}

/* Takes the next frame's part of @body. */
static struct text take_part(struct text *body)
{
	struct text part = {
		body->data, body->len < WIRE_PAYLOAD_MAX ? body->len : WIRE_PAYLOAD_MAX};

	body->data += part.len;
	body->len -= part.len;
	return part;
}

/* Returns 0, or -EMSGSIZE if it does not fit into a frame. */
static int send_files(
	struct workspace *workspace, uint64_t call, const struct call_request *request)
{
	static uint8_t (*const put[TOOL_KINDS])(
		struct wire_writer *, const struct call_request *) = {
		[TOOL_READ_FILE] = put_read,
		[TOOL_WRITE_FILE] = put_write,
		[TOOL_LIST_DIRECTORY] = put_list,
		[TOOL_SEARCH_FILES] = put_search,
		[TOOL_EDIT_FILE] = put_edit,
		[TOOL_APPLY_PATCH] = put_patch,
		[TOOL_DIFF] = put_diff,
		[TOOL_FILE_STAT] = put_ask,
		[TOOL_FILE_LIST] = put_ask,
		[TOOL_FILE_MAKE_DIRECTORY] = put_ask,
		[TOOL_FILE_MOVE] = put_ask,
		[TOOL_FILE_REMOVE] = put_ask,
		[TOOL_FILE_READ] = put_ask,
		[TOOL_FILE_WRITE] = put_stream,
		[TOOL_FILE_WATCH] = put_ask,
	};
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	uint8_t type = put[request->tool->id](&writer, request);
	struct text body = request->args.content;

	if (!wire_writer_ok(&writer))
		return -EMSGSIZE;
	workspace_send_files(workspace, type, call, (struct text){(char *)payload, writer.len});
	while (body.len > 0)
		workspace_send_files(workspace, FILES_BODY, call, take_part(&body));
	return 0;
}

/* Writes NAME=VALUE and a NUL for each variable; of two with the same name the last counts. */
static int put_configured_env(struct byte_queue *body, const struct string_list *configured)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < configured->count; i++)
		r = byte_queue_append(
			body, configured->strings[i], strlen(configured->strings[i]) + 1);
	return r;
}

/* The same; @env may be NULL. */
static int put_env(struct byte_queue *body, struct json_object *env)
{
	int r = 0;

	if (!env)
		return 0;
	json_object_object_foreach (env, name, value) {
		size_t len = (size_t)json_object_get_string_len(value);

		if (r == 0)
			r = byte_queue_append(body, name, strlen(name));
		if (r == 0)
			r = byte_queue_append(body, "=", 1);
		if (r == 0)
			r = byte_queue_append(body, json_object_get_string(value), len);
		if (r == 0)
			r = byte_queue_append(body, "", 1);
	}
	return r;
}

static void free_queue(struct byte_queue *queue)
{
	byte_queue_free(queue);
}

/* Returns what the command of @call may do with the disk, and tells it if that is little. */
static uint8_t disk_of(struct call *call)
{
	const struct disk_state disk = workspace_disk(call->workspace);

	if (!disk_state_is_over(&disk))
		return disk.enforcer == DISK_ENFORCER_QUOTA ? COMMAND_DISK_QUOTA
							    : COMMAND_DISK_FREE;
	call_disk_note(call, &disk);
	return disk.over_files ? COMMAND_DISK_OVER_FILES : COMMAND_DISK_OVER;
}

/* Whether the command waits until cloisterd knows its cgroup: call_let_begin(). */
static bool tells_cgroup(const struct call_request *request, const struct network_use *use)
{
	return use->address != 0 || request->session.id || request->options.yield_ms > 0;
}

/* Takes @fds; -1: it has none. Returns 0, or -EMSGSIZE if the environment is too large. */
static int send_command(struct call *call, const int fds[COMMAND_FDS])
{
	const struct call_request *request = &call->request;
	const struct network_use *use = &call->network;
	_cleanup_(free_queue) struct byte_queue queue = {0};
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	const struct text cwd = request->options.cwd;
	struct text command = request->args.command, body;
	int sent[COMMAND_FDS];
	unsigned n_fds = 0;
	struct command_run message = {
		.command_len = (uint32_t)command.len,
		.has_stdin = fds[COMMAND_FD_STDIN] >= 0,
		.has_gate = fds[COMMAND_FD_GATE] >= 0,
		.limits = limits_of_command(&request->tenant->limits),
		.no_network = use->address == 0,
		.tells_cgroup = tells_cgroup(request, use),
		.input_wait_ms = request->options.stdin_stream || request->options.input_later
					 ? 0
					 : (uint32_t)request->tenant->limits.input_wait_ms,
		.shell = (uint8_t)request->tenant->shell,
		.terminal = request->session.terminal,
		.disk = disk_of(call),
	};
	int r = byte_queue_append(&queue, command.data, command.len);

	for (unsigned i = 0; i < COMMAND_FDS; i++)
		if (fds[i] >= 0)
			sent[n_fds++] = fds[i];
	if (r == 0 && use->address != 0)
		r = call_network_put_env(&queue, use, request->tenant);
	if (r == 0)
		r = put_configured_env(&queue, &request->tenant->environment);
	if (r == 0)
		r = put_env(&queue, workspace_env(call->workspace));
	if (r == 0)
		r = put_env(&queue, request->options.env);
	body = byte_queue_peek(&queue);
	if (r == 0 && body.len - command.len > LIMIT_COMMAND_ENV_BYTES)
		r = -EMSGSIZE;
	message.env_len = (uint32_t)(body.len - command.len);
	if (r == 0 && cwd.data)
		r = byte_queue_append(&queue, cwd.data, cwd.len);
	if (r == 0 && cwd.data)
		r = byte_queue_append(&queue, "", 1);
	body = byte_queue_peek(&queue);
	if (r < 0) {
		for (unsigned i = 0; i < n_fds; i++)
			close(sent[i]);
		return r;
	}
	message.cwd_len = cwd.data ? (uint32_t)cwd.len + 1 : 0;
	command_run_put(&writer, &message);
	workspace_send_worker(call->workspace, COMMAND_RUN, call->entry.call,
		(struct text){(char *)payload, writer.len}, sent, n_fds);
	while (body.len > 0)
		workspace_send_worker(
			call->workspace, COMMAND_BODY, call->entry.call, take_part(&body), NULL, 0);
	return 0;
}

void call_watch_silence(struct call *call)
{
	call->stopped_ns = workspace_stopped_ns(call->workspace);
	timer_set(&call->idle_timer, call->request.options.idle_timeout_ms);
}

static void on_moved(void *context)
{
	struct call *call = context;

	if (timer_is_set(&call->idle_timer) && call->state == CALL_RUNNING)
		call_watch_silence(call);
}

static void on_input_taken(void *context, const char *label, size_t taken, bool closed)
{
	struct call *call = context;

	if (call->owner.input_taken)
		call->owner.input_taken(call->owner.context, label, taken, closed);
}

int call_make_input(struct call *call)
{
	struct command_input_owner owner = {on_input_taken, on_moved, call_pipe_held, call};

	/* One that has joined another call runs nothing. */
	return call->leader ? 0
			    : command_input_new(call->service, call->request.tenant->usage, &owner,
				      &call->input);
}

static void on_call_output(void *context, enum command_stream stream, struct text data)
{
	struct call *call = context;

	on_moved(call);
	if (call->heir.inherit)
		call->heir.owner.output(call->heir.owner.context, stream, data);
	if (call->owner.output && call->request.options.stream)
		call->owner.output(call->owner.context, stream, data);
}

static void on_output_limit(void *context)
{
	call_cancel(context, ENDED_BY_OUTPUT_LIMIT);
}

/* Makes the command's pipes and stores the command's ends. Returns 0 or -errno. */
static int make_pipes(struct call *call, int ret_fds[COMMAND_FDS])
{
	struct command_io_owner owner = {
		on_call_output, on_output_limit, call_drained, call_pipe_held, call};
	const struct call_options *options = &call->request.options;
	const uint64_t shown = call->request.shown.bytes,
		       kept = call->request.tenant->limits.output_kept_bytes;
	struct command_io_limits limits = {shown > 0 && shown < kept ? shown : kept,
		call->request.tenant->limits.output_total_bytes, call->room.account,
		&call->request.tenant->usage->share, workspace_fd_sum(call->workspace),
		options->stream, shown > 0};
	int r;

	/* The client gets all output at its own pace; only the deadline bounds it. */
	if (!options->keep_output)
		limits = (struct command_io_limits){0, options->stream ? UINT64_MAX : limits.total,
			call->room.account, limits.share, limits.sum, options->stream, shown > 0};
	r = command_io_new(
		call->service->base, call->service->pipes, &owner, &limits, &call->io, ret_fds);
	if (r < 0 || !call->input)
		return r;
	r = command_input_begin(call->input, limits.sum, options->input,
		!options->stdin_stream && !options->input_later, &ret_fds[COMMAND_FD_STDIN]);
	if (r < 0) {
		close_fd(&ret_fds[COMMAND_FD_STDOUT]);
		close_fd(&ret_fds[COMMAND_FD_STDERR]);
	}
	return r;
}

/*
 * Sends a command to its worker. With a @gate, which it takes, the command waits there; -1: there
 * is none. Returns 0 or -errno.
 */
static int begin_command(struct call *call, int gate)
{
	int fds[COMMAND_FDS] = {-1, -1, -1, gate};
	int r = make_pipes(call, fds);

	if (r < 0) {
		close_fd(&gate);
		return r;
	}
	if (call->paused)
		command_io_pause(call->io);
	if (call->request.options.idle_timeout_ms > 0)
		call_watch_silence(call);
	workspace_begin_use(call->workspace, &call->network, call->entry.call);
	if (tells_cgroup(&call->request, &call->network))
		call->uses |= 1U << CALL_USES_CGROUP;
	return send_command(call, fds);
}

/* Sends a file call to its files process. Returns 0 or -errno. */
static int begin_files(struct call *call)
{
	const struct call_request *request = &call->request;
	int r = call_result_begin(&call->result, request);

	if (r == 0)
		r = send_files(call->workspace, call->entry.call, request);
	if (r < 0)
		return r;
	if (call->stream)
		call_stream_begin(call);
	if (call->watch)
		call_watch_begin(call);
	call->sent = request->large < request->memory ? request->large : request->memory;
	if (call->sent > 0)
		service_account_sent(call->service, request->tenant->usage, (int64_t)call->sent);
	return 0;
}

void call_run(struct call *call, int gate)
{
	int r = call_is_command(call) ? begin_command(call, gate) : begin_files(call);

	call->state = CALL_RUNNING;
	/* It waits for its record as long as for its turn. */
	if (call->is_gated)
		call_set_deadline(call, call_wait_ms(&call->request));
	else
		call_set_times(call);
	call_request_drop_sent(&call->request);
	if (r < 0) {
		command_io_free(TAKE_PTR(call->io));
		call_leave(call);
		call_answer_error(call, TOOL_BUSY, strerror(-r));
	}
}

int call_add_input(struct call *call, struct text text, bool eof, char **label)
{
	if (call->stream)
		return call_stream_add(call, text, eof, label);
	if (!call->input || !call->request.options.stdin_stream)
		return -EINVAL;
	return command_input_add(call->input, text, eof, label);
}

size_t call_pending_input(const struct call *call)
{
	if (call->stream)
		return call_stream_pending(call);
	return call->input ? command_input_pending(call->input) : 0;
}
