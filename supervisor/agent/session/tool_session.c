// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The client is authenticated and hostile, and a model wrote the arguments. What
 * a command writes is hostile bytes.
 */
#include "supervisor/agent/session/tool_session.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/utf8.h"
#include "supervisor/agent/agent_workspace.h"
#include "supervisor/agent/session/output_chunks.h"
#include "supervisor/agent/session/output_wait.h"
#include "supervisor/agent/session/session_params.h"
#include "supervisor/agent/session/tool_session_text.h"
#include "supervisor/agent/tool/tool_answer.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/request/call_digest.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/call/result/command_notes.h"
#include "supervisor/call/result/ended_by.h"
#include "supervisor/call/result/observation.h"
#include "supervisor/config/tenant.h"
#include "supervisor/session/session_use.h"

#include <errno.h>
#include <event2/buffer.h>
#include <inttypes.h>
#include <json-c/json_object.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* A call of one of these tools, which may wait for output or for the end. */
struct tool_wait {
	struct output_wait wait;
	struct call_request request;
	struct client_reply reply;
	int64_t began;
	struct session_did did;
	struct session_keyed *keyed; /* while the tool begins; NULL: it has no key */
	bool again;                  /* what it does has been done */
};

/* What runs, for a model that named something else. */

struct names {
	const struct workspace *workspace;
	char text[1024];
	size_t len, n, more;
};

static void add_name(void *context, const struct session *session)
{
	struct names *names = context;
	struct session_info info;
	struct text command;
	const char *line;
	int n;

	session_get_info(session, &info);
	if (info.state == SESSION_ENDED || !session_is_in(session, names->workspace))
		return;
	if (names->n == LIMIT_TOOL_LIST_NAMES) {
		names->more++;
		return;
	}
	command = utf8_cut(info.command, LIMIT_TOOL_LIST_BYTES / 5);
	line = memchr(command.data, '\n', command.len);
	if (line)
		command.len = (size_t)(line - command.data);
	if (!info.name.data)
		info.name = text_from(info.id);
	n = snprintf(names->text + names->len, sizeof(names->text) - names->len,
		"%s\"%.*s\" (%.*s)", names->n++ > 0 ? ", " : "", (int)info.name.len, info.name.data,
		(int)command.len, command.data);
	names->len += (size_t)n < sizeof(names->text) - names->len ? (size_t)n : 0;
}

/* Returns a sentence in @names: what runs in the background of the workspace. */
static const char *tell_names(
	const struct client *client, const struct workspace *workspace, struct names *names)
{
	static const char intro[] = "These run: ";

	*names = (struct names){.workspace = workspace, .len = sizeof(intro) - 1};
	memcpy(names->text, intro, sizeof(intro));
	session_foreach(add_name, names);
	if (names->n == 0)
		return client_tools_of(client, workspace_tenant(workspace)) & TOOLS_SESSIONS
			       ? "None runs; run_command with background=true starts one"
			       : "None runs";
	if (names->more > 0)
		snprintf(names->text + names->len, sizeof(names->text) - names->len,
			" and %zu more, which list_commands shows", names->more);
	return names->text;
}

void tool_session_note(const struct client *client, const struct workspace *workspace,
	struct call_refusal *refusal)
{
	struct names names;

	notes_add(&refusal->notes, "%s", tell_names(client, workspace, &names));
}

/* Ports in use. */

struct port_search {
	const struct client *client;
	const struct workspace *workspace;
	const struct observation *observation;
	struct notes *notes;
	uint64_t offered;
	bool any; /* no port is named: each that listens may be it */
	size_t found;
};

