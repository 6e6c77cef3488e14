// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The client is authenticated and hostile, and so is the files process that
 * compares. The call, and the comparison after it, are calls like any others.
 */
#include "supervisor/agent/tool/tool_transaction.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "supervisor/agent/method_checkpoint.h"
#include "supervisor/agent/tool/tool_answer.h"
#include "supervisor/agent/workspace_pending.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/keys/key_result.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/call/result/model_text.h"
#include "supervisor/call/result/observation_json.h"
#include "supervisor/call/service.h"
#include "supervisor/config/tenant.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/layers/workspace_layers.h"
#include "supervisor/workspace/layers/workspace_preview.h"

#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <stdint.h>
#include <stdlib.h>

struct transaction {
	/* First: it is freed as such. It is in its session until it is over; id_text is that of the
	 * request that undoes it. */
	struct client_pending pending;
	enum {
		TRANSACTION_CALLING,
		TRANSACTION_COMPARING,
		TRANSACTION_OPEN, /* answered, and to be decided on */
		TRANSACTION_UNDOING,
	} state;
	bool closed;               /* its client has closed the workspace */
	uint32_t checkpoint;       /* before it */
	const struct tool *tool;   /* of the call */
	struct client_reply reply; /* of the call, while it compares */
	struct key_result kept;    /* the call's result, likewise */
};

static void done(struct transaction *transaction)
{
	client_reply_done(&transaction->reply);
	key_result_done(&transaction->kept);
	pending_free(&transaction->pending);
}

static void on_undone(void *context, enum tool_error error, const char *why)
{
	struct transaction *transaction = context;
	struct client_pending *pending = &transaction->pending;
	struct json_text json;

	if (error == TOOL_OK) {
		workspace_tenant(pending->workspace)->usage->discards++;
		audit_checkpoint(pending->audit, "workspace.discarded",
			pending->client ? &pending->client->peer : NULL, pending->workspace,
			transaction->checkpoint);
	}
	if (pending_answer_begin(pending, error, why, &json)) {
		json_text_put_bool(&json, "discarded", true);
		pending_answer_end(pending, &json);
	}
	if (error == TOOL_OK) {
		done(transaction);
		return;
	}
	/* Its client, or who needs the workspace next, has it tried again. */
	free(TAKE_PTR(pending->id_text));
	transaction->state = TRANSACTION_OPEN;
	if (!pending->client)
		workspace_preview_abandon(pending->workspace);
}

static void undo(struct transaction *transaction)
{
	struct workspace *workspace = transaction->pending.workspace;

	if (transaction->state == TRANSACTION_UNDOING)
		return;
	transaction->state = TRANSACTION_UNDOING;
	if (workspace_preview_forget(workspace))
		done(transaction);
	else
		workspace_preview_undo(workspace, on_undone, transaction);
}

static void leave_session(struct client_pending *pending)
{
	LIST_UNLINK(pending, link);
	assert(pending->client->n_pending > 0);
	pending->client->n_pending--;
	pending->client = NULL;
}

/* The client is gone, and its calls have been cancelled. */
static void leave_transaction(struct client_pending *pending)
{
	leave_session(pending);
	undo((struct transaction *)pending);
}

void tool_transaction_close(struct client *client, struct workspace *workspace)
{
	struct transaction *transaction =
		(struct transaction *)client_find_preview(client, workspace);

	if (!transaction)
		return;
	transaction->closed = true;
	/* Otherwise its call is answered first. */
	if (transaction->state == TRANSACTION_OPEN)
		leave_transaction(&transaction->pending);
}

/* Whether it can be; a mistake of the program has an error of TOOL_OK. */
static enum tool_error check_transaction_begin(const struct client *client,
	const struct jsonrpc_request *request, struct workspace *workspace,
	const struct call_request *call_request, const struct client_reply *reply,
	struct refusal *ret)
{
	const char *message = NULL;

