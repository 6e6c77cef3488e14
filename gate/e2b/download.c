// SPDX-License-Identifier: Apache-2.0
/*
 * In cloister-gate, which trusts no client: GET /files. A client that does not read makes the link
 * pause, and so cloisterd wait.
 */

#include "common/cleanup.h"
#include "gate/agent_link.h"
#include "gate/e2b/data.h"
#include "gate/e2b/outside.h"
#include "gate/e2b/sandbox.h"
#include "gate/e2b/transfer.h"
#include "gate/request.h"

#include <json-c/json.h>
#include <stdlib.h>

struct download {
	uint64_t left; /* of the length that the client was told */
	bool paused;
	char path[4097];
};

static void on_content(__attribute__((unused)) struct cloister *cloister,
	__attribute__((unused)) int64_t id, __attribute__((unused)) enum cloister_stream stream,
	const void *data, size_t len, void *userdata)
{
	struct op *op = userdata;
	struct download *download = op->state;

	if (op->request == NULL)
		return;
	if (len > download->left)
		len = download->left;
	download->left -= len;
	gate_answer_write(op->request, (struct text){data, len});
	if (gate_answer_full(op->request) && !download->paused) {
		download->paused = true;
		agent_link_pause(op->link, true);
	}
}

static void on_room(struct gate_request *request)
{
	struct op *op = op_of(request);
	struct download *download = op->state;

	if (download->paused) {
		download->paused = false;
		agent_link_pause(op->link, false);
	}
}

/* A file that became shorter meanwhile ends so that the client can tell. */
static void on_read(__attribute__((unused)) struct cloister *cloister,
	__attribute__((unused)) int64_t id, int error, const struct cloister_message *reply,
	void *userdata)
{
	struct op *op = userdata;
	struct download *download = op->state;

	if (op->request && error == 0 && cloister_succeeded(reply) && download->left == 0)
		gate_answer_end(op->request);
	else if (op->request)
		gate_answer_abort(op->request);
	op_leave(op);
}

static void read_outside(struct op *op)
{
	struct download *download = op->state;
	struct json_object *options = outside_options(), *arguments = json_object_new_object();
	struct cloister_tool_call call = {.tool = "run_command",
		.timeout_ms = TRANSFER_MS,
		.on_output = on_content,
		.on_reply = on_read,
		.userdata = op};
	int r;

	json_object_object_add(arguments, "command", outside_read(download->path));
	json_object_object_add(options, "stream_bytes", json_object_new_boolean(true));
	json_object_object_add(options, "keep_output", json_object_new_boolean(false));
	call.arguments = json_object_to_json_string_ext(arguments, JSON_C_TO_STRING_PLAIN);
	call.options = json_object_to_json_string_ext(options, JSON_C_TO_STRING_PLAIN);
	op_stay(op);
	r = cloister_start_call(agent_link_client(op->link), &call, NULL);
	agent_link_changed(op->link);
	json_object_put(arguments);
	json_object_put(options);
	if (r < 0) {
		gate_answer_abort(op->request);
		op_leave(op);
	}
}

static void read_downloaded_file(struct op *op, int64_t size)
{
	struct download *download = op->state;
	struct json_object *params;
	int r;

	download->left = (uint64_t)size;
	gate_answer_header(op->request, "Content-Type", "application/octet-stream");
	gate_answer_begin(op->request, 200, (uint64_t)size);
	op->begun = true;
	if (size == 0) {
		gate_answer_end(op->request);
		return;
	}
	gate_answer_on_room(op->request, on_room);
	if (outside_is(op, download->path)) {
		read_outside(op);
		return;
	}
	params = json_object_new_object();
	json_put_text(params, "path", text_from(download->path));
	json_object_object_add(params, "length", json_object_new_int64(size));
	json_object_object_add(params, "attributes", json_object_new_boolean(false));
	json_object_object_add(params, "timeout_ms", json_object_new_int64(TRANSFER_MS));
	op_stay(op);
	r = cloister_start_read(agent_link_client(op->link),
		json_object_to_json_string_ext(params, JSON_C_TO_STRING_PLAIN), on_content, on_read,
		op, NULL);
	agent_link_changed(op->link);
	json_object_put(params);
	if (r < 0) {
		gate_answer_abort(op->request);
		op_leave(op);
	}
}

static void found(struct op *op, const struct cloister_message *reply)
{
	const char *type = cloister_get_string(reply, "/entry/type", NULL);
	const char *path = cloister_get_string(reply, "/entry/path", NULL);
	int64_t size = 0;

	(void)cloister_get_int64(reply, "/entry/size", &size);
	if (type && strcmp(type, "file") == 0 && size >= 0)
		read_downloaded_file(op, size);
	else
		op_fail(op, 400, "invalid_argument", "path '%s' is %s", path ? path : "",
			type && strcmp(type, "directory") == 0 ? "a directory" : "not a file");
}

static void found_outside(struct op *op, const struct cloister_message *reply)
{
	struct download *download = op->state;
	struct json_object *entries = outside_entries(reply);
	struct json_object *entry = json_object_array_get_idx(entries, 0);
	struct text type = json_text_of(entry, "type");

	if (text_equal(type, TEXT_LITERAL("file")))
		read_downloaded_file(op, json_number_of(entry, "size", 0));
	else
		op_fail(op, 400, "invalid_argument", "path '%s' is not a file", download->path);
	json_object_put(entries);
}

static void look_at_download(struct op *op)
{
	struct download *download = op->state;
	struct json_object *params;

	if (outside_is(op, download->path)) {
		outside_run(op, outside_list(download->path, 0), found_outside);
		return;
	}
	params = json_object_new_object();
	json_put_text(params, "path", text_from(download->path));
	json_object_object_add(params, "attributes", json_object_new_boolean(false));
	op->on_refusal = outside_is_missing;
	op_ask(op, "file.stat", params, found);
}

void file_download(struct op *op)
{
	struct download *download;

	if (!transfer_admits(op, "read"))
		return;
	download = op_state_new(op, sizeof(*download), free);
	if (download &&
		data_path(op, text_from(gate_request_query(op->request, "path")), download->path))
		transfer_open(op, look_at_download);
}
