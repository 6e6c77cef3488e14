// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The methods of the agent socket, native ones and MCP's, in one table each. A
 * method that is not in a table does not exist on that socket.
 */
#include "supervisor/agent/agent_endpoint.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/agent/agent_methods.h"
#include "supervisor/agent/mcp/mcp.h"
#include "supervisor/agent/mcp/mcp_call.h"
#include "supervisor/agent/mcp/mcp_ext_task_methods.h"
#include "supervisor/agent/method_checkpoint.h"
#include "supervisor/agent/method_diff.h"
#include "supervisor/agent/method_template.h"
#include "supervisor/agent/method_watch.h"
#include "supervisor/agent/method_workspace.h"
#include "supervisor/agent/session/method_session_tell.h"
#include "supervisor/agent/tool/method_input.h"
#include "supervisor/agent/tool/method_tool.h"
#include "supervisor/agent/tool/tool_transaction.h"
#include "supervisor/config/config.h"
#include "supervisor/connection/agent_conn.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/schedule/admission.h"

#include <stddef.h>

static bool admits(const struct config *config, const struct peer_credentials *peer)
{
	return peer_auth_first(config, peer) || peer_auth_is_gate(config, peer);
}

static enum tool_error refuses(
	struct service *service, const struct peer_credentials *peer, struct refusal *ret_refusal)
{
	bool is_gate = peer_auth_is_gate(service->config, peer);

	/* The gate's user has the connections of many tenants; connection.bind counts them. */
	return admission_refuses_connection(&service->admission, service->config,
		service->connections, is_gate ? NULL : peer_auth_first(service->config, peer),
		is_gate ? 0 : agent_conns_of_user(&agent_endpoint, peer->uid), ret_refusal);
}

/*
 * In MCP an error that belongs to no request has no id, and revision 2026-07-28 reserves the error
 * codes that JSON-RPC leaves to servers.
 */
static const struct error_form error_form_mcp = {jsonrpc_no_id, JSONRPC_INTERNAL_ERROR};

/* The rows of an endpoint's table. */
/* clang-format off */
#define MCP_METHODS                                                                                \
	{"initialize", mcp_initialize, .own_params = true, .errors = &error_form_mcp},             \
	{"ping", mcp_ping, .own_params = true, .errors = &error_form_mcp},                         \
	{"server/discover", mcp_discover, .own_params = true, .errors = &error_form_mcp},          \
	{"tools/list", mcp_tools_list, .own_params = true, .errors = &error_form_mcp},             \
	{"tools/call", mcp_tools_call, .own_params = true, .errors = &error_form_mcp},             \
	{"tasks/get", mcp_tasks_get, .own_params = true, .errors = &error_form_mcp},               \
	{"tasks/cancel", mcp_tasks_cancel, .own_params = true, .errors = &error_form_mcp},         \
	{"tasks/update", mcp_tasks_update, .own_params = true, .errors = &error_form_mcp},         \
	{"notifications/cancelled", mcp_cancelled, .own_params = true, .errors = &error_form_mcp}, \
	{"notifications/initialized", mcp_initialized, .own_params = true, .errors = &error_form_mcp}
/* clang-format on */

