// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd: kill, drain, resume and reload, for administrators. */
#include "supervisor/control/control_methods.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/log.h"
#include "supervisor/call/call_info.h"
#include "supervisor/control/control.h"
#include "supervisor/daemon/config_reload.h"

#include <stdio.h>

struct killing {
	const struct control_target *target;
	int64_t told, ending;
};

static void kill_call(void *context, struct call *call)
{
	struct killing *killing = context;
	struct call_info info;

	call_get_info(call, &info);
	if (!control_is_call(killing->target, &info))
		return;
	/* A call that is already ending keeps its first cause. */
	if (info.state == CALL_WAITING || info.state == CALL_RUNNING)
		killing->told++;
	else
		killing->ending++;
	call_cancel(call, ENDED_BY_ADMIN);
}

/* Valid until the next call. */
static struct log_field uid_field(const struct client *client)
{
	static char uid[16];

	snprintf(uid, sizeof(uid), "%u", (unsigned)client->peer.uid);
	return (struct log_field){"CLOISTER_UID", text_from(uid)};
}

void control_kill(struct client *client, struct jsonrpc_request *request)
{
	struct control_target target;
	struct killing killing = {.target = &target};
	struct json_text json;

	if (control_find(client, request, &target) < 0)
		return;
	call_foreach(kill_call, &killing);
	audit_act(client->service->audit, &client->peer, "kill",
		target.call.data      ? target.call
		: target.session.data ? target.session
				      : target.workspace,
		"done");
	log_about(LOG_INFO,
		LOG_FIELDS(uid_field(client), {"CLOISTER_TENANT", target.tenant},
			{"CLOISTER_WORKSPACE", target.workspace}, {"CLOISTER_CALL", target.call},
			{"CLOISTER_SESSION", target.session}),
		"uid %u ended %lld calls", (unsigned)client->peer.uid, (long long)killing.told);
	if (request->notification)
		return;
	client_answer_begin(client, &json, request->id_text);
	json_text_put_number(&json, "told", killing.told);
	json_text_put_number(&json, "already_ending", killing.ending);
	client_answer_end(client, &json);
}

static void count_call(void *context, struct call *call)
{
	struct call_info info;

	call_get_info(call, &info);
	*(int64_t *)context += !info.session;
}

#define NODE_SENTENCE                                                                          \
	"moved_to must be the name of a host as clients know it: 1 to 253 visible characters " \
	"of ASCII, without quotes, backslashes and blanks"

/* Clients, logs and terminals are shown the name as it is. */
static bool is_node(struct text name)
{
	for (size_t i = 0; i < name.len; i++)
		if (name.data[i] <= ' ' || name.data[i] > '~' || name.data[i] == '"' ||
			name.data[i] == '\\')
			return false;
	return name.len > 0 && name.len <= LIMIT_NODE_NAME_BYTES;
}

/* Takes @moved_to, the host where the work goes on; NULL: at none. */
static void set_draining(
	struct client *client, const struct jsonrpc_request *request, bool draining, char *moved_to)
{
	struct service *service = client->service;
	struct json_text json;
	int64_t calls = 0;

	if (service->draining != draining || moved_to)
		log_about(LOG_INFO, LOG_FIELDS(uid_field(client)), "uid %u: %s%s",
			(unsigned)client->peer.uid,
			moved_to   ? "work goes on at "
			: draining ? "new calls are refused"
				   : "new calls are accepted again",
			moved_to ? moved_to : "");
	service->draining = draining;
	free(service->moved_to);
	service->moved_to = moved_to;
	service->moves += moved_to != NULL;
	audit_act(service->audit, &client->peer, draining ? "drain" : "resume",
		moved_to ? text_from(moved_to) : (struct text){NULL, 0}, "done");
	if (request->notification)
		return;
	call_foreach(count_call, &calls);
	client_answer_begin(client, &json, request->id_text);
	json_text_put_bool(&json, "draining", draining);
	if (moved_to)
		json_text_put(&json, "moved_to", moved_to);
	json_text_put_number(&json, "calls", calls);
	client_answer_end(client, &json);
}

void control_drain(struct client *client, struct jsonrpc_request *request)
{
	char *moved_to = NULL;
	struct text node;

	if (!client_string_param(request->params, "moved_to", &node) ||
		(node.data && !is_node(node))) {
		control_refuse(client, request, TOOL_INVALID_ARGUMENTS, NODE_SENTENCE);
		return;
	}
	if (node.data && !(moved_to = strndup(node.data, node.len))) {
		control_refuse(client, request, TOOL_BUSY, "Out of memory");
		return;
	}
	set_draining(client, request, true, moved_to);
}

void control_resume(struct client *client, struct jsonrpc_request *request)
{
	set_draining(client, request, false, NULL);
}

void control_reload(struct client *client, struct jsonrpc_request *request)
{
	_cleanup_free_ char *first = NULL, *message = NULL;
	struct service *service = client->service;
	struct json_text json;
	int r;

	if (!service->config_reload) {
		control_refuse(client, request, TOOL_NOT_FOUND,
			"There is no configuration file: cloisterd was started without --config");
		return;
	}
	r = config_reload_now(service->config_reload, &first);
	audit_act(service->audit, &client->peer, "reload", (struct text){NULL, 0},
		r < 0 ? tool_error_name(TOOL_EXECUTION_ERROR) : "done");
	if (r < 0) {
		if (asprintf(&message,
			    "The configuration was not reloaded and the old one stays in use: %s; "
			    "the log lists every mistake",
			    first ? first : "it cannot be read") < 0)
			message = NULL;
		control_refuse(client, request, TOOL_EXECUTION_ERROR,
			message ? message : tool_error_sentence(TOOL_EXECUTION_ERROR));
		return;
	}
	if (request->notification)
		return;
	client_answer_begin(client, &json, request->id_text);
	json_text_put_uint64(&json, "tenants", service->config->n_tenants);
	client_answer_end(client, &json);
}
