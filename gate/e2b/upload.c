// SPDX-License-Identifier: Apache-2.0
/*
 * In cloister-gate, which trusts no client: POST /files. Bytes go from the body to cloisterd as
 * they come. What cloisterd has not taken is at most TRANSFER_WINDOW; then the client waits.
 */

#include "common/cleanup.h"
#include "common/limits.h"
#include "gate/agent_link.h"
#include "gate/e2b/data.h"
#include "gate/e2b/entry.h"
#include "gate/e2b/outside.h"
#include "gate/e2b/sandbox.h"
#include "gate/e2b/transfer.h"
#include "gate/head.h"
#include "gate/multipart.h"
#include "gate/request.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <zlib.h>

#define FILES_MAX   1000
#define METADATA    "X-Metadata-"
#define PIECE_BYTES (16 * KIB)

struct upload {
	struct op *op;
	struct multipart *form; /* NULL: the body is the file */
	bool is_gzip, inflated; /* inflated: to its end */
	z_stream inflating;
	struct json_object *metadata, *attributes; /* held; NULL: none */
	struct json_object *answer;                /* held: an array of what was written */
	int64_t file;     /* the request of the open one; 0: none is open */
	size_t in_flight; /* bytes that cloisterd has not taken */
	unsigned files, unanswered;
	bool ready;     /* the link is open */
	bool is_form;   /* whose parts are files */
	bool body_over; /* and all of it was read */
	bool failed;
	bool outside; /* the open file is written by a command */
	const char *query_path;
};

static void upload_free(void *state)
{
	struct upload *upload = state;

	multipart_free(upload->form);
	if (upload->is_gzip)
		inflateEnd(&upload->inflating);
	json_object_put(upload->metadata);
	json_object_put(upload->attributes);
	json_object_put(upload->answer);
	free(upload);
}

static void fail_upload(struct upload *upload, unsigned status, const char *message)
{
	if (!upload->failed)
		op_fail(upload->op, status, "internal", "%s", message);
	upload->failed = true;
}

static void answer_if_done(struct upload *upload)
{
	if (upload->body_over && upload->unanswered == 0 && !upload->failed) {
		upload->failed = true; /* nothing more is answered */
		op_answer(upload->op, 200, json_object_get(upload->answer));
	}
}

/* The answer to one file.write. */
static void on_written(__attribute__((unused)) struct cloister *cloister,
	__attribute__((unused)) int64_t id, int error, const struct cloister_message *reply,
	void *userdata)
{
	struct op *op = userdata;
	struct upload *upload = op->state;

	upload->unanswered--;
	if (op->request && error < 0) {
		fail_upload(upload, 502, "The connection to cloisterd was lost");
	} else if (op->request && !cloister_succeeded(reply)) {
		if (!upload->failed)
			op_refuse(op, reply);
		upload->failed = true;
	} else if (op->request && !upload->failed) {
		int64_t status = 0;

		/* Only a command has one. */
		(void)cloister_get_int64(reply, "/output/exit_code", &status);
		if (status != 0 && !outside_worked(op, reply))
			upload->failed = true;
		answer_if_done(upload);
	}
	op_leave(op);
}

struct piece {
	struct op *op;
	size_t len;
};

/* cloisterd has taken a piece, or the call is over, whose answer says why. */
static void on_taken(__attribute__((unused)) struct cloister *cloister,
	__attribute__((unused)) int64_t id, __attribute__((unused)) int error,
	__attribute__((unused)) const struct cloister_message *reply, void *userdata)
{
	struct piece *piece = userdata;
	struct op *op = piece->op;
	struct upload *upload = op->state;

	upload->in_flight -= piece->len;
	free(piece);
	if (op->request)
		gate_request_more(op->request);
	op_leave(op);
}

static void send_piece(struct upload *upload, struct text data, bool eof)
{
	struct piece *piece = malloc(sizeof(*piece));
	struct op *op = upload->op;
	int r = -ENOMEM;

	if (piece) {
		*piece = (struct piece){op, data.len};
		op_stay(op);
		upload->in_flight += data.len;
		r = cloister_start_input(agent_link_client(op->link), upload->file, data.data,
			data.len, eof, on_taken, piece, NULL);
		agent_link_changed(op->link);
	}
	if (r < 0) {
		upload->in_flight -= piece ? data.len : 0;
		free(piece);
		if (piece)
			op_leave(op);
		fail_upload(upload, 503, "cloisterd cannot be asked");
	}
	if (eof)
		upload->file = 0;
}