static void note_port(void *context, const struct session *session)
{
	struct port_search *search = context;
	struct listening_ports ports = {0};
	struct session_info info;

	if (!session_is_in(session, search->workspace) ||
		!may_use_session(search->client, session) || !session_ports(session, &ports))
		return;
	session_get_info(session, &info);
	if (!info.name.data)
		info.name = text_from(info.id);
	for (size_t i = 0; i < ports.n; i++) {
		char digits[8];
		const char *const named[] = {digits, NULL};

		snprintf(digits, sizeof(digits), "%u", ports.ports[i]);
		if (!search->any && !command_ends_with(search->observation, named))
			continue;
		search->found++;
		notes_add(search->notes, "\"%.*s\" in the background%s listens at port %s%s",
			(int)info.name.len, info.name.data,
			session_owns_ports(session) ? "" : ", or another command,", digits,
			search->offered & TOOLS_SESSIONS
				? ": read_output shows what it writes, stop_command ends it"
				: "");
	}
}

void tool_session_port_note(const struct client *client, const struct workspace *workspace,
	uint64_t offered, const struct observation *observation, struct notes *notes)
{
	static const char *const sentences[] = {"EADDRINUSE", "ddress already in use",
		"is already in use", "onnection in use", NULL};
	struct port_search search = {.client = client,
		.workspace = workspace,
		.observation = observation,
		.notes = notes,
		.offered = offered};

	if (!command_ends_with(observation, sentences))
		return;
	session_foreach(note_port, &search);
	search.any = search.found == 0;
	if (search.any)
		session_foreach(note_port, &search);
}

/* Answering. */

static void answer_observation(struct client *client, const char *id_text,
	const struct tool_wait *call, struct observation *observation)
{
	struct json_text json;

	observation->tool = text_from(call->request.tool->name);
	observation->args = &call->request.args;
	observation->notes = &call->request.notes;
	observation->base64 = call->request.options.base64;
	observation->replayed = call->again;
	observation->wall_us = (uint64_t)((clock_now() - call->began) / CLOCK_NS_PER_US);
	call_stats_ended(&client->service->stats, call->request.tool->id, observation);
	client_value_begin(client, &json, id_text);
	call->reply.form->write(&json, &call->reply, observation);
	client_value_end(client, &json);
}

static void answer_error(struct client *client, const char *id_text, const struct tool_wait *call,
	enum tool_error error, const char *message)
{
	struct observation observation = {.error = error, .message = text_from(message)};

	answer_observation(client, id_text, call, &observation);
}

/* Returns how much of the output the reader is shown. */
static struct session_view view_of(struct client *client, const struct tool_wait *call)
{
	const enum reader reader = call->reply.form->reader;
	const struct shown *shown = &call->request.shown;
	/* A model's is written twice, and as a string within a string. */
	const uint64_t room =
		output_room(client, LIMIT_SESSION_READ_BYTES) / (reader == READER_PROGRAM ? 1 : 3);

	return (struct session_view){
		.bytes = shown->bytes > 0 && shown->bytes < room ? shown->bytes : room,
		.cut = shown->bytes > 0,
		.room = {shown->sent == UINT64_MAX
				 ? UINT64_MAX
				 : shown_left(shown, &call->request.notes) / (shown->both ? 2 : 1),
			shown->lines},
		.base64 = call->request.options.base64,
	};
}

/* Answers with what @write makes: the members of the output, and the text for a model. */
static void answer_written(struct client *client, const char *id_text, struct tool_wait *call,
	bool (*write)(struct client *client, struct tool_wait *call, struct session_text *out))
{
	struct session_text out = {.items = evbuffer_new()};
	struct observation observation = {0};

	if (call->request.shown.text)
		out.text = evbuffer_new();
	if (!out.items || (call->request.shown.text && !out.text) || !write(client, call, &out)) {
		/* Input that was written, and an end, are told even so. */
		answer_error(client, id_text, call, TOOL_EXECUTION_ERROR,
			"Out of memory; look with read_output");
	} else {
		observation.items = out.items;
		observation.text = out.text;
		observation.shown = &call->request.shown;
		answer_observation(client, id_text, call, &observation);
	}
	if (out.items)
		evbuffer_free(out.items);
	if (out.text)
		evbuffer_free(out.text);
}

static bool write_state(struct client *client, struct tool_wait *call, struct session_text *out)
{
	struct session_view view = view_of(client, call);

	if (call->request.args.wait_for.data)
		call->did.found = call->wait.met == 0 ? SESSION_FOUND : SESSION_NOT_FOUND;
	view.from = call->did.from;
	return session_text_state(call->wait.session, &view, &call->did, out);
}

