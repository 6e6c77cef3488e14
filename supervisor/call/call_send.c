// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The receivers are worker/files/files_serve.c and
 * worker/commands/command_table.c.
 */
#include "supervisor/call/call_send.h"

#include "common/byte_queue.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire_commands.h"
#include "common/wire_files.h"
#include "supervisor/call/call_network.h"
#include "supervisor/config/tenant.h"
#include "supervisor/workspace/limits.h"
#include "supervisor/workspace/network_use.h"
#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspace_disk.h"

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
		.max_entries = LIMIT_LIST_ENTRIES,
	};

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
		.max_results = (uint32_t)request->args.max_results,
	};

	files_search_put(writer, &message);
	return FILES_SEARCH;
}

static uint8_t put_diff(struct wire_writer *writer, const struct call_request *request)
{
	struct files_diff message = {
		/* the layer that the checkpoint froze: supervisor/workspace/layers.h */
		.since = (uint32_t)request->args.since - 1,
		.patch = request->args.as_patch,
		.max_changes = LIMIT_DIFF_CHANGES,
	};

	files_diff_put(writer, &message);
	return FILES_DIFF;
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

int call_send_files(struct workspace *workspace, uint64_t call, const struct call_request *request)
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

/*
 * Writes NAME=VALUE and a NUL for each variable of the tenant's environment, then of options.env;
 * of two with the same name the last counts.
 */
static int put_env(
	struct byte_queue *body, const struct string_list *configured, struct json_object *env)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < configured->count; i++)
		r = byte_queue_append(
			body, configured->strings[i], strlen(configured->strings[i]) + 1);
	if (!env)
		return r;
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

static uint8_t disk_of(const struct workspace *workspace)
{
	const struct disk_state disk = workspace_disk(workspace);

	if (disk_state_is_over(&disk))
		return disk.over_files ? COMMAND_DISK_OVER_FILES : COMMAND_DISK_OVER;
	return disk.keeper == DISK_KEEPER_QUOTA ? COMMAND_DISK_QUOTA : COMMAND_DISK_FREE;
}

int call_send_command(struct workspace *workspace, uint64_t call,
	const struct call_request *request, const struct network_use *use,
	const int fds[COMMAND_FDS])
{
	_cleanup_(free_queue) struct byte_queue queue = {0};
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	struct text command = request->args.command, body;
	int sent[COMMAND_FDS];
	unsigned n_fds = 0;
	struct command_run message = {
		.command_len = (uint32_t)command.len,
		.has_stdin = fds[COMMAND_FD_STDIN] >= 0,
		.has_gate = fds[COMMAND_FD_GATE] >= 0,
		.limits = limits_of_command(&request->tenant->limits),
		.no_network = use->address == 0,
		.tells_cgroup = use->address != 0 || request->session.id != NULL ||
				request->options.yield_ms > 0,
		.input_wait_ms = request->options.stdin_stream || request->options.input_later
					 ? 0
					 : (uint32_t)request->tenant->limits.input_wait_ms,
		.shell = (uint8_t)request->tenant->shell,
		.terminal = request->session.terminal,
		.disk = disk_of(workspace),
	};
	int r = byte_queue_append(&queue, command.data, command.len);

	for (unsigned i = 0; i < COMMAND_FDS; i++)
		if (fds[i] >= 0)
			sent[n_fds++] = fds[i];
	if (r == 0)
		r = call_network_put_env(&queue, use, request->tenant);
	if (r == 0)
		r = put_env(&queue, &request->tenant->environment, request->options.env);
	body = byte_queue_peek(&queue);
	if (r == 0 && body.len - command.len > LIMIT_COMMAND_ENV_BYTES)
		r = -EMSGSIZE;
	if (r < 0) {
		for (unsigned i = 0; i < n_fds; i++)
			close(sent[i]);
		return r;
	}
	message.env_len = (uint32_t)(body.len - command.len);
	command_run_put(&writer, &message);
	workspace_send_worker(workspace, COMMAND_RUN, call,
		(struct text){(char *)payload, writer.len}, sent, n_fds);
	while (body.len > 0)
		workspace_send_worker(workspace, COMMAND_BODY, call, take_part(&body), NULL, 0);
	return 0;
}
