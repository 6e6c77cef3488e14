// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. A client of the control socket is an administrator, who may do what the table
 * says, or an observer, who may only look and may be hostile. The user that cloisterd runs as could
 * send it SIGHUP, and may reload it without a role, as the unit's ExecReload= does. Other clients
 * are not admitted. No method here reaches into a workspace, and the agent socket's methods do not
 * exist here.
 */
#include "supervisor/control/control_endpoint.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/config/config.h"
#include "supervisor/control/control.h"
#include "supervisor/control/control_events.h"
#include "supervisor/control/control_methods.h"
#include "supervisor/control/control_network.h"
#include "supervisor/control/control_selftest.h"

static bool control_admits(const struct config *config, const struct peer_credentials *peer)
{
	return peer_auth_role(config, peer) > CONTROL_ROLE_NONE || peer_auth_is_own(peer);
}

/* Observers cannot take all connections, so an administrator always gets in. */
static enum tool_error control_refuses(
	struct service *service, const struct peer_credentials *peer, struct refusal *ret_refusal)
{
	bool acts = peer_auth_role(service->config, peer) >= CONTROL_ROLE_ADMIN ||
		    peer_auth_is_own(peer);

	if (service->control_connections <
		(acts ? LIMIT_CONTROL_CONNECTIONS : LIMIT_CONTROL_CONNECTIONS / 2))
		return TOOL_OK;
	refusal_set(ret_refusal, TOOL_BUSY, "Too many connections; try again later");
	ret_refusal->retry_after_ms = LIMIT_RETRY_MIN_MS;
	return TOOL_BUSY;
}

static int authorize(struct client *client)
{
	client_take_config(client);
	client->role = peer_auth_role(client->config, &client->peer);
	client->admitted = control_admits(client->config, &client->peer);
	return 0;
}

static void leave_control(struct client *client)
{
	control_events_leave(client);
	control_selftest_leave(client);
}

static const struct endpoint_method methods[] = {
	{"status", control_status, {NULL}, .role = CONTROL_ROLE_OBSERVER},
	{"health", control_health, {NULL}, .role = CONTROL_ROLE_OBSERVER},
	{"workspaces", control_workspaces, {NULL}, .role = CONTROL_ROLE_OBSERVER},
	{"commands", control_commands, {NULL}, .role = CONTROL_ROLE_OBSERVER},
	{"sessions", control_sessions, {NULL}, .role = CONTROL_ROLE_OBSERVER},
	{"tenants", control_tenants, {NULL}, .role = CONTROL_ROLE_OBSERVER},
	{"show", control_show, {"call", "workspace", "tenant"}, .role = CONTROL_ROLE_OBSERVER},
	{"doctor", control_doctor, {NULL}, .role = CONTROL_ROLE_OBSERVER},
	{"metrics", control_metrics, {"format"}, .role = CONTROL_ROLE_OBSERVER},
	{"denials", control_denials, {"tenant"}, .role = CONTROL_ROLE_OBSERVER},
	{"templates", control_templates, {"tenant"}, .role = CONTROL_ROLE_OBSERVER},
	{"events", control_events, {NULL}, .role = CONTROL_ROLE_OBSERVER},
	{"kill", control_kill, {"call", "session", "workspace", "tenant"},
		.role = CONTROL_ROLE_ADMIN},
	{"template.import", control_template_import, {"template", "path", "tenant", "replace"},
		.role = CONTROL_ROLE_ADMIN},
	{"template.remove", control_template_remove, {"template", "tenant"},
		.role = CONTROL_ROLE_ADMIN},
	{"drain", control_drain, {"moved_to"}, .role = CONTROL_ROLE_ADMIN},
	{"resume", control_resume, {NULL}, .role = CONTROL_ROLE_ADMIN},
	{"selftest", control_selftest, {NULL}, .role = CONTROL_ROLE_ADMIN},
	{"reload", control_reload, {NULL}, .role = CONTROL_ROLE_ADMIN, .own_user = true},
};

const struct endpoint control_endpoint = {
	.name = "control",
	.errors = &error_form_native,
	.admits = control_admits,
	.refuses = control_refuses,
	.authorize = authorize,
	.leave = leave_control,
	.methods = methods,
	.n_methods = ARRAY_SIZE(methods),
	.connections = offsetof(struct service, control_connections),
	.line_bytes = LIMIT_CONTROL_LINE_BYTES,
};
