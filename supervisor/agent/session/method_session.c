// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: session.start, write, end and list. The client is authenticated and
 * hostile; a session's id is no right by itself, and each request is authorized anew.
 */
#include "supervisor/agent/agent_methods.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "supervisor/agent/agent_moved.h"
#include "supervisor/agent/agent_refused.h"
#include "supervisor/agent/agent_workspace.h"
#include "supervisor/agent/session/method_session_tell.h"
#include "supervisor/agent/session/session_params.h"
#include "supervisor/agent/tool/method_input.h"
#include "supervisor/agent/workspace_pending.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/request/call_digest.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/config/config.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/session/session_use.h"
#include "supervisor/session/session_wait.h"
#include "supervisor/workspace/workspace.h"

#include <assert.h>
#include <errno.h>
#include <json-c/json_object.h>

static void put_json(struct json_object **json)
{
	json_object_put(*json);
}

/* session.start */

struct start {
	struct session_wish wish;
	struct json_object *call; /* the params of a tool.call that runs the command */
	bool input;
};

/* Returns the params of a tool.call of run_command, which has the same checks, or NULL. */
static struct json_object *make_call(struct json_object *params)
{
	struct json_object *call = json_object_new_object(), *arguments = json_object_new_object(),
			   *options = json_object_new_object(), *value;

	if (!call || !arguments || !options) {
		json_object_put(call);
		json_object_put(arguments);
		json_object_put(options);
		return NULL;
	}
	if (json_object_object_get_ex(params, "command", &value))
		json_object_object_add(arguments, "command", json_object_get(value));
	if (json_object_object_get_ex(params, "env", &value))
		json_object_object_add(options, "env", json_object_get(value));
	if (json_object_object_get_ex(params, "cwd", &value))
		json_object_object_add(options, "cwd", json_object_get(value));
	if (json_object_object_get_ex(params, "blocked_list", &value))
		json_object_object_add(options, "blocked_list", json_object_get(value));
	if (json_object_object_get_ex(params, "key", &value))
		json_object_object_add(options, "key", json_object_get(value));
	json_object_object_add(call, "tool", json_object_new_string("run_command"));
	json_object_object_add(call, "arguments", arguments);
	json_object_object_add(call, "options", options);
	return call;
}

/* Reads what is not checked with the command. Returns NULL, or a message about the mistake. */
static const char *read_start(struct json_object *params, struct start *ret)
{
	int64_t output = LIMIT_SESSION_DEFAULT_BYTES;
	struct json_object *input = NULL;

	if (!client_string_param(params, "name", &ret->wish.name) ||
		(ret->wish.name.data &&
			(ret->wish.name.len == 0 || ret->wish.name.len > LIMIT_SESSION_NAME_BYTES ||
				text_has_nul(ret->wish.name))))
		return "name must be a string of 1 to 64 bytes";
	json_object_object_get_ex(params, "stdin", &input);
	if (input && !json_object_is_type(input, json_type_boolean))
		return "stdin must be true or false";
	ret->input = json_object_get_boolean(input);
	if (!terminal_param(params, &ret->wish.terminal))
		return "pty must be {\"rows\":R,\"cols\":C}, with numbers from 1 to 4096";
	if (ret->wish.terminal.rows > 0 && input && !ret->input)
		return "a session with pty has its input from there: leave stdin away";
	ret->input |= ret->wish.terminal.rows > 0;
	if (!number_param(params, "lifetime_ms", 1, LIMIT_SESSION_TIME_MS, &ret->wish.lifetime_ms))
		return "lifetime_ms must be a number of milliseconds, at most 7 days";
	if (!number_param(params, "output_bytes", KIB, LIMIT_SESSION_OUTPUT_BYTES, &output))
		return "output_bytes must be a number from 1024 to 16777216";
	ret->wish.output_bytes = (size_t)output;
	return NULL;
}

static void put_terminal(struct json_text *json, const struct command_terminal *terminal)
{
	json_text_key(json, "pty");
	if (terminal->rows == 0) {
		json_text_null(json);
		return;
	}
	json_text_object_begin(json);
	json_text_put_number(json, "rows", terminal->rows);
	json_text_put_number(json, "cols", terminal->cols);
	json_text_object_end(json);
}

