// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate. The connection is bound before anything of the client's is sent on it, and
 * workspace.open with protocol "mcp" leaves it MCP's methods only. cloisterd is trusted with the
 * answers, and nothing that they hold.
 */
#include "gate/mcp/mcp_link.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "gate/agent_link.h"
#include "gate/gate.h"
#include "gate/mcp/message.h"
#include "json/json_read.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <json-c/json_object.h>
#include <stdio.h>
#include <stdlib.h>

struct mcp_link {
	struct gate *gate;
	const struct mcp_link_callbacks *callbacks;
	void *context;
	char *workspace;
	bool text_only;
	struct agent_socket *opening; /* NULL: it is bound, or over */
	struct bufferevent *stream;   /* NULL: it is not bound yet */
	struct evbuffer *held;        /* until the workspace is open; then NULL */
	size_t scanned;               /* of what came, without a newline */
	bool dispatching, closing, paused;
};

static void link_free(struct mcp_link *link)
{
	agent_socket_cancel(link->opening);
	if (link->stream) {
		bufferevent_free(link->stream);
		link->gate->links--;
	}
	if (link->held)
		evbuffer_free(link->held);
	free(link->workspace);
	free(link);
}

void mcp_link_close(struct mcp_link *link)
{
	if (link && link->dispatching)
		link->closing = true;
	else if (link)
		link_free(link);
}

static void fail_mcp_link(struct mcp_link *link, unsigned status, const char *message)
{
	link->callbacks->closed(link->context, status, message);
}

/* The answer to workspace.open. */
static void on_workspace(struct mcp_link *link, struct text line)
{
	static const char *const code_path[] = {"error", "data", "code", NULL};
	static const char *const text_path[] = {"error", "message", NULL};
	struct json_bounds bounds = json_request_bounds(line.len);
	struct mcp_message message;
	const char *code, *text;
	unsigned status = 400;

	if (mcp_message_read(line, &bounds, &message, &text) != 0) {
		fail_mcp_link(link, 502, "cloisterd answered what the gate does not understand");
		return;
	}
	if (mcp_message_error(&message) == 0) {
		bufferevent_write_buffer(link->stream, link->held);
		evbuffer_free(TAKE_PTR(link->held));
	} else {
		code = mcp_message_string(&message, code_path);
		text = mcp_message_string(&message, text_path);
		if (code && strcmp(code, "BUSY") == 0)
			status = 503;
		else if (code && strcmp(code, "FORBIDDEN") == 0)
			status = 403;
		fail_mcp_link(link, status, text ? text : "the workspace cannot be opened");
	}
	mcp_message_done(&message);
}

static void take_mcp_line(struct mcp_link *link, struct text line)
{
	if (link->held)
		on_workspace(link, line);
	else
		link->callbacks->line(link->context, line);
}

static void read_lines(struct mcp_link *link)
{
	struct evbuffer *in = bufferevent_get_input(link->stream);
	struct evbuffer_ptr from, end;

	while (!link->closing && !link->paused && evbuffer_get_length(in) > link->scanned) {
		evbuffer_ptr_set(in, &from, link->scanned, EVBUFFER_PTR_SET);
		end = evbuffer_search(in, "\n", 1, &from);
		if (end.pos < 0) {
			link->scanned = evbuffer_get_length(in);
			break;
		}
		take_mcp_line(link,
			(struct text){(const char *)evbuffer_pullup(in, end.pos), (size_t)end.pos});
		evbuffer_drain(in, (size_t)end.pos + 1);
		link->scanned = 0;
	}
	if (!link->closing && link->scanned > LIMIT_CLIENT_MEMORY_BYTES)
		fail_mcp_link(link, 502, "cloisterd's answer is too long");
}

static void on_mcp_readable(struct bufferevent *stream, void *context)
{
	struct mcp_link *link = context;

	(void)stream;
	link->dispatching = true;
	read_lines(link);
	link->dispatching = false;
	if (link->closing)
		link_free(link);
}

static void on_event(struct bufferevent *stream, short what, void *context)
{
	(void)stream;
	(void)what;
	fail_mcp_link(context, 503, "cloisterd closed the connection");
}

/* Asks for the workspace, and from then on for nothing but MCP. */
static int ask_mcp(struct mcp_link *link)
{
	struct json_object *root = json_object_new_object(), *params = json_object_new_object();
	struct evbuffer *out = bufferevent_get_output(link->stream);
	int n;

	json_object_object_add(root, "jsonrpc", json_object_new_string("2.0"));
	json_object_object_add(root, "id", json_object_new_int(0));
	json_object_object_add(root, "method", json_object_new_string("workspace.open"));
	json_object_object_add(params, "workspace", json_object_new_string(link->workspace));
	json_object_object_add(params, "protocol", json_object_new_string("mcp"));
	if (link->text_only)
		json_object_object_add(params, "structured_content", json_object_new_boolean(0));
	json_object_object_add(root, "params", params);
	n = evbuffer_add_printf(
		out, "%s\n", json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN));
	json_object_put(root);
	return n < 0 ? -ENOMEM : 0;
}

static void on_bound(int fd, int error, void *context)
{
	struct mcp_link *link = context;

	link->opening = NULL;
	if (error < 0) {
		fail_mcp_link(link, error == -EACCES ? 403 : 503,
			error == -EACCES ? "the key's tenant does not use the gate"
					 : "cloisterd cannot be reached now");
		return;
	}
	link->stream = bufferevent_socket_new(link->gate->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!link->stream) {
		close_fd(&fd);
		fail_mcp_link(link, 503, "memory is out");
		return;
	}
	link->gate->links++;
	bufferevent_setcb(link->stream, on_mcp_readable, NULL, on_event, link);
	bufferevent_set_max_single_read(link->stream, LIMIT_GATE_RELAY_BYTES);
	if (ask_mcp(link) < 0 || bufferevent_enable(link->stream, EV_READ | EV_WRITE) < 0)
		fail_mcp_link(link, 503, "memory is out");
}

int mcp_link_open(struct gate *gate, const struct gate_identity *identity, const char *workspace,
	bool text_only, const struct mcp_link_callbacks *callbacks, void *context,
	struct mcp_link **ret)
{
	struct mcp_link *link = calloc(1, sizeof(*link));
	int r = -ENOMEM;

	if (!link)
		return r;
	*link = (struct mcp_link){.gate = gate,
		.callbacks = callbacks,
		.context = context,
		.workspace = strdup(workspace),
		.text_only = text_only,
		.held = evbuffer_new()};
	if (link->workspace && link->held)
		r = agent_socket_open(gate, identity, 0, on_bound, link, &link->opening);
	if (r < 0) {
		link_free(link);
		return r;
	}
	*ret = link;
	return 0;
}

int mcp_link_send(struct mcp_link *link, struct text line)
{
	struct evbuffer *out = link->held ? link->held : bufferevent_get_output(link->stream);

	if (evbuffer_get_length(out) > LIMIT_LINE_BYTES)
		return -EAGAIN;
	return evbuffer_add(out, line.data, line.len) < 0 || evbuffer_add(out, "\n", 1) < 0
		       ? -ENOMEM
		       : 0;
}

void mcp_link_pause(struct mcp_link *link, bool pause)
{
	if (link->paused == pause || !link->stream)
		return;
	link->paused = pause;
	if (pause) {
		bufferevent_disable(link->stream, EV_READ);
		return;
	}
	bufferevent_enable(link->stream, EV_READ);
	/* What has come already. */
	bufferevent_trigger(link->stream, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
}
