// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The client is authenticated and hostile, and so is the process of the call. */
#include "supervisor/agent/tool/tool_answer.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/agent/agent_refused.h"
#include "supervisor/agent/answer_room.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/call.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/call/result/observation.h"
#include "supervisor/connection/client_state.h"

void tool_call_answer(struct client *client, const char *id_text, const struct client_reply *reply,
	const struct observation *observation)
{
	struct json_text json;

	if (reply->form->take) {
		reply->form->take(client, id_text, reply, observation);
		return;
	}
	client_value_begin(client, &json, id_text);
	reply->form->write(&json, reply, observation);
	client_value_end(client, &json);
}

const struct observation *tool_call_fit(const struct client_call *call,
	const struct observation *observation, struct observation *ret_short,
	struct refusal *ret_refusal)
{
	const enum reader reader = call->reply.form->reader;
	/* A program's copy of what was counted when it came takes no more. */
	const bool takes_more = observation->io || observation->kept || reader != READER_PROGRAM;
	const uint64_t room =
		takes_more ? unread_tenant_room(client_unread(call->client)) : UINT64_MAX;

	if (observation->io)
		answer_room_cut(observation->io, reader, room);
	if (!takes_more || answer_room_fits(observation, reader, room))
		return observation;
	*ret_short = (struct observation){
		.tool = observation->tool, .error = TOOL_BUSY, .wall_us = observation->wall_us};
	if (observation->made) {
		/* BUSY would say that nothing was done. */
		ret_short->error = TOOL_EXECUTION_ERROR;
		ret_short->message = TEXT_LITERAL(OBSERVATION_UNTOLD);
	} else {
		admission_answers_unread(
			&call->client->service->admission, call->client->counted, ret_refusal);
		ret_short->message = text_from(refusal_text(ret_refusal));
		ret_short->retry_after_ms = ret_refusal->retry_after_ms;
	}
	return ret_short;
}

/* Answers a request that never became a call with an observation. */
static void answer_refused(struct client *client, const struct jsonrpc_request *request,
	const struct client_reply *reply, const struct call_refusal *refusal)
{
	struct observation observation = {
		.tool = text_from(refusal->tool ? refusal->tool : ""),
		.error = refusal->why.error,
		.message = text_from(refusal_text(&refusal->why)),
		.retry_after_ms = refusal->why.retry_after_ms,
		.node = refusal->why.node,
		.notes = &refusal->notes,
	};

	if (refusal->why.error == TOOL_BUSY && refusal->why.retry_after_ms == 0)
		observation.retry_after_ms = admission_shortage(&client->service->admission, NULL);
	call_stats_refused(&client->service->stats, refusal->why.error);
	tool_call_answer(client, request->id_text, reply, &observation);
}

void tool_call_refuse(struct client *client, const struct jsonrpc_request *request,
	const struct workspace *workspace, const struct client_reply *reply,
	struct call_refusal *refusal)
{
	agent_call_refused(client, workspace, refusal->tool,
		refusal->why.error == TOOL_OK ? "INVALID_PARAMS"
					      : tool_error_name(refusal->why.error),
		refusal->why.error == TOOL_OK ? refusal->why.message : refusal_text(&refusal->why));
	if (request->notification)
		;
	else if (refusal->why.error == TOOL_OK)
		client_answer_error(client, request->id_text, JSONRPC_INVALID_PARAMS,
			refusal->why.message ? refusal->why.message : "Out of memory", NULL);
	else if (refusal->why.error == TOOL_MOVED && reply->form->program_moves)
		client_answer_moved(client, request->id_text, &refusal->why);
	else
		answer_refused(client, request, reply, refusal);
	call_refusal_done(refusal);
}

bool tool_call_is_twice(struct client *client, const struct jsonrpc_request *request)
{
	if (!request->id_text || (!client_find_call(client, request->id_text) &&
					 !client_find_waiting(client, request->id_text)))
		return false;
	agent_call_refused(client, NULL, NULL, "INVALID_REQUEST", NULL);
	client_answer_error(client, request->id_text, JSONRPC_INVALID_REQUEST,
		"A call with this id is in flight on this connection", NULL);
	return true;
}

static void on_followed(void *context, const struct observation *observation)
{
	struct client_call *call = context;
	struct observation in_short;
	_cleanup_(refusal_done) struct refusal refusal = {0};

	observation = tool_call_fit(call, observation, &in_short, &refusal);
	tool_call_answer(call->client, call->id_text, &call->reply, observation);
	client_free_call(call);
}

bool tool_call_follow(struct client_call *first, struct workspace *workspace,
	struct call_request *call_request, const struct client_reply *reply, size_t bytes)
{
	struct client *client = first->client;
	struct client_call *call = calloc(1, sizeof(*call));
	struct call_owner owner = {.done = on_followed, .context = call};

	if (!call) {
		call_request_done(call_request);
		return false;
	}
	owner.unread = client_unread(client);
	call_request->uid = client->peer.uid;
	call_request->gid = client->peer.gid;
	call_request->pid = client->peer.pid;
	call_request->memory += bytes;
	call->client = client;
	call->reply = *reply;
	call->id_text = TAKE_PTR(first->id_text);
	client_add_call(client, call, call_request->memory);
	if (call_start(client->service, workspace, call_request, &owner, &call->call) == 0)
		return true;
	first->id_text = TAKE_PTR(call->id_text);
	call->reply = (struct client_reply){0};
	client_free_call(call);
	return false;
}