static void answer_started(struct client *client, const struct jsonrpc_request *request,
	const struct session *session, bool before)
{
	struct session_info info;
	struct json_text json;

	session_get_info(session, &info);
	client_answer_begin(client, &json, request->id_text);
	json_text_put(&json, "session", info.id);
	json_text_key(&json, "name");
	if (info.name.data)
		json_text_string(&json, info.name);
	else
		json_text_null(&json);
	json_text_put(&json, "workspace", info.workspace);
	put_terminal(&json, &info.terminal);
	json_text_put_number(&json, "lifetime_ms", info.lifetime_ms);
	json_text_put_uint64(&json, "output_bytes", session_output(session)->cap);
	if (before)
		json_text_put_bool(&json, "replayed", true);
	client_answer_end(client, &json);
}

/* Records and answers the refusal of a session in @workspace. */
static void refuse_start(struct client *client, const struct jsonrpc_request *request,
	const struct workspace *workspace, const struct refusal *why)
{
	bool params = why->error == TOOL_OK || why->error == TOOL_INVALID_ARGUMENTS;
	const char *message = why->error == TOOL_OK && !why->message ? "The parameters are wrong"
			      : why->error == TOOL_OK                ? why->message
								     : refusal_text(why);

	agent_call_refused(client, workspace, "session.start",
		params ? "INVALID_PARAMS" : tool_error_name(why->error), message);
	if (why->error == TOOL_OK)
		client_answer_error(
			client, request->id_text, JSONRPC_INVALID_PARAMS, message, NULL);
	else
		answer_refusal(client, request->id_text, why);
}

/* Whether a session, which is fine in itself, is refused now. */
static enum tool_error refused_now(const struct client *client, struct workspace *workspace,
	const struct start *start, struct refusal *ret)
{
	struct service *service = client->service;
	enum tool_error error = agent_refusal(client, workspace, ret);

	if (error == TOOL_OK)
		error = agent_refuses_end(client, workspace_tenant(workspace), ret);
	if (error == TOOL_OK)
		error = session_refuses(service, workspace, workspace_tenant(workspace),
			start->wish.output_bytes, ret);
	return error;
}

/*
 * Looks the key of @call up, which serves only here: the journal has none of sessions, which end
 * with cloisterd. Returns whether the request has been answered, because the key is known.
 */
static bool is_repeated(struct client *client, const struct jsonrpc_request *request,
	const struct workspace *workspace, struct call_request *call, const struct start *start)
{
	struct session *session;

	if (!call->options.key.data)
		return false;
	if (call_digest_key(call, workspace_name(workspace), agent_workspace_made(workspace)) < 0) {
		client_answer_busy(client, request->id_text, "Out of memory");
		return true;
	}
	call->options.key = (struct text){NULL, 0};
	session = session_find_key(call->key.id);
	if (!session)
		return false;
	if (session_is_same(session, &call->key, start->input, start->wish.terminal.rows > 0))
		answer_started(client, request, session, true);
	else
		client_answer_error(client, request->id_text, JSONRPC_SERVER_ERROR,
			"Another session was started with this key, and is still known; give each "
			"start a key of its own",
			tool_error_name(TOOL_KEY_CONFLICT));
	return true;
}

static void start_in(struct client *client, struct jsonrpc_request *request,
	struct workspace *workspace, struct start *start)
{
	struct call_refusal refusal = {0};
	struct call_request call_request;
	struct session *session;
	bool has_key;
	int r;

