// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The client may leave before the workspace is ready. */
#include "supervisor/agent/workspace_pending.h"

#include "common/cleanup.h"
#include "common/links.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/service.h"
#include "supervisor/rpc/session_state.h"
#include "supervisor/workspace/workspaces.h"

#include <assert.h>
#include <stdlib.h>

void answer_refusal(struct session *session, const char *id_text, const struct refusal *refusal)
{
	bool params = refusal->error == TOOL_INVALID_ARGUMENTS;

	if (!id_text)
		return;
	if (refusal->error == TOOL_BUSY) {
		session_answer_not_now(session, id_text, refusal);
		return;
	}
	if (refusal->error == TOOL_MOVED) {
		session_answer_moved(session, id_text, refusal);
		return;
	}
	session_answer_error(session, id_text,
		params ? JSONRPC_INVALID_PARAMS : JSONRPC_SERVER_ERROR, refusal_text(refusal),
		params ? NULL : tool_error_name(refusal->error));
}

void pending_free(struct session_pending *pending)
{
	if (pending->session) {
		LIST_UNLINK(pending, link);
		assert(pending->session->n_pending > 0);
		pending->session->n_pending--;
	}
	root_look_forget(pending->look);
	workspace_release(pending->workspace);
	free(pending->id_text);
	free(pending->tenant);
	free(pending->path);
	free(pending->allow);
	free(pending);
}

void pending_leave(struct session_pending *pending)
{
	LIST_UNLINK(pending, link);
	assert(pending->session->n_pending > 0);
	pending->session->n_pending--;
	pending->session = NULL;
	if (!pending->workspace)
		pending_free(pending);
}

bool pending_answer_begin(const struct session_pending *pending, enum tool_error error,
	const char *why, struct json_text *json)
{
	if (!pending->session || !pending->id_text)
		return false;
	if (error != TOOL_OK) {
		answer_refusal(pending->session, pending->id_text,
			&(struct refusal){.error = error, .sentence = why});
		return false;
	}
	session_answer_begin(pending->session, json, pending->id_text);
	json_text_object_begin(json);
	json_text_put(json, "workspace", workspace_name(pending->workspace));
	return true;
}

void pending_answer_end(const struct session_pending *pending, struct json_text *json)
{
	json_text_object_end(json);
	session_answer_end(pending->session, json);
}

void pending_begin(
	struct session_pending *pending, struct session *session, struct jsonrpc_request *request)
{
	pending->session = session;
	pending->leave = pending_leave;
	pending->id_text = TAKE_PTR(request->id_text);
	pending->service = session->service;
	pending->audit = session->service->audit;
	LIST_LINK_HEAD(&session->pending, pending, link);
	session->n_pending++;
}