static void answer_session_tool(
	struct output_wait *wait, struct client *client, const char *id_text)
{
	struct tool_wait *call = (struct tool_wait *)wait;

	session_touch(wait->session);
	answer_written(client, id_text, call, write_state);
}

static bool write_list(struct client *client, struct tool_wait *call, struct session_text *out)
{
	return session_text_list(client, call->did.workspace, out);
}

static void done(struct output_wait *wait)
{
	struct tool_wait *call = (struct tool_wait *)wait;

	call_request_done(&call->request);
	client_reply_done(&call->reply);
}

static void cancel(struct client_pending *pending, bool silent)
{
	struct tool_wait *call = (struct tool_wait *)pending;
	char buffer[512];

	if (!silent)
		answer_error(pending->client, pending->id_text, call, TOOL_CANCELLED,
			call_cause_sentence(
				&call->request, ENDED_BY_CANCEL, true, 0, buffer, sizeof(buffer)));
	output_wait_forget(&call->wait);
}

/* Beginning. */

static void add_end(struct output_wait *wait)
{
	output_wait_add(wait)->kind = UNTIL_EXIT;
}

/* New output after which the command has been silent for a moment. */
static void add_settled(struct output_wait *wait)
{
	struct until *until = output_wait_add(wait);

	until->kind = UNTIL_QUIET;
	until->quiet_ms = LIMIT_TOOL_SETTLE_MS;
	until->after_output = true;
}

/* Each begins a tool: returns TOOL_OK, with @call ready to wait, or a refusal. */

static enum tool_error begin_read(struct tool_wait *call, struct refusal *refusal)
{
	const struct tool_args *args = &call->request.args;
	struct output_wait *wait = &call->wait;
	const uint64_t end = session_output(wait->session)->end;

	if (args->after >= 0 && !call->again)
		call->did.from = (uint64_t)args->after;
	if (call->did.from > end)
		return refusal_format(refusal, TOOL_INVALID_ARGUMENTS,
			"read_output: argument \"after\" is beyond the output, which has %" PRIu64
			" bytes; leave it out for what is new",
			end);
	wait->after = call->did.from;
	wait->wait_ms = args->wait_ms;
	if (args->wait_for.data)
		until_contains(output_wait_add(wait), args->wait_for);
	add_end(wait);
	if (!args->wait_for.data)
		add_settled(wait);
	return TOOL_OK;
}

static bool is_control(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f;
}

/*
 * Makes the bytes that the command is sent: with a newline that most models forget; on a terminal,
 * as its keys send them.
 */
static char *make_input(
	const struct call_request *request, const struct session_info *info, size_t *ret_len)
{
	const struct text input = request->args.input;
	const bool terminal = info->terminal.rows > 0;
	const bool empty = input.len == 0 && request->args.eof;
	char *made = malloc(input.len + 2);
	size_t len = input.len;

	if (!made)
		return NULL;
	if (len > 0)
		memcpy(made, input.data, len);
	if (request->args.newline && !request->options.base64 && !empty &&
		(len == 0 || !is_control(made[len - 1])))
		made[len++] = terminal ? '\r' : '\n';
	if (request->args.eof && terminal)
		made[len++] = 'D' & 0x1f;
	*ret_len = len;
	return made;
}

/* The signal that a terminal sends for the key that is all of the input; 0: none. */
static int key_signal(const struct call_request *request)
{
	const struct text input = request->args.input;

	if (input.len != 1)
		return 0;
	return input.data[0] == ('C' & 0x1f)    ? SIGINT
	       : input.data[0] == ('\\' & 0x1f) ? SIGQUIT
						: 0;
}

/* Sends the signal of a key to a command without a terminal. Returns whether it was one. */
static bool send_key(struct tool_wait *call)
{
	const struct command_signal message = {.number = key_signal(&call->request)};

	if (message.number == 0)
		return false;
	call->did.refused = session_signal(call->wait.session, &message) < 0;
	if (!call->did.refused)
		call->did.signal = message.number;
	else
		call->wait.wait_ms = 0;
	return true;
}

