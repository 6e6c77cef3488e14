// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: session.start, write, end and list. The client is authenticated and
 * hostile; a session's id is no right by itself, and each request is authorized anew.
 */
#include "supervisor/agent/method_background.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "supervisor/agent/agent_moved.h"
#include "supervisor/agent/agent_refused.h"
#include "supervisor/agent/agent_workspace.h"
#include "supervisor/agent/method_background_tell.h"
#include "supervisor/agent/method_input.h"
#include "supervisor/agent/workspace_pending.h"
#include "supervisor/background/background_use.h"
#include "supervisor/background/background_wait.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/call_digest.h"
#include "supervisor/call/call_request.h"
#include "supervisor/config/config.h"
#include "supervisor/rpc/session_state.h"
#include "supervisor/workspace/workspace.h"

#include <assert.h>
#include <errno.h>
#include <json-c/json_object.h>

static void put_json(struct json_object **json)
{
	json_object_put(*json);
}

void answer_wrong(
	struct session *session, const struct jsonrpc_request *request, const char *message)
{
	session_answer_error(session, request->id_text, JSONRPC_INVALID_PARAMS, message, NULL);
}

void answer_beyond(struct session *session, const struct jsonrpc_request *request,
	const char *message, uint64_t next)
{
	struct json_text json = json_text(session->connection.output);

	jsonrpc_error_begin(&json, request->id_text, JSONRPC_INVALID_PARAMS, message);
	json_text_key(&json, "data");
	json_text_object_begin(&json);
	json_text_put(&json, "code", tool_error_name(TOOL_INVALID_ARGUMENTS));
	json_text_key(&json, "next");
	json_text_uint64(&json, next);
	json_text_object_end(&json);
	(void)jsonrpc_error_end(&json);
	session->connection.wrote(session->connection.context);
}

bool number_param(
	struct json_object *params, const char *name, int64_t min, int64_t max, int64_t *ret)
{
	struct json_object *value;
	int64_t number;

	if (!json_object_object_get_ex(params, name, &value) || !value)
		return true;
	if (!json_object_is_type(value, json_type_int))
		return false;
	number = json_object_get_int64(value);
	if (number < min || number > max)
		return false;
	*ret = number;
	return true;
}

const char *base64_param(struct json_object *params, bool *ret)
{
	struct text encoding;

	if (!session_string_param(params, "encoding", &encoding))
		return "encoding must be \"utf-8\" or \"base64\"";
	*ret = encoding.data && text_equal(encoding, TEXT_LITERAL("base64"));
	if (encoding.data && !*ret && !text_equal(encoding, TEXT_LITERAL("utf-8")))
		return "encoding must be \"utf-8\" or \"base64\"";
	return NULL;
}

bool may_use_background(const struct session *session, const struct background *background)
{
	struct background_info info;

	background_get_info(background, &info);
	for (size_t i = 0;
		session_may_name(session, text_from(info.workspace)) && i < session->n_tenants; i++)
		if (background_is_allowed(background, session->tenants[i]))
			return true;
	return false;
}

bool may_still_use_background(struct session *session, const struct background *background)
{
	if (session->config != session->service->config &&
		session->endpoint->authorize(session) < 0)
		return false;
	return may_use_background(session, background);
}

void answer_no_background(struct session *session, const char *id_text)
{
	session_answer_error(session, id_text, JSONRPC_SERVER_ERROR,
		tool_error_sentence(TOOL_SESSION_NOT_FOUND),
		tool_error_name(TOOL_SESSION_NOT_FOUND));
}

struct background *background_param(struct session *session, const struct jsonrpc_request *request)
{
	struct background *background;
	struct text id;

	if (!session_string_param(request->params, "session", &id) || !id.data) {
		answer_wrong(session, request, "session must be the id of a session");
		return NULL;
	}
	background = background_find(id);
	if (background && may_use_background(session, background))
		return background;
	answer_no_background(session, request->id_text);
	return NULL;
}

/* session.start */

struct start {
	struct background_wish wish;
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