	if (reply->form->reader >= READER_MODEL_IMAGES)
		message = "options.transaction is for tool.call: MCP has no request that commits";
	else if (!request->id_text)
		message = "options.transaction needs a request with an id, which is answered";
	else if (call_request->args.background)
		message = "options.transaction cannot be used for a command in the background";
	if (message) {
		ret->message = strdup(message);
		return TOOL_OK;
	}
	if (workspace_kind(workspace) != WORKSPACE_MANAGED)
		return refusal_set(ret, TOOL_FORBIDDEN, WORKSPACE_NOT_MANAGED);
	return checkpoint_refusal(client, workspace, ret);
}

static bool is_preview(const struct call_request *request)
{
	/* An option that does not apply has no effect. */
	return request->options.preview && tool_changes_files(request->tool);
}

bool tool_transaction_refuses(struct client *client, const struct jsonrpc_request *request,
	struct workspace *workspace, struct call_request *call_request, struct client_reply *reply,
	struct call_refusal *ret_refusal)
{
	struct refusal *why = &ret_refusal->why;
	struct transaction *transaction;
	enum tool_error error;

	if (!is_preview(call_request))
		return false;
	error = check_transaction_begin(client, request, workspace, call_request, reply, why);
	transaction = error == TOOL_OK && !why->message ? calloc(1, sizeof(*transaction)) : NULL;
	if (error == TOOL_OK && !why->message && !transaction)
		error = refusal_set(why, TOOL_BUSY, "Out of memory");
	if (transaction)
		error = workspace_preview_begin(workspace, &transaction->checkpoint, why);
	if (error != TOOL_OK || !transaction) {
		free(transaction);
		ret_refusal->tool = strdup(call_request->tool->name);
		return true;
	}
	transaction->pending = (struct client_pending){.client = client,
		.leave = leave_transaction,
		.is_preview = true,
		.audit = client->service->audit,
		.workspace = workspace_hold(workspace)};
	LIST_LINK_HEAD(&client->pending, &transaction->pending, link);
	client->n_pending++;
	transaction->tool = call_request->tool;
	workspace_tenant(workspace)->usage->previews++;
	call_request->inside = true;
	reply->transaction = transaction;
	return false;
}

/* Its call is answered like any other, and there is nothing to decide on. */
static void give_up_transaction(struct client_reply *reply)
{
	struct transaction *transaction = TAKE_PTR(reply->transaction);

	leave_session(&transaction->pending);
	undo(transaction);
}

void tool_transaction_unbegun(struct client_reply *reply)
{
	if (reply->transaction)
		give_up_transaction(reply);
}

void tool_transaction_called(struct client_call *call)
{
	const struct transaction *transaction = call->reply.transaction;

	/* It could not be made; or the call has ended before, or its client has closed it. */
	if (transaction && transaction->state == TRANSACTION_CALLING &&
		!workspace_preview_is_open(transaction->pending.workspace))
		give_up_transaction(&call->reply);
}

bool tool_transaction_takes(const struct client_call *call)
{
	return call->reply.transaction && call->reply.transaction->state == TRANSACTION_CALLING;
}

/* Writes what has changed, or why that is not known. */
static void write_diff(struct json_text *json, const struct observation *diff)
{
	json_text_object_begin(json);
	if (diff->error == TOOL_OK) {
		observation_write_changes(json, diff);
	} else {
		json_text_put_object(json, "error");
		json_text_put(json, "code", tool_error_name(diff->error));
		json_text_put_text(json, "message", observation_message(diff));
		json_text_object_end(json);
	}
	json_text_object_end(json);
}

/* Answers the call. It is to be decided on from now on. */
static void answer_transaction(struct client *client, const char *id_text,
	const struct client_reply *reply, const struct observation *diff)
{
	struct transaction *transaction = reply->transaction;
	struct evbuffer *buffer = evbuffer_new();
	struct json_text json = json_text(buffer);
	struct observation observation = {.tool = text_from(transaction->tool->name),
		.error = transaction->kept.error,
		.base64 = transaction->kept.base64,
		.kept = &transaction->kept,
		.diff = buffer};

	transaction->state = TRANSACTION_OPEN;
	if (buffer)
		write_diff(&json, diff);
	/* Without memory the answer is incomplete, and its connection ends. */
	if (!buffer || json_text_flush(&json) < 0)
		client->connection.end(client->connection.context);
	else
		tool_call_answer(client, id_text, &transaction->reply, &observation);
	if (buffer)
		evbuffer_free(buffer);
	key_result_done(&transaction->kept);
	client_reply_done(&transaction->reply);
	if (transaction->closed)
		leave_transaction(&transaction->pending);
}