static const struct endpoint_method methods[] = {
	{"connection.bind", method_connection_bind, .params = {"tenant", "workspace", "key"}},
	{"tool.call", method_tool_call, .own_params = true},
	{"tool.cancel", method_tool_cancel, .params = {"id"}},
	{"tool.input", method_tool_input, .params = {"id", "data", "encoding", "bytes", "eof"},
		.has_payload = true},
	{"tools.list", method_tools_list, .params = {"format", "limits", "workspace"}},
	{"session.start", method_session_start,
		.params = {"workspace", "command", "name", "env", "cwd", "stdin", "lifetime_ms",
			"output_bytes", "pty", "blocked_list", "key"}},
	{"session.read", method_session_read,
		.params = {"session", "after", "max_bytes", "wait_ms", "until", "encoding"}},
	{"session.write", method_session_write,
		.params = {"session", "at", "data", "encoding", "eof"}},
	{"session.resize", method_session_resize, .params = {"session", "rows", "cols"}},
	{"session.signal", method_session_signal, .params = {"session", "signal", "to"}},
	{"session.end", method_session_end, .params = {"session", "grace_ms"}},
	{"session.attach", method_session_attach, .params = {"session", "after", "encoding"}},
	{"session.detach", method_session_detach, .params = {"session"}},
	{"session.list", method_session_list, .params = {NULL}},
	{"workspace.open", method_workspace_open,
		.params = {"workspace", "root", "kind", "tenant", "protocol", "structured_content",
			"tools", "create", "network", "moving", "labels", "lease", "shown_at",
			"env"}},
	{"workspace.update", method_workspace_update,
		.params = {"workspace", "tenant", "labels", "lease", "env", "network"}},
	{"workspace.forward", method_workspace_forward, .params = {"workspace", "port"}},
	{"workspace.close", method_workspace_close, .params = {"workspace", "tenant"}},
	{"workspace.list", method_workspace_list,
		.params = {"workspace", "labels", "state", "cursor", "limit"}},
	{"workspace.remove", method_workspace_remove, .params = {"workspace", "tenant"}},
	{"workspace.checkpoint", method_workspace_checkpoint, .params = {"workspace", "label"}},
	{"workspace.checkpoints", method_workspace_checkpoints, .params = {"workspace"}},
	{"workspace.diff", method_workspace_diff, .params = {"workspace", "since", "patch"}},
	{"file.stat", method_file,
		.params = {"workspace", "path", "path_base64", "timeout_ms", "follow",
			"attributes"}},
	{"file.list", method_file,
		.params = {"workspace", "path", "path_base64", "timeout_ms", "depth", "limit",
			"attributes"}},
	{"file.make_directory", method_file,
		.params = {"workspace", "path", "path_base64", "timeout_ms", "mode", "parents"}},
	{"file.move", method_file,
		.params = {"workspace", "path", "path_base64", "timeout_ms", "to", "replace",
			"parents"}},
	{"file.remove", method_file,
		.params = {"workspace", "path", "path_base64", "timeout_ms", "recursive"}},
	{"file.read", method_file,
		.params = {"workspace", "path", "path_base64", "timeout_ms", "offset", "length",
			"attributes", "encoding"}},
	{"file.write", method_file,
		.params = {"workspace", "path", "path_base64", "timeout_ms", "mode", "create_dirs",
			"expect", "durability", "attributes"}},
	{"file.watch", method_file,
		.params = {"workspace", "path", "path_base64", "timeout_ms", "recursive",
			"entries"}},
	{"file.unwatch", method_file_unwatch, .params = {"watch"}},
	{"workspace.rollback", method_workspace_rollback, .params = {"workspace", "to"}},
	{"transaction.commit", method_transaction_commit, .params = {"workspace"}},
	{"transaction.discard", method_transaction_discard, .params = {"workspace"}},
	{"workspace.freeze", method_workspace_freeze,
		.params = {"workspace", "template", "replace"}, .of_tenant = true},
	{"template.list", method_template_list, .params = {"tenant"}, .of_tenant = true},
	{"template.remove", method_template_remove, .params = {"template", "tenant"},
		.of_tenant = true},
	{"workspace.fork", method_workspace_fork,
		.params = {"from", "count", "prefix", "kind", "tenant", "labels", "lease",
			"shown_at", "env"},
		.of_tenant = true},
	MCP_METHODS,
};

static const struct endpoint_method mcp_methods[] = {MCP_METHODS};

/* The methods of a connection that speaks only MCP. */
static const struct endpoint mcp_endpoint = {
	.name = "agent",
	.began_as = &agent_endpoint,
	.errors = &error_form_mcp,
	.admits = admits,
	.refuses = refuses,
	.authorize = client_authorize,
	.methods = mcp_methods,
	.n_methods = ARRAY_SIZE(mcp_methods),
	.connections = offsetof(struct service, connections),
	.line_bytes = LIMIT_LINE_BYTES,
};

const struct endpoint agent_endpoint = {
	.name = "agent",
	.mcp = &mcp_endpoint,
	.errors = &error_form_native,
	.admits = admits,
	.refuses = refuses,
	.authorize = client_authorize,
	.methods = methods,
	.n_methods = ARRAY_SIZE(methods),
	.connections = offsetof(struct service, connections),
	.line_bytes = LIMIT_LINE_BYTES,
};
