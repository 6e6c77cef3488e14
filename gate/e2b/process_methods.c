// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate, which trusts no client: process.Process. */

#include "common/base64.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "gate/e2b/data.h"
#include "gate/e2b/process.h"
#include "gate/e2b/sandbox.h"
#include "gate/gate.h"
#include "gate/request.h"

#include <event2/event.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#define INPUT_PART     (512 * KIB)
#define INPUT_RETRY_US 20000 /* after the command did not read */

struct input {
	struct text data; /* its bytes are the input's */
	size_t done;
	struct event *retry;
	char session[33];
};

static void input_free(void *state)
{
	struct input *input = state;

	if (input->retry)
		event_free(input->retry);
	free((char *)input->data.data);
	free(input);
}

/* Start */

static void started(struct op *op, const struct cloister_message *reply)
{
	const char *session = cloister_get_string(reply, "/session", NULL);

	if (session == NULL || process_pid(text_from(session)) == 0) {
		op_fail(op, 500, "internal", "cloisterd's answer has no session");
		return;
	}
	process_events(op, session, json_member_of(op->body, "pty") != NULL, 0);
}

static void start_now(struct op *op)
{
	const char *why;
	struct json_object *params = process_start_params(
		op->body, sandbox_is_rootfs(op->sandbox), data_deadline(op), &why);

	op->on_refusal = NULL;
	if (params)
		op_ask(op, "session.start", params, started);
	else
		op_fail(op, 400, "invalid_argument", "%s", why);
}

static void cwd_found(struct op *op, __attribute__((unused)) const struct cloister_message *reply)
{
	start_now(op);
}

/* A directory that the file methods cannot see, such as /tmp, the shell may. */
static bool cwd_refused(struct op *op, const struct cloister_message *reply)
{
	struct text cwd = json_text_of(json_member_of(op->body, "process"), "cwd");

	if (cloister_error(reply) == CLOISTER_ERROR_NOT_FOUND)
		op_fail(op, 400, "invalid_argument", "cwd '%.*s' does not exist", (int)cwd.len,
			cwd.data);
	else
		start_now(op);
	return true;
}

void process_start(struct op *op)
{
	struct json_object *process = json_member_of(op->body, "process"), *params;
	char buffer[64], path[4097];

	if (!data_user_fits(op, data_user(op, buffer)))
		return;
	if (json_text_of(process, "cwd").len == 0) {
		start_now(op);
		return;
	}
	if (!data_path(op, json_text_of(process, "cwd"), path))
		return;
	json_put_text(process, "cwd", text_from(path));
	params = json_object_new_object();
	json_put_text(params, "path", text_from(path));
	op->on_refusal = cwd_refused;
	op_ask(op, "file.stat", params, cwd_found);
}

/* List */

static bool is_running(struct op *op, struct json_object *row)
{
	return text_equal(json_text_of(row, "workspace"), sandbox_workspace(op->sandbox)) &&
	       !text_equal(json_text_of(row, "state"), TEXT_LITERAL("ended"));
}

static void listed(struct op *op, const struct cloister_message *reply)
{
	struct json_object *rows = op_read(op, reply, "/sessions"), *answer, *processes;

	if (rows == NULL)
		return;
	answer = json_object_new_object();
	processes = json_object_new_array();
	for (size_t i = 0; i < json_object_array_length(rows); i++) {
		struct json_object *row = json_object_array_get_idx(rows, i);

		if (is_running(op, row))
			json_object_array_add(processes, process_show(row));
	}
	json_object_put(rows);
	json_object_object_add(answer, "processes", processes);
	op_answer(op, 200, answer);
}

void process_list(struct op *op)
{
	op_ask(op, "session.list", NULL, listed);
}

/* The methods that select one process by pid or tag. */

static void answer_no_process(struct op *op)
{
	op_fail(op, 404, "not_found", "There is no such process");
}

static void selected(struct op *op, const struct cloister_message *reply)
{
	struct json_object *process = json_member_of(op->body, "process");
	int64_t pid = json_number_of(process, "pid", -1);
	struct text tag = json_text_of(process, "tag");
	struct json_object *rows = op_read(op, reply, "/sessions"), *row = NULL;

	if (rows == NULL)
		return;
	for (size_t i = 0; row == NULL && i < json_object_array_length(rows); i++) {
		struct json_object *one = json_object_array_get_idx(rows, i);

		if (is_running(op, one) &&
			(pid >= 0 ? process_pid(json_text_of(one, "session")) == pid
				  : tag.len > 0 && text_equal(json_text_of(one, "name"), tag)))
			row = one;
	}
	op->row = row;
	if (row)
		op_act(op);
	else
		answer_no_process(op);
	json_object_put(rows);
}

static bool session_refused(struct op *op, const struct cloister_message *reply)
{
	if (cloister_error(reply) != CLOISTER_ERROR_SESSION_NOT_FOUND)
		return false;
	answer_no_process(op);
	return true;
}

static void answer_empty(
	struct op *op, __attribute__((unused)) const struct cloister_message *reply)
{
	op_answer(op, 200, json_object_new_object());
}

void process_find(struct op *op)
{
	op->on_refusal = session_refused;
	op_ask(op, "session.list", NULL, selected);
}

static struct json_object *params_of(struct json_object *row)
{
	struct json_object *params = json_object_new_object();

	json_put_text(params, "session", json_text_of(row, "session"));
	return params;
}

/* Connect: what the process writes from now on */

void process_connect(struct op *op)
{
	process_events(op, json_text_of(op->row, "session").data,
		json_member_of(op->row, "pty") != NULL, json_number_of(op->row, "next", 0));
}

/* Update: the size of a terminal */