static enum tool_error begin_input(struct tool_wait *call, struct refusal *refusal)
{
	struct output_wait *wait = &call->wait;
	struct session_info info;
	_cleanup_free_ char *made = NULL;
	size_t len = 0;
	int r;

	session_get_info(wait->session, &info);
	wait->after = session_output(wait->session)->end;
	call->did.input = true;
	call->did.input_over = info.input_over;
	wait->wait_ms = LIMIT_TOOL_LOOK_MS;
	add_end(wait);
	add_settled(wait);
	if (call->again)
		return TOOL_OK;
	if (info.terminal.rows == 0 && !call->request.options.base64 && send_key(call))
		return TOOL_OK;
	made = make_input(&call->request, &info, &len);
	r = made ? session_write(wait->session, (struct text){made, len}, -1,
			   call->request.args.eof && info.terminal.rows == 0, &call->did.taken)
		 : -ENOMEM;
	if (r == -EAGAIN)
		return refusal_set(refusal, TOOL_BUSY,
			"The command has not read what it was sent before, and nothing of this was "
			"taken; look what it does with read_output");
	if (r == -ENOMEM)
		return refusal_set(refusal, TOOL_BUSY, "Out of memory");
	session_get_info(wait->session, &info);
	call->did.refused = r < 0;
	call->did.taken = r < 0 ? 0 : call->did.taken;
	call->did.left = r < 0 ? 0 : len - call->did.taken;
	call->did.input_over = info.input_over;
	if (r < 0)
		wait->wait_ms = 0;
	return TOOL_OK;
}

static enum tool_error begin_stop(struct tool_wait *call, struct refusal *refusal)
{
	(void)refusal;
	session_end(call->wait.session, LIMIT_TERM_GRACE_MS);
	/* The end comes: what cannot be killed is answered for, too. */
	call->wait.wait_ms = LIMIT_SESSION_WAIT_MS;
	add_end(&call->wait);
	return TOOL_OK;
}

static const struct {
	enum tool_error (*begin)(struct tool_wait *call, struct refusal *refusal);
	bool acts; /* it does something before it waits, and so it is not refused for the waiting */
} acts[TOOL_COUNT] = {
	[TOOL_READ_OUTPUT] = {begin_read, false},
	[TOOL_SEND_INPUT] = {begin_input, true},
	[TOOL_STOP_COMMAND] = {begin_stop, true},
};

/* Refuses @call, and frees what it holds. */
static void refuse_session_tool(struct client *client, const struct jsonrpc_request *request,
	const struct workspace *workspace, struct tool_wait *call, struct refusal *why)
{
	struct call_refusal refusal = {.why = *why,
		.tool = strdup(call->request.tool->name),
		.notes = call->request.notes};

	*why = (struct refusal){0};
	call->request.notes = (struct notes){0};
	tool_call_refuse(client, request, workspace, &call->reply, &refusal);
	output_wait_forget(&call->wait);
}

/* Finds the command that the model names. Others' are none, and the refusal is the same. */
static enum tool_error find_session_of_tool(const struct client *client,
	const struct workspace *workspace, struct tool_wait *call, struct refusal *refusal)
{
	const struct text name = call->request.args.name;
	struct session *session = session_find_in(workspace, name);
	struct names names;

	if (!session || !may_use_session(client, session))
		return refusal_format(refusal, TOOL_SESSION_NOT_FOUND,
			"No command \"%.*s\" is in the background of this workspace, or it ended "
			"long ago. %s",
			(int)name.len, name.data, tell_names(client, workspace, &names));
	call->wait.session = session;
	call->did.from = session_shown(session);
	return TOOL_OK;
}

/*
 * Looks up the key of a call that has one. What these tools do is over when cloisterd ends, and so
 * their keys are kept with the command, not in the journal.
 */
