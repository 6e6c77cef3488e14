// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. After the answer the client's socket belongs to a process of the workspace
 * (worker/commands/forward.h), and cloisterd does not have it any more: no byte of the stream goes
 * through it. What listens is the kernel's word, so that the answer needs no other process. The
 * client is authenticated and hostile.
 */
#include "supervisor/agent/agent_methods.h"

#include "common/config/config_type.h"
#include "common/limits.h"
#include "supervisor/agent/agent_moved.h"
#include "supervisor/agent/agent_refused.h"
#include "supervisor/agent/agent_workspace.h"
#include "supervisor/agent/session/session_params.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/refusal.h"
#include "supervisor/config/config.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/workspace/network/forwards.h"
#include "supervisor/workspace/network/listening.h"
#include "supervisor/workspace/workspace.h"

static bool is_allowed(const struct client *client, const struct workspace *workspace, int64_t port,
	const struct tenant **ret)
{
	*ret = client_tenant(client, text_from(workspace_tenant(workspace)->name));
	return *ret && (uint64_t)port >= CONFIG_PORTS_LOW((*ret)->forward_ports) &&
	       (uint64_t)port <= CONFIG_PORTS_HIGH((*ret)->forward_ports);
}

/* Whether the port is refused; and if not, in @ret_where, at which address it listens. */
static enum tool_error refuses(struct client *client, struct workspace *workspace, int64_t port,
	enum listens *ret_where, struct refusal *ret)
{
	enum tool_error error = agent_refusal(client, workspace, ret);
	const struct tenant *tenant;

	if (error != TOOL_OK)
		return error;
	if (!is_allowed(client, workspace, port, &tenant) || workspace_is_proxy(workspace, port))
		return refusal_set(ret, TOOL_FORBIDDEN,
			"This port may not be forwarded; forward_ports in the tenant's "
			"configuration says which may");
	*ret_where = workspace_listens(workspace, (uint16_t)port, 0);
	if (!workspace_serves_forwards(workspace) || *ret_where == LISTENS_NOT)
		return refusal_set(ret, TOOL_NOT_FOUND,
			"Nothing listens at this port of 127.0.0.1 or ::1 in the workspace; start "
			"the server as a session and wait for it with {\"port\":…} in until of "
			"session.read");
	if (workspace_forwards_full(workspace))
		return refusal_set(ret, TOOL_BUSY,
			"As many connections to ports of this workspace or tenant as there may "
			"be are open; close one and try again");
	if (*ret_where == LISTENS_UNKNOWN && workspace_tells_ports(workspace))
		return refusal_set(ret, TOOL_BUSY,
			"Too many ports of this workspace are asked for at once; try again");
	return TOOL_OK;
}

static void forward(struct client *client, const struct jsonrpc_request *request,
	struct workspace *workspace, uint16_t port, bool ipv6)
{
	const struct client_connection *connection = &client->connection;
	struct json_text json;
	int fd;

	audit_forward(client->service->audit, &client->peer, workspace, port);
	client_answer_begin(client, &json, request->id_text);
	json_text_put(&json, "workspace", workspace_name(workspace));
	json_text_put_number(&json, "port", port);
	client_answer_end(client, &json);
	/* Without it the connection ends, which is what the client is told by it. */
	fd = connection->give(connection->context);
	if (fd >= 0)
		(void)workspace_forward(workspace, port, ipv6, fd);
}

static void act_on_forward(struct client *client, const struct jsonrpc_request *request,
	struct workspace *workspace, int64_t port)
{
	enum listens where = LISTENS_UNKNOWN;
	struct refusal refusal = {0};
	enum tool_error error = refuses(client, workspace, port, &where, &refusal);

	if (error == TOOL_OK) {
		forward(client, request, workspace, (uint16_t)port, where == LISTENS_AT_IPV6);
	} else {
		agent_call_refused(client, workspace, "workspace.forward", tool_error_name(error),
			refusal_text(&refusal));
		if (error == TOOL_BUSY)
			client_answer_busy(client, request->id_text, refusal_text(&refusal));
		else if (error == TOOL_MOVED)
			client_answer_moved(client, request->id_text, &refusal);
		else
			client_answer_error(client, request->id_text, JSONRPC_SERVER_ERROR,
				refusal_text(&refusal), tool_error_name(error));
	}
	refusal_done(&refusal);
}

void method_workspace_forward(struct client *client, struct jsonrpc_request *request)
{
	const struct client_connection *connection = &client->connection;
	struct workspace *workspace;
	struct text name;
	int64_t port = 0;

	/* Without an answer the client would not know where the stream begins. */
	if (request->notification)
		return;
	if (!client_string_param(request->params, "workspace", &name)) {
		answer_wrong(client, request, "workspace must be a string");
		return;
	}
	if (!number_param(request->params, "port", 1, UINT16_MAX, &port) || port == 0) {
		answer_wrong(client, request, "port must be a number from 1 to 65535");
		return;
	}
	if (client_calls(client) > 0 || !connection->may_give ||
		!connection->may_give(connection->context)) {
		answer_wrong(client, request,
			"workspace.forward must be the only request of its connection: wait for "
			"the answers to others first, and for its own before anything is sent");
		return;
	}
	workspace = agent_hold_or_answer(client, request, name);
	if (!workspace)
		return;
	act_on_forward(client, request, workspace, port);
	workspace_release(workspace);
}