	if (!session_string_param(params, "name", &ret->wish.name) ||
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

static void answer_started(struct session *session, const struct jsonrpc_request *request,
	const struct background *background, bool before)
{
	struct background_info info;
	struct json_text json;

	background_get_info(background, &info);
	session_answer_begin(session, &json, request->id_text);
	json_text_object_begin(&json);
	json_text_put(&json, "session", info.id);
	json_text_key(&json, "name");
	if (info.name.data)
		json_text_string(&json, info.name);
	else
		json_text_null(&json);
	json_text_put(&json, "workspace", info.workspace);
	put_terminal(&json, &info.terminal);
	json_text_put_number(&json, "lifetime_ms", info.lifetime_ms);
	json_text_put_number(&json, "output_bytes", (int64_t)background_output(background)->cap);
	if (before)
		json_text_put_bool(&json, "replayed", true);
	json_text_object_end(&json);
	session_answer_end(session, &json);
}

/* Records and answers the refusal of a session in @workspace. */
static void refuse_start(struct session *session, const struct jsonrpc_request *request,
	const struct workspace *workspace, const struct refusal *why)
{
	bool params = why->error == TOOL_OK || why->error == TOOL_INVALID_ARGUMENTS;
	const char *message = why->error == TOOL_OK && !why->message ? "The parameters are wrong"
			      : why->error == TOOL_OK                ? why->message
								     : refusal_text(why);

	agent_call_refused(session, workspace, "session.start",
		params ? "INVALID_PARAMS" : tool_error_name(why->error), message);
	if (why->error == TOOL_OK)
		session_answer_error(
			session, request->id_text, JSONRPC_INVALID_PARAMS, message, NULL);
	else
		answer_refusal(session, request->id_text, why);
}

/* Whether a session, which is fine in itself, is refused now. */
static enum tool_error refused_now(const struct session *session, struct workspace *workspace,
	const struct start *start, struct refusal *ret)
{
	struct service *service = session->service;
	enum tool_error error = agent_refusal(session, workspace, ret);

	if (error == TOOL_OK)
		error = agent_refuses_end(session, workspace_tenant(workspace), ret);
	if (error == TOOL_OK)
		error = background_refuses(service, workspace, workspace_tenant(workspace),
			start->wish.output_bytes, ret);
	return error;
}

/*
 * Looks the key of @call up, which serves only here: the journal has none of sessions, which end
 * with cloisterd. Returns whether the request has been answered, because the key is known.
 */
static bool is_repeated(struct session *session, const struct jsonrpc_request *request,
	const struct workspace *workspace, struct call_request *call, const struct start *start)
{
	struct background *background;

	if (!call->options.key.data)
		return false;
	if (call_digest_key(call, workspace_name(workspace), agent_workspace_made(workspace)) < 0) {
		session_answer_busy(session, request->id_text, "Out of memory");
		return true;
	}
	call->options.key = (struct text){NULL, 0};
	background = background_find_key(call->key.id);
	if (!background)
		return false;
	if (background_is_same(background, &call->key, start->input, start->wish.terminal.rows > 0))
		answer_started(session, request, background, true);
	else
		session_answer_error(session, request->id_text, JSONRPC_SERVER_ERROR,
			"Another session was started with this key, and is still known; give each "
			"start a key of its own",
			tool_error_name(TOOL_KEY_CONFLICT));
	return true;
}

static void start_in(struct session *session, struct jsonrpc_request *request,
	struct workspace *workspace, struct start *start)
{
	struct call_refusal refusal = {0};
	struct call_request call_request;
	struct background *background;
	bool has_key;
	int r;

	if (call_request_read(start->call, session->request_left, workspace_visible(workspace),
		    workspace_tenant(workspace),
		    session_tools_of(session, workspace_tenant(workspace)), READER_PROGRAM,
		    &call_request, &refusal) < 0) {
		refuse_start(session, request, workspace, &refusal.why);
		call_refusal_done(&refusal);
		return;
	}
	has_key = call_request.options.key.data;
	if (is_repeated(session, request, workspace, &call_request, start)) {
		call_request_done(&call_request);
		return;
	}
	if (refused_now(session, workspace, start, &refusal.why) != TOOL_OK) {
		call_request_done(&call_request);
		refuse_start(session, request, workspace, &refusal.why);
		call_refusal_done(&refusal);
		return;
	}
	call_request.options.stdin_stream = start->input;
	call_request.uid = session->peer.uid;
	call_request.gid = session->peer.gid;
	call_request.pid = session->peer.pid;
	call_request.memory += session->request_bytes;
	start->wish.key = has_key ? &call_request.key : NULL;
	r = background_start(session->service, workspace, &call_request, &start->wish, &background);
	start->wish.key = NULL;
	if (r < 0)
		session_answer_busy(session, request->id_text, "Out of memory");
	else
		answer_started(session, request, background, false);
}

void method_session_start(struct session *session, struct jsonrpc_request *request)
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
	if (!session_string_param(request->params, "workspace", &name))
		wrong = "workspace must be a string";
	if (wrong) {
		answer_wrong(session, request, wrong);
		return;
	}
	workspace = agent_hold_or_answer(session, request, name);
	if (!workspace)
		return;
	start.call = call = make_call(request->params);
	if (call)
		start_in(session, request, workspace, &start);
	else
		session_answer_busy(session, request->id_text, "Out of memory");
	workspace_release(workspace);
}

/* session.write */

static void answer_written(struct session *session, const struct jsonrpc_request *request,
	const struct background *background, size_t taken)
{
	struct background_info info;
	struct json_text json;

	background_get_info(background, &info);
	session_answer_begin(session, &json, request->id_text);
	json_text_object_begin(&json);
	json_text_key(&json, "taken");
	json_text_uint64(&json, taken);
	json_text_key(&json, "next");
	json_text_uint64(&json, info.taken);
	json_text_put_bool(&json, "closed", info.input_over);
	json_text_object_end(&json);
	session_answer_end(session, &json);
}

void method_session_write(struct session *session, struct jsonrpc_request *request)
{
	_cleanup_(input_data_done) struct input_data input = {0};
	struct background_info info;
	struct background *background;
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
		answer_wrong(session, request, wrong);
		return;
	}
	background = background_param(session, request);
	if (!background)
		return;
	background_get_info(background, &info);
	if (input.eof && info.terminal.rows > 0) {
		answer_wrong(session, request,
			"A terminal has no end of input: send the character that the command takes "
			"for it, mostly Ctrl-D, \"\\u0004\"");
		return;
	}
	r = background_write(background, input.data, at, input.eof, &taken);
	background_get_info(background, &info);
	if (r == -ERANGE)
		answer_beyond(session, request,
			"at is beyond the input that was taken; send what is missing from next on",
			info.taken);
	else if (r == -EAGAIN)
		session_answer_busy(session, request->id_text,
			"As much input waits for the command to read it as may wait, and nothing "
			"of this was taken; send it again later");
	else if (r == -ENOMEM)
		session_answer_busy(session, request->id_text, "Out of memory");
	else
		answer_written(session, request, background, taken);
}