static void put_command(struct json_object *params, const char *path)
{
	struct json_object *arguments = json_object_new_object(), *options = outside_options();

	json_object_object_add(arguments, "command", outside_write(path));
	json_object_object_add(options, "stdin_stream", json_object_new_boolean(true));
	json_object_object_add(options, "timeout_ms", json_object_new_int64(TRANSFER_MS));
	json_put_text(params, "tool", TEXT_LITERAL("run_command"));
	json_object_object_add(params, "arguments", arguments);
	json_object_object_add(params, "options", options);
}

static void put_file(const struct upload *upload, struct json_object *params, const char *path)
{
	json_put_text(params, "path", text_from(path));
	json_object_object_add(params, "timeout_ms", json_object_new_int64(TRANSFER_MS));
	/* An upload without metadata takes away what the file had. */
	json_object_object_add(params, "attributes",
		upload->attributes ? json_object_get(upload->attributes)
				   : json_object_new_object());
}

static void begin_upload_file(struct upload *upload, const char *name)
{
	struct op *op = upload->op;
	struct json_object *params;
	char path[4097];
	int r;

	if (++upload->files > FILES_MAX) {
		fail_upload(upload, 400, "The body has too many files");
		return;
	}
	if (!data_path(op, text_from(name), path)) {
		upload->failed = true;
		return;
	}
	upload->outside = outside_is(op, path);
	params = json_object_new_object();
	if (upload->outside)
		put_command(params, path);
	else
		put_file(upload, params, path);
	op_stay(op);
	upload->unanswered++;
	r = agent_link_request(op->link, upload->outside ? "tool.call" : "file.write",
		json_object_to_json_string_ext(params, JSON_C_TO_STRING_PLAIN), on_written, op,
		&upload->file);
	json_object_put(params);
	if (r < 0) {
		upload->unanswered--;
		op_leave(op);
		fail_upload(upload, 503, "cloisterd cannot be asked");
		return;
	}
	json_object_array_add(
		upload->answer, entry_show_written(text_from(path), upload->metadata));
}

static void end_file(struct upload *upload)
{
	if (upload->file > 0 && !upload->failed)
		send_piece(upload, (struct text){0}, true);
}

static void on_part(void *context, const char *name, const char *filename)
{
	struct upload *upload = context;

	if (upload->failed)
		return;
	if (!upload->query_path && !filename && !name)
		fail_upload(upload, 400, "A part of the body has no name");
	else
		begin_upload_file(upload, upload->query_path ? upload->query_path
					  : filename         ? filename
							     : name);
}

static void on_part_data(void *context, struct text data)
{
	struct upload *upload = context;

	if (upload->file > 0 && !upload->failed)
		send_piece(upload, data, false);
}

static void on_part_end(void *context)
{
	end_file(context);
}

static const struct multipart_events part_events = {on_part, on_part_data, on_part_end};

/* Gives the plain bytes of the body to the form or the file. */
static void take_plain(struct upload *upload, struct text data)
{
	if (upload->failed || data.len == 0)
		return;
	if (!upload->form)
		send_piece(upload, data, false);
	else if (multipart_take(upload->form, data) < 0)
		fail_upload(upload, 400, "The body is no multipart/form-data");
}

/* A small body may inflate to a large one, so it goes on only while there is room. */
static size_t take_gzip(struct upload *upload, struct text data)
{
	char plain[PIECE_BYTES];
	z_stream *z = &upload->inflating;

	z->next_in = (Bytef *)data.data;
	z->avail_in = (uInt)data.len;
	while (!upload->failed && !upload->inflated && upload->in_flight < TRANSFER_WINDOW) {
		int r;

		z->next_out = (Bytef *)plain;
		z->avail_out = sizeof(plain);
		r = inflate(z, Z_NO_FLUSH);
		take_plain(upload, (struct text){plain, sizeof(plain) - z->avail_out});
		if (r == Z_STREAM_END)
			upload->inflated = true;
		else if (r == Z_BUF_ERROR || (r == Z_OK && z->avail_in == 0 && z->avail_out > 0))
			break;
		else if (r != Z_OK)
			fail_upload(upload, 400, "The body is no gzip data");
	}
	if (upload->inflated && z->avail_in > 0)
		fail_upload(upload, 400, "The body goes on behind its gzip data");
	return upload->failed ? data.len : data.len - z->avail_in;
}