void process_update(struct op *op)
{
	struct json_object *size = json_member_of(json_member_of(op->body, "pty"), "size");
	struct json_object *params;

	if (size == NULL) {
		op_answer(op, 200, json_object_new_object());
		return;
	}
	params = params_of(op->row);
	json_object_object_add(
		params, "rows", json_object_new_int64(json_number_of(size, "rows", 24)));
	json_object_object_add(
		params, "cols", json_object_new_int64(json_number_of(size, "cols", 80)));
	op_ask(op, "session.resize", params, answer_empty);
}

/* SendSignal */

static void signal_sent(struct op *op, const struct cloister_message *reply)
{
	bool sent = true;

	(void)cloister_get_bool(reply, "/sent", &sent);
	if (sent)
		op_answer(op, 200, json_object_new_object());
	else
		answer_no_process(op);
}

/* Connect's JSON names a value of an enum, or has its number. */
static int64_t signal_of(struct json_object *body)
{
	struct text name = json_text_of(body, "signal");

	if (text_equal(name, TEXT_LITERAL("SIGNAL_SIGKILL")))
		return 9;
	if (text_equal(name, TEXT_LITERAL("SIGNAL_SIGTERM")))
		return 15;
	return json_number_of(body, "signal", 0);
}

/* The answer is how the process ended, which is no failure here. */
static bool end_told(struct op *op, const struct cloister_message *reply)
{
	if (cloister_json_error(reply) != 0)
		return session_refused(op, reply);
	op_answer(op, 200, json_object_new_object());
	return true;
}

void process_send_signal(struct op *op)
{
	struct json_object *params = params_of(op->row);
	int64_t number = signal_of(op->body);

	if (number == 9) {
		json_object_object_add(params, "grace_ms", json_object_new_int(0));
		op->on_refusal = end_told;
		op_ask(op, "session.end", params, answer_empty);
	} else if (number == 15) {
		json_put_text(params, "signal", TEXT_LITERAL("TERM"));
		op_ask(op, "session.signal", params, signal_sent);
	} else {
		json_object_put(params);
		op_fail(op, 400, "invalid_argument", "signal must be SIGKILL or SIGTERM");
	}
}

/* SendInput: the answer comes when cloisterd has taken all of it */

static void write_rest(struct op *op);

static void on_retry(__attribute__((unused)) evutil_socket_t fd,
	__attribute__((unused)) short events, void *context)
{
	struct op *op = context;

	if (op->request)
		write_rest(op);
	op_leave(op);
}

static void write_later(struct op *op)
{
	struct timeval when = {0, INPUT_RETRY_US};
	struct input *input = op->state;

	if (input->retry == NULL)
		input->retry = evtimer_new(gate_request_gate(op->request)->base, on_retry, op);
	if (input->retry == NULL || evtimer_add(input->retry, &when) < 0) {
		op_no_memory(op);
		return;
	}
	op_stay(op);
}

static void written(struct op *op, const struct cloister_message *reply)
{
	struct input *input = op->state;
	int64_t taken = 0;
	bool closed = false;

	(void)cloister_get_int64(reply, "/taken", &taken);
	(void)cloister_get_bool(reply, "/closed", &closed);
	if (taken > 0 && (size_t)taken <= input->data.len - input->done)
		input->done += (size_t)taken;
	if (closed || input->done == input->data.len)
		op_answer(op, 200, json_object_new_object());
	else
		write_later(op);
}

static bool write_refused(struct op *op, const struct cloister_message *reply)
{
	if (cloister_error(reply) != CLOISTER_ERROR_BUSY)
		return session_refused(op, reply);
	write_later(op);
	return true;
}

static void write_rest(struct op *op)
{
	struct input *input = op->state;
	struct text rest = {
		(const char *)input->data.data + input->done, input->data.len - input->done};
	struct json_object *params;
	char *encoded;
	size_t len;

	if (rest.len > INPUT_PART)
		rest.len = INPUT_PART;
	encoded = malloc(base64_encoded_size(rest.len) + 1);
	if (encoded == NULL) {
		op_no_memory(op);
		return;
	}
	len = base64_encode(rest, encoded);
	params = json_object_new_object();
	json_put_text(params, "session", text_from(input->session));
	json_put_text(params, "data", (struct text){encoded, len});
	json_put_text(params, "encoding", TEXT_LITERAL("base64"));
	free(encoded);
	op->on_refusal = write_refused;
	op_ask(op, "session.write", params, written);
}

void process_send_input(struct op *op)
{
	struct json_object *given = json_member_of(op->body, "input");
	struct text encoded = json_text_of(given, "stdin");
	struct input *input = calloc(1, sizeof(*input));
	char *data;

	if (encoded.data == NULL)
		encoded = json_text_of(given, "pty");
	data = malloc(base64_decoded_size(encoded.len) + 1);
	if (input == NULL || data == NULL) {
		free(input);
		free(data);
		op_no_memory(op);
		return;
	}
	op->state = input;
	op->free_state = input_free;
	input->data.data = data;
	snprintf(input->session, sizeof(input->session), "%s",
		json_text_of(op->row, "session").data);
	if (base64_decode(encoded, data, &input->data.len) < 0) {
		op_fail(op, 400, "invalid_argument", "The input is not base64");
		return;
	}
	op_drop_body(op, input->data.len);
	if (input->data.len == 0)
		op_answer(op, 200, json_object_new_object());
	else
		write_rest(op);
}

/* CloseStdin */

void process_close_stdin(struct op *op)
{
	struct json_object *params = params_of(op->row);

	json_put_text(params, "data", (struct text){0});
	json_object_object_add(params, "eof", json_object_new_boolean(true));
	op_ask(op, "session.write", params, answer_empty);
}
