// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: workspace.checkpoint, .checkpoints and .rollback. The client is authenticated
 * and hostile.
 */
#include "supervisor/agent/method_checkpoint.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/agent/agent_moved.h"
#include "supervisor/agent/agent_refused.h"
#include "supervisor/agent/agent_workspace.h"
#include "supervisor/agent/session/session_params.h"
#include "supervisor/agent/workspace_pending.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/unix_time.h"
#include "supervisor/call/service.h"
#include "supervisor/config/tenant.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/session/session_use.h"
#include "supervisor/workspace/layers/workspace_layers.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

/* A checkpoint or rollback on its way. */
struct change {
	struct client_pending pending; /* first: it is freed as such */
	bool is_rollback;
	uint32_t number;
};

void checkpoint_refuse(struct client *client, const struct jsonrpc_request *request,
	const char *method, struct text name, const struct refusal *refusal)
{
	agent_workspace_refused(client, method, name, refusal);
	answer_refusal(client, request->id_text, refusal);
}

struct workspace *checkpoint_workspace(
	struct client *client, const struct jsonrpc_request *request, const char *method)
{
	struct workspace *workspace;
	struct text name;

	if (!agent_text_param(client, request, "workspace", &name))
		return NULL;
	workspace = agent_hold_workspace(client, name);
	if (!workspace)
		checkpoint_refuse(client, request, method, name,
			&(struct refusal){.error = TOOL_WORKSPACE_NOT_FOUND,
				.sentence = agent_no_workspace(name.data != NULL)});
	return workspace;
}

/* The sessions that run in a workspace, as a sentence. */
struct names {
	const struct workspace *workspace;
	char text[256];
	size_t len;
};

static void name_session(void *context, const struct session *session)
{
	struct names *names = context;
	struct session_info info;
	int n;

	session_get_info(session, &info);
	if (info.state == SESSION_ENDED ||
		strcmp(info.workspace, workspace_name(names->workspace)) != 0 ||
		strcmp(info.tenant->name, workspace_tenant(names->workspace)->name) != 0)
		return;
	n = snprintf(names->text + names->len, sizeof(names->text) - names->len, "%s%s",
		names->len > 0 ? ", " : "", info.id);
	/* More than fits is left out: each is ended by its own request anyway. */
	if ((size_t)n < sizeof(names->text) - names->len)
		names->len += (size_t)n;
	else
		names->text[names->len] = '\0';
}

/* A session would lose the files under its feet, and its cell with them. */
static enum tool_error check_sessions(
	const struct workspace *workspace, struct refusal *ret_refusal)
{
	struct names names = {.workspace = workspace};

	if (session_count(workspace) == 0)
		return TOOL_OK;
	session_foreach(name_session, &names);
	return refusal_format(ret_refusal, TOOL_BUSY,
		"Sessions run in the workspace (%s): end them with session.end, and try again",
		names.text);
}

enum tool_error checkpoint_refusal(
	const struct client *client, struct workspace *workspace, struct refusal *ret)
{
	enum tool_error error = agent_refusal(client, workspace, ret);

	/* It would be made of files that another generation may have changed when calls end. */
	if (error == TOOL_OK)
		error = agent_retires(client, NULL, ret);
	if (error == TOOL_OK)
		error = agent_has_room(client, ret);
	return error == TOOL_OK ? check_sessions(workspace, ret) : error;
}

static void on_swapped(void *context, enum tool_error error, const char *why)
{
	struct change *change = context;
	struct client_pending *pending = &change->pending;
	struct workspace *workspace = pending->workspace;
	struct tenant_usage *usage = workspace_tenant(workspace)->usage;
	struct json_text json;

	if (error == TOOL_OK && change->is_rollback)
		usage->rollbacks++;
	else if (error == TOOL_OK)
		usage->checkpoints++;
	if (error == TOOL_OK)
		audit_checkpoint(pending->audit,
			change->is_rollback ? "workspace.rolled_back" : "workspace.checkpointed",
			pending->client ? &pending->client->peer : NULL, workspace, change->number);
	if (pending_answer_begin(pending, error, why, &json)) {
		json_text_put_number(&json, "checkpoint", change->number);
		pending_answer_end(pending, &json);
	}
	pending_free(pending);
}