static size_t on_data(struct gate_request *request, struct text data)
{
	struct upload *upload = op_of(request)->state;

	if (upload == NULL || !upload->ready || upload->in_flight >= TRANSFER_WINDOW)
		return 0;
	if (upload->failed)
		return data.len;
	if (data.len > PIECE_BYTES)
		data.len = PIECE_BYTES;
	if (upload->is_gzip)
		return take_gzip(upload, data);
	take_plain(upload, data);
	return data.len;
}

static void finish_upload(struct upload *upload)
{
	if (upload->failed)
		return;
	if (upload->is_gzip && !upload->inflated) {
		fail_upload(upload, 400, "The gzip data is not complete");
		return;
	}
	/* The file of a part that is not whole is never ended, and so not written. */
	if (!upload->form) {
		end_file(upload);
	} else if (!multipart_is_whole(upload->form) || upload->files == 0) {
		fail_upload(upload, 400, "The body is no whole multipart/form-data");
		return;
	}
	upload->body_over = true;
	answer_if_done(upload);
}

static void on_upload_request_end(struct gate_request *request)
{
	struct upload *upload = op_of(request)->state;

	if (upload && upload->ready)
		finish_upload(upload);
	else
		op_of(request)->body_over = true;
}

static const struct gate_reader reader = {.data = on_data, .end = on_upload_request_end};

static void add_metadata(struct upload *upload, const char *name, const char *value)
{
	char key[256], attribute[sizeof(ENTRY_METADATA) + sizeof(key)];
	size_t n = 0;

	if (strncasecmp(name, METADATA, strlen(METADATA)) != 0)
		return;
	for (name += strlen(METADATA); *name && n < sizeof(key) - 1; name++)
		key[n++] = (char)(*name >= 'A' && *name <= 'Z' ? *name + 32 : *name);
	key[n] = '\0';
	if (upload->metadata == NULL) {
		upload->metadata = json_object_new_object();
		upload->attributes = json_object_new_object();
	}
	if (json_member_of(upload->metadata, key))
		return; /* the first value counts */
	snprintf(attribute, sizeof(attribute), ENTRY_METADATA "%s", key);
	json_put_text(upload->metadata, key, text_from(value));
	json_put_text(upload->attributes, attribute, text_from(value));
}

static void link_open(struct op *op)
{
	struct upload *upload = op->state;

	upload->ready = true;
	if (!upload->is_form)
		begin_upload_file(upload, upload->query_path);
	if (op->request && op->body_over)
		finish_upload(upload);
	else if (op->request)
		gate_request_more(op->request);
}

static bool read_head(struct upload *upload)
{
	struct gate_request *request = upload->op->request;
	const struct gate_head *head = gate_request_head(request);
	const char *type = gate_request_header(request, "Content-Type");
	const char *encoding = gate_request_header(request, "Content-Encoding");

	upload->query_path = gate_request_query(request, "path");
	upload->is_form = multipart_is_type(type);
	for (size_t i = 0; i < head->n_fields; i++)
		add_metadata(upload, head->fields[i].name, head->fields[i].value);
	if (encoding && strcasecmp(encoding, "identity") != 0) {
		if (strcasecmp(encoding, "gzip") != 0) {
			fail_upload(upload, 415, "Content-Encoding must be gzip or identity");
			return false;
		}
		if (inflateInit2(&upload->inflating, 16 + MAX_WBITS) != Z_OK) {
			fail_upload(upload, 503, "The gate has no memory for this request");
			return false;
		}
		upload->is_gzip = true;
	}
	if (upload->is_form) {
		int r = multipart_new(type, &part_events, upload, &upload->form);

		if (r < 0) {
			fail_upload(upload, r == -EINVAL ? 400 : 503,
				r == -EINVAL ? "Content-Type has no boundary"
					     : "The gate has no memory for this request");
			return false;
		}
	} else if (upload->query_path == NULL || upload->query_path[0] == '\0') {
		fail_upload(upload, 400, "path is required");
		return false;
	}
	return true;
}

void file_upload(struct op *op)
{
	struct upload *upload;

	if (!transfer_admits(op, "write"))
		return;
	upload = op_state_new(op, sizeof(*upload), upload_free);
	if (upload == NULL)
		return;
	upload->op = op;
	upload->answer = json_object_new_array();
	if (read_head(upload))
		transfer_open(op, link_open);
}

void data_begin_upload(struct gate_request *request)
{
	gate_request_stream(request, &reader);
	data_begin_open(request);
}