static const struct reply_form diff_form = {.take = answer_transaction, .program_moves = true};

void tool_transaction_take(struct client_call *call, const struct observation *observation)
{
	struct transaction *transaction = call->reply.transaction;
	struct workspace *workspace = transaction->pending.workspace;
	const struct client_reply reply = {.form = &diff_form, .transaction = transaction};
	const struct observation unknown = {
		.error = TOOL_BUSY, .message = TEXT_LITERAL("Out of memory")};
	struct call_request request;

	transaction->reply = call->reply;
	transaction->reply.transaction = NULL;
	call->reply = (struct client_reply){.form = &diff_form};
	/* Without memory the connection ends, and the preview with it. */
	if (model_text_keep(observation, SIZE_MAX, &transaction->kept) < 0) {
		call->client->connection.end(call->client->connection.context);
		return;
	}
	transaction->state = TRANSACTION_COMPARING;
	if (call_request_diff(NULL, workspace_tenant(workspace), transaction->checkpoint, false,
		    &request) < 0) {
		answer_transaction(call->client, call->id_text, &reply, &unknown);
		return;
	}
	request.inside = true;
	if (!tool_call_follow(call, workspace, &request, &reply,
		    transaction->kept.json.len + transaction->kept.model.len))
		answer_transaction(call->client, call->id_text, &reply, &unknown);
}

/* Finds the preview that the request decides on, or answers the request. */
static struct transaction *find_transaction(
	struct client *client, const struct jsonrpc_request *request, const char *method)
{
	struct workspace *workspace = checkpoint_workspace(client, request, method);
	struct transaction *transaction;
	struct refusal refusal = {.error = TOOL_NOT_FOUND,
		.sentence = "This connection has no preview in the workspace: a call with "
			    "options.transaction \"preview\" makes one, and it ends with its "
			    "connection"};

	if (!workspace)
		return NULL;
	transaction = (struct transaction *)client_find_preview(client, workspace);
	if (transaction && transaction->state == TRANSACTION_OPEN) {
		workspace_release(workspace);
		return transaction;
	}
	if (transaction)
		refusal = (struct refusal){.error = TOOL_BUSY,
			.sentence = transaction->state == TRANSACTION_UNDOING
					    ? "The preview is being undone"
					    : "The preview's call is not answered yet: wait for "
					      "it, or cancel it with tool.cancel"};
	checkpoint_refuse(client, request, method, text_from(workspace_name(workspace)), &refusal);
	workspace_release(workspace);
	return NULL;
}

void method_transaction_commit(struct client *client, struct jsonrpc_request *request)
{
	struct transaction *transaction = find_transaction(client, request, "transaction.commit");
	const char *unheard = audit_forbids(client->service->audit);
	struct refusal refusal = {.error = TOOL_BUSY, .sentence = unheard};
	struct client_pending *pending;
	struct json_text json;
	int r;

	if (!transaction)
		return;
	pending = &transaction->pending;
	r = unheard ? 0 : workspace_preview_keep(pending->workspace);
	if (r < 0)
		refusal.error = tool_error_from_errno(-r);
	if (unheard || r < 0) {
		checkpoint_refuse(client, request, "transaction.commit",
			text_from(workspace_name(pending->workspace)), &refusal);
		return;
	}
	workspace_tenant(pending->workspace)->usage->commits++;
	audit_checkpoint(pending->audit, "workspace.committed", &client->peer, pending->workspace,
		transaction->checkpoint);
	if (request->id_text) {
		client_answer_begin(client, &json, request->id_text);
		json_text_put(&json, "workspace", workspace_name(pending->workspace));
		json_text_put_number(&json, "checkpoint", transaction->checkpoint);
		client_answer_end(client, &json);
	}
	done(transaction);
}

void method_transaction_discard(struct client *client, struct jsonrpc_request *request)
{
	struct transaction *transaction = find_transaction(client, request, "transaction.discard");

	if (!transaction)
		return;
	transaction->pending.id_text = TAKE_PTR(request->id_text);
	undo(transaction);
}