/* session.end */

/* A request that waits for the end. */
struct ending {
	struct session_pending pending;
	struct background_waiter waiter;
	const struct background *background;
};

static void answer_end(
	struct session *session, const char *id_text, const struct background *background)
{
	struct background_info info;
	struct json_text json;

	background_get_info(background, &info);
	session_answer_begin(session, &json, id_text);
	json_text_raw(&json, info.end);
	session_answer_end(session, &json);
}

static void ending_leave(struct session_pending *pending)
{
	struct ending *ending = (struct ending *)pending;

	background_stop_waiting(&ending->waiter);
	LIST_UNLINK(pending, link);
	assert(pending->session->n_pending > 0);
	pending->session->n_pending--;
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
	if (may_still_use_background(ending->pending.session, ending->background))
		answer_end(ending->pending.session, ending->pending.id_text, ending->background);
	else
		answer_no_background(ending->pending.session, ending->pending.id_text);
	ending_leave(&ending->pending);
}

static void wait_for_end(
	struct session *session, struct jsonrpc_request *request, struct background *background)
{
	struct ending *ending = calloc(1, sizeof(*ending));

	if (!ending || session_calls(session) >= LIMIT_CALLS_PER_CONNECTION) {
		free(ending);
		session_answer_busy(session, request->id_text, "Too many requests wait; try again");
		return;
	}
	ending->background = background;
	ending->waiter = (struct background_waiter){
		.output = ending_output, .ended = ending_ended, .context = ending};
	if (background_wait(background, &ending->waiter) < 0) {
		free(ending);
		session_answer_busy(session, request->id_text,
			"Too many requests wait for this session, which was told to end; look at "
			"it "
			"with session.read");
		return;
	}
	ending->pending.session = session;
	ending->pending.leave = ending_leave;
	ending->pending.id_text = TAKE_PTR(request->id_text);
	LIST_LINK_HEAD(&session->pending, &ending->pending, link);
	session->n_pending++;
}

void method_session_end(struct session *session, struct jsonrpc_request *request)
{
	int64_t grace_ms = LIMIT_TERM_GRACE_MS;
	struct background *background;
	struct background_info info;

	if (request->notification)
		return;
	if (!number_param(request->params, "grace_ms", 0, LIMIT_SESSION_GRACE_MS, &grace_ms)) {
		answer_wrong(session, request, "grace_ms must be a number from 0 to 60000");
		return;
	}
	background = background_param(session, request);
	if (!background)
		return;
	background_end(background, grace_ms);
	background_get_info(background, &info);
	if (info.state == BACKGROUND_ENDED)
		answer_end(session, request->id_text, background);
	else
		wait_for_end(session, request, background);
}

/* session.list */

struct listing {
	struct session *session;
	struct json_text json;
};

static void put_ports(struct json_text *json, const struct background *background)
{
	struct listening_ports ports;
	bool known = background_ports(background, &ports);

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

static void put_session(void *context, const struct background *background)
{
	struct listing *listing = context;
	struct json_text *json = &listing->json;
	const struct output_ring *output = background_output(background);
	struct background_info info;

	if (!may_use_background(listing->session, background))
		return;
	background_get_info(background, &info);
	json_text_object_begin(json);
	background_describe(json, &info, LIMIT_SESSION_SHOWN_BYTES);
	put_terminal(json, &info.terminal);
	json_text_put_number(json, "kept_from", (int64_t)output->start);
	json_text_put_number(json, "next", (int64_t)output->end);
	put_ports(json, background);
	json_text_object_end(json);
}

void method_session_list(struct session *session, struct jsonrpc_request *request)
{
	struct listing listing = {.session = session};

	if (request->notification)
		return;
	session_answer_begin(session, &listing.json, request->id_text);
	json_text_object_begin(&listing.json);
	json_text_key(&listing.json, "sessions");
	json_text_array_begin(&listing.json);
	background_foreach(put_session, &listing);
	json_text_array_end(&listing.json);
	json_text_object_end(&listing.json);
	session_answer_end(session, &listing.json);
}