/* Begins what @change is; takes the hold of @workspace. */
static void begin_checkpoint(struct client *client, struct jsonrpc_request *request,
	struct workspace *workspace, const struct change *wanted, struct text label)
{
	const char *method = wanted->is_rollback ? "workspace.rollback" : "workspace.checkpoint";
	struct change *change = calloc(1, sizeof(*change));
	_cleanup_(refusal_done) struct refusal refusal = {0};
	enum tool_error error = change ? checkpoint_refusal(client, workspace, &refusal)
				       : refusal_set(&refusal, TOOL_BUSY, "Out of memory");

	if (error == TOOL_OK) {
		*change = *wanted;
		error = change->is_rollback ? workspace_roll_back(workspace, change->number,
						      on_swapped, change, &refusal)
					    : workspace_checkpoint(workspace, label, on_swapped,
						      change, &change->number, &refusal);
	}
	if (error != TOOL_OK) {
		checkpoint_refuse(
			client, request, method, text_from(workspace_name(workspace)), &refusal);
		workspace_release(workspace);
		free(change);
		return;
	}
	change->pending.workspace = workspace;
	pending_begin(&change->pending, client, request);
}

static bool is_label(struct text label)
{
	if (label.len > LIMIT_CHECKPOINT_LABEL_BYTES)
		return false;
	for (size_t i = 0; i < label.len; i++)
		if ((unsigned char)label.data[i] < ' ' || label.data[i] == 0x7f)
			return false;
	return true;
}

static void answer_wrong_label(struct client *client, const struct jsonrpc_request *request)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};

	(void)refusal_format(&refusal, TOOL_INVALID_ARGUMENTS,
		"label must be a string of at most %d bytes without control characters",
		LIMIT_CHECKPOINT_LABEL_BYTES);
	answer_refusal(client, request->id_text, &refusal);
}

void method_workspace_checkpoint(struct client *client, struct jsonrpc_request *request)
{
	const struct change wanted = {.is_rollback = false};
	struct workspace *workspace;
	struct text label;

	if (!client_string_param(request->params, "label", &label) || !is_label(label)) {
		answer_wrong_label(client, request);
		return;
	}
	workspace = checkpoint_workspace(client, request, "workspace.checkpoint");
	if (workspace)
		begin_checkpoint(client, request, workspace, &wanted, label);
}

void method_workspace_rollback(struct client *client, struct jsonrpc_request *request)
{
	struct change wanted = {.is_rollback = true};
	struct workspace *workspace;
	int64_t to = 0;

	if (!number_param(request->params, "to", 1, (int64_t)LIMIT_LAYER_NUMBER + 1, &to) ||
		to == 0) {
		answer_refused(client, request->id_text, TOOL_INVALID_ARGUMENTS,
			"to must be the number of a checkpoint, as "
			"workspace.checkpoints lists them");
		return;
	}
	wanted.number = (uint32_t)to;
	workspace = checkpoint_workspace(client, request, "workspace.rollback");
	if (workspace)
		begin_checkpoint(client, request, workspace, &wanted, (struct text){NULL, 0});
}

static void put_checkpoint(void *context, const struct checkpoint_info *checkpoint)
{
	struct json_text *json = context;
	char made[RFC3339_BYTES];

	json_text_object_begin(json);
	json_text_put_number(json, "checkpoint", checkpoint->number);
	json_text_put_text(json, "label", checkpoint->label);
	json_text_put(json, "created", rfc3339_seconds(checkpoint->made_ms, made));
	json_text_object_end(json);
}

void method_workspace_checkpoints(struct client *client, struct jsonrpc_request *request)
{
	struct workspace *workspace =
		checkpoint_workspace(client, request, "workspace.checkpoints");
	struct json_text json;

	if (workspace && request->id_text) {
		client_answer_begin(client, &json, request->id_text);
		json_text_put(&json, "workspace", workspace_name(workspace));
		json_text_put_array(&json, "checkpoints");
		/* Those that cannot be listed are missing; the rest of the service goes on. */
		(void)workspace_each_checkpoint(workspace, put_checkpoint, &json);
		json_text_array_end(&json);
		client_answer_end(client, &json);
	}
	workspace_release(workspace);
}