static enum tool_error find_key(
	const struct workspace *workspace, struct tool_wait *call, struct refusal *refusal)
{
	int r;

	if (!call->request.options.key.data || !call->wait.session)
		return TOOL_OK;
	r = call_digest_key(
		&call->request, workspace_name(workspace), agent_workspace_made(workspace));
	if (r == 0)
		r = session_find_keyed(call->wait.session, &call->request.key, &call->keyed);
	if (r == -EEXIST)
		return refusal_set(refusal, TOOL_KEY_CONFLICT, NULL);
	if (r < 0)
		return refusal_set(refusal, TOOL_BUSY, "Out of memory");
	if (r == 0)
		return TOOL_OK;
	call->again = true;
	call->did.from = call->keyed->from;
	call->did.taken = call->keyed->taken;
	return TOOL_OK;
}

static void audit(const struct client *client, const struct workspace *workspace,
	const struct tool_wait *call)
{
	char hex[AUDIT_HASH_DIGITS + 1];
	struct session_info info = {0};

	if (call->wait.session)
		session_get_info(call->wait.session, &info);
	audit_session_used(client->service->audit, &client->peer, workspace,
		call->request.tool->name, info.id,
		call_digest(&call->request, hex) == 0 ? hex : NULL);
}

static void begin_session_tool(struct client *client, struct jsonrpc_request *request,
	const struct workspace *workspace, struct tool_wait *call)
{
	const enum tool_id tool = call->request.tool->id;
	struct refusal refusal = {0};
	int r;

	if (acts[tool].begin(call, &refusal) != TOOL_OK) {
		if (call->keyed && !call->again)
			call->keyed->set = false;
		refuse_session_tool(client, request, workspace, call, &refusal);
		return;
	}
	if (call->keyed && !call->again) {
		call->keyed->from = call->did.from;
		call->keyed->taken = call->did.taken;
	}
	call->keyed = NULL;
	if (request->notification) {
		output_wait_forget(&call->wait);
		return;
	}
	/* A call that waits keeps no more of its request than it needs. */
	call_request_drop_sent(&call->request);
	json_object_put(TAKE_PTR(call->request.params));
	json_object_put(TAKE_PTR(call->request.arguments));
	r = output_wait_begin(&call->wait, client, request);
	if (r < 0 && acts[tool].acts) {
		answer_session_tool(&call->wait, client, request->id_text);
	} else if (r < 0) {
		refusal_set(&refusal, TOOL_BUSY,
			"Too many requests wait for this command or on this connection; wait for "
			"an answer first");
		refuse_session_tool(client, request, workspace, call, &refusal);
		return;
	}
	if (r <= 0)
		output_wait_forget(&call->wait);
}

void tool_session_begin(struct client *client, struct jsonrpc_request *request,
	struct workspace *workspace, struct call_request *call_request, struct client_reply *reply)
{
	const char *unheard = audit_forbids(client->service->audit);
	struct tool_wait *call = calloc(1, sizeof(*call));
	struct refusal refusal = {0};

	if (!call) {
		call_request_done(call_request);
		if (!request->notification)
			client_answer_busy(client, request->id_text, "Out of memory");
		return;
	}
	output_wait_init(&call->wait);
	call->wait.answer = answer_session_tool;
	call->wait.done = done;
	call->wait.pending.cancel = cancel;
	call->began = clock_now();
	call->did.workspace = workspace;
	call->request = *call_request;
	call->reply = *reply;
	*call_request = (struct call_request){0};
	*reply = (struct client_reply){0};
	if (unheard)
		refusal_set(&refusal, TOOL_BUSY, unheard);
	else if (call->request.tool->id != TOOL_LIST_COMMANDS)
		find_session_of_tool(client, workspace, call, &refusal);
	if (refusal.error == TOOL_OK)
		find_key(workspace, call, &refusal);
	if (refusal.error != TOOL_OK) {
		refuse_session_tool(client, request, workspace, call, &refusal);
		return;
	}
	audit(client, workspace, call);
	if (call->request.tool->id != TOOL_LIST_COMMANDS) {
		begin_session_tool(client, request, workspace, call);
		return;
	}
	if (!request->notification)
		answer_written(client, request->id_text, call, write_list);
	output_wait_forget(&call->wait);
}
