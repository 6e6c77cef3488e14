// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: session.signal and session.resize, and the size of a terminal in
 * session.start. The client is authenticated and hostile.
 */
#include "supervisor/agent/session/method_session_tell.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/agent/session/session_params.h"
#include "supervisor/base/json_text.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/session/session_use.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <signal.h>

/* Answers what a session was told with the result @r of telling it. */
static void answer_told(
	struct client *client, const struct jsonrpc_request *request, const char *done, int r)
{
	struct json_text json;

	if (r == -EAGAIN) {
		client_answer_busy(client, request->id_text,
			"What the session was told before has not arrived yet; try again later");
		return;
	}
	client_answer_begin(client, &json, request->id_text);
	json_text_put_bool(&json, done, r == 0);
	client_answer_end(client, &json);
}

static bool signal_number(struct text name, uint8_t *ret)
{
	static const struct {
		const char *name;
		uint8_t number;
	} signals[] = {
		{"INT", SIGINT},
		{"TERM", SIGTERM},
		{"HUP", SIGHUP},
		{"QUIT", SIGQUIT},
		{"KILL", SIGKILL},
		{"USR1", SIGUSR1},
		{"USR2", SIGUSR2},
	};

	for (size_t i = 0; name.data && i < ARRAY_SIZE(signals); i++)
		if (text_equal(name, text_from(signals[i].name))) {
			*ret = signals[i].number;
			return true;
		}
	return false;
}

void method_session_signal(struct client *client, struct jsonrpc_request *request)
{
	struct session *session;
	struct command_signal message;
	struct session_info info;
	struct text name, to;
	int r;

	if (request->notification)
		return;
	if (!client_string_param(request->params, "signal", &name) ||
		!signal_number(name, &message.number)) {
		answer_wrong(
			client, request, "signal must be INT, TERM, HUP, QUIT, KILL, USR1 or USR2");
		return;
	}
	if (!client_string_param(request->params, "to", &to) ||
		(to.data && !text_equal(to, TEXT_LITERAL("all")) &&
			!text_equal(to, TEXT_LITERAL("foreground")))) {
		answer_wrong(client, request, "to must be \"all\" or \"foreground\"");
		return;
	}
	message.foreground = to.data && text_equal(to, TEXT_LITERAL("foreground"));
	session = session_param(client, request);
	if (!session)
		return;
	session_get_info(session, &info);
	if (message.foreground && info.terminal.rows == 0) {
		answer_wrong(client, request,
			"to must be \"all\": a session without pty has no foreground");
		return;
	}
	r = session_signal(session, &message);
	answer_told(client, request, "sent", r);
}

static bool size_params(struct json_object *params, struct command_terminal *ret)
{
	int64_t rows = 0, cols = 0;

	if (!number_param(params, "rows", 1, LIMIT_TERMINAL_SIDE, &rows) ||
		!number_param(params, "cols", 1, LIMIT_TERMINAL_SIDE, &cols) || rows == 0 ||
		cols == 0)
		return false;
	*ret = (struct command_terminal){(uint32_t)rows, (uint32_t)cols};
	return true;
}

bool terminal_param(struct json_object *params, struct command_terminal *ret)
{
	struct json_object *size = NULL;

	*ret = (struct command_terminal){0};
	json_object_object_get_ex(params, "pty", &size);
	return !size || (json_object_is_type(size, json_type_object) &&
				json_object_object_length(size) == 2 && size_params(size, ret));
}

void method_session_resize(struct client *client, struct jsonrpc_request *request)
{
	struct command_terminal size;
	struct session *session;
	struct session_info info;

	if (request->notification)
		return;
	if (!size_params(request->params, &size)) {
		answer_wrong(client, request, "rows and cols must be numbers from 1 to 4096");
		return;
	}
	session = session_param(client, request);
	if (!session)
		return;
	session_get_info(session, &info);
	if (info.terminal.rows == 0)
		answer_wrong(client, request,
			"The session has no terminal: session.start gives it one with pty");
	else
		answer_told(client, request, "resized", session_resize(session, &size));
}