	if (call_request_read(start->call, client->request_left, workspace_visible(workspace),
		    workspace_tenant(workspace),
		    client_tools_of(client, workspace_tenant(workspace)), READER_PROGRAM,
		    &call_request, &refusal) < 0) {
		refuse_start(client, request, workspace, &refusal.why);
		call_refusal_done(&refusal);
		return;
	}
	has_key = call_request.options.key.data;
	if (is_repeated(client, request, workspace, &call_request, start)) {
		call_request_done(&call_request);
		return;
	}
	if (refused_now(client, workspace, start, &refusal.why) != TOOL_OK) {
		call_request_done(&call_request);
		refuse_start(client, request, workspace, &refusal.why);
		call_refusal_done(&refusal);
		return;
	}
	call_request.options.stdin_stream = start->input;
	call_request.uid = client->peer.uid;
	call_request.gid = client->peer.gid;
	call_request.pid = client->peer.pid;
	call_request.memory += client->request_bytes;
	start->wish.key = has_key ? &call_request.key : NULL;
	r = session_start(client->service, workspace, &call_request, &start->wish, &session);
	start->wish.key = NULL;
	if (r < 0)
		client_answer_busy(client, request->id_text, "Out of memory");
	else
		answer_started(client, request, session, false);
}

void method_session_start(struct client *client, struct jsonrpc_request *request)
{
	struct start start = {0};
	_cleanup_(put_json) struct json_object *call = NULL;
	struct workspace *workspace;
	struct text name;
	const char *wrong;

	/* Without an answer nobody would know its id. */
	if (request->notification)
		return;
	wrong = read_start(request->params, &start);
	if (!client_string_param(request->params, "workspace", &name))
		wrong = "workspace must be a string";
	if (wrong) {
		answer_wrong(client, request, wrong);
		return;
	}
	workspace = agent_hold_or_answer(client, request, name);
	if (!workspace)
		return;
	start.call = call = make_call(request->params);
	if (call)
		start_in(client, request, workspace, &start);
	else
		client_answer_busy(client, request->id_text, "Out of memory");
	workspace_release(workspace);
}

/* session.write */

static void answer_written(struct client *client, const struct jsonrpc_request *request,
	const struct session *session, size_t taken)
{
	struct session_info info;
	struct json_text json;

	session_get_info(session, &info);
	client_answer_begin(client, &json, request->id_text);
	json_text_put_uint64(&json, "taken", taken);
	json_text_put_uint64(&json, "next", info.taken);
	json_text_put_bool(&json, "closed", info.input_over);
	client_answer_end(client, &json);
}

void method_session_write(struct client *client, struct jsonrpc_request *request)
{
	_cleanup_(input_data_done) struct input_data input = {0};
	struct session_info info;
	struct session *session;
	const char *wrong;
	int64_t at = -1;
	size_t taken = 0;
	int r;

	/* Without an answer the client could not know what was taken. */
	if (request->notification)
		return;
	wrong = input_data_read(request->params, &input);
	if (!number_param(request->params, "at", 0, INT64_MAX, &at))
		wrong = "at must be an offset: a number that is not negative";
	if (wrong) {
		answer_wrong(client, request, wrong);
		return;
	}
	session = session_param(client, request);
	if (!session)
		return;
	session_get_info(session, &info);
	if (input.eof && info.terminal.rows > 0) {
		answer_wrong(client, request,
			"A terminal has no end of input: send the character that the command takes "
			"for it, mostly Ctrl-D, \"\\u0004\"");
		return;
	}
	r = session_write(session, input.data, at, input.eof, &taken);
	session_get_info(session, &info);
	if (r == -ERANGE)
		answer_beyond(client, request,
			"at is beyond the input that was taken; send what is missing from next on",
			info.taken);
	else if (r == -EAGAIN)
		client_answer_busy(client, request->id_text,
			"As much input waits for the command to read it as may wait, and nothing "
			"of this was taken; send it again later");
	else if (r == -ENOMEM)
		client_answer_busy(client, request->id_text, "Out of memory");
	else
		answer_written(client, request, session, taken);
}

/* session.end */

/* A request that waits for the end. */
struct ending {
	struct client_pending pending;
	struct session_waiter waiter;
	const struct session *session;
};

static void answer_end(struct client *client, const char *id_text, const struct session *session)
{
	struct session_info info;
	struct json_text json;

	session_get_info(session, &info);
	client_value_begin(client, &json, id_text);
	json_text_raw(&json, info.end);
	client_value_end(client, &json);
}

static void ending_leave(struct client_pending *pending)
{
	struct ending *ending = (struct ending *)pending;

	session_stop_waiting(&ending->waiter);
	LIST_UNLINK(pending, link);
	assert(pending->client->n_pending > 0);
	pending->client->n_pending--;
	free(pending->id_text);
	free(ending);
}

static void ending_output(void *context, unsigned stream, struct text data, bool *searched)
{
	(void)context;
	(void)stream;
	(void)data;
	(void)searched;
}

static void ending_ended(void *context, bool forgotten)
{
	struct ending *ending = context;

	(void)forgotten;
	if (may_still_use_session(ending->pending.client, ending->session))
		answer_end(ending->pending.client, ending->pending.id_text, ending->session);
	else
		answer_no_session(ending->pending.client, ending->pending.id_text);
	ending_leave(&ending->pending);
}

static void wait_for_end(
	struct client *client, struct jsonrpc_request *request, struct session *session)
{
	struct ending *ending = calloc(1, sizeof(*ending));

	if (!ending || client_calls(client) >= LIMIT_CALLS_PER_CONNECTION) {
		free(ending);
		client_answer_busy(client, request->id_text, "Too many requests wait; try again");
		return;
	}
	ending->session = session;
	ending->waiter = (struct session_waiter){
		.output = ending_output, .ended = ending_ended, .context = ending};
	if (session_wait(session_waiting(session), &ending->waiter) < 0) {
		free(ending);
		client_answer_busy(client, request->id_text,
			"Too many requests wait for this session, which was told to end; look at "
			"it "
			"with session.read");
		return;
	}
	ending->pending.client = client;
	ending->pending.leave = ending_leave;
	ending->pending.id_text = TAKE_PTR(request->id_text);
	LIST_LINK_HEAD(&client->pending, &ending->pending, link);
	client->n_pending++;
}

void method_session_end(struct client *client, struct jsonrpc_request *request)
{
	int64_t grace_ms = LIMIT_TERM_GRACE_MS;
	struct session *session;
	struct session_info info;

	if (request->notification)
		return;
	if (!number_param(request->params, "grace_ms", 0, LIMIT_SESSION_GRACE_MS, &grace_ms)) {
		answer_wrong(client, request, "grace_ms must be a number from 0 to 60000");
		return;
	}
	session = session_param(client, request);
	if (!session)
		return;
	session_end(session, grace_ms);
	session_get_info(session, &info);
	if (info.state == SESSION_ENDED)
		answer_end(client, request->id_text, session);
	else
		wait_for_end(client, request, session);
}

/* session.list */

struct listing {
	struct client *client;
	struct json_text json;
};

static void put_ports(struct json_text *json, const struct session *session)
{
	struct listening_ports ports;
	bool known = session_ports(session, &ports);

	json_text_key(json, "ports");
	if (!known) {
		json_text_null(json);
		return;
	}
	json_text_array_begin(json);
	for (size_t i = 0; i < ports.n; i++)
		json_text_int64(json, ports.ports[i]);
	json_text_array_end(json);
}

static void put_session(void *context, const struct session *session)
{
	struct listing *listing = context;
	struct json_text *json = &listing->json;
	const struct output_ring *output = session_output(session);
	struct session_info info;

	if (!may_use_session(listing->client, session))
		return;
	session_get_info(session, &info);
	json_text_object_begin(json);
	session_describe(json, &info, LIMIT_SESSION_SHOWN_BYTES);
	put_terminal(json, &info.terminal);
	json_text_put_uint64(json, "kept_from", output->start);
	json_text_put_uint64(json, "next", output->end);
	put_ports(json, session);
	json_text_object_end(json);
}

void method_session_list(struct client *client, struct jsonrpc_request *request)
{
	struct listing listing = {.client = client};

	if (request->notification)
		return;
	client_answer_begin(client, &listing.json, request->id_text);
	json_text_put_array(&listing.json, "sessions");
	session_foreach(put_session, &listing);
	json_text_array_end(&listing.json);
	client_answer_end(client, &listing.json);
}
