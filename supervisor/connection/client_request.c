// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: from a line to the method that acts on it. The client is authenticated and
 * hostile: the table of its endpoint says which methods it has and which role each needs.
 */
#include "supervisor/connection/client_request.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/audit/audit.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/connection/line_id.h"
#include "supervisor/connection/unauthorized_client.h"

#include <errno.h>
#include <stdio.h>

/* Returns whether the client is still authorized; otherwise answers @request with a refusal. */
static bool is_admitted(struct client *client, const struct jsonrpc_request *request)
{
	bool out_of_memory = client->config != client->service->config &&
			     client->endpoint->authorize(client) < 0;

	if (!out_of_memory && client->admitted)
		return true;
	if (!request->notification && out_of_memory)
		client_answer_busy(client, request->id_text, "Out of memory");
	else if (!request->notification)
		client_answer_error(client, request->id_text, JSONRPC_SERVER_ERROR,
			UNAUTHORIZED_CLIENT_MESSAGE, tool_error_name(TOOL_FORBIDDEN));
	if (!out_of_memory)
		client->connection.end(client->connection.context);
	return false;
}

static const struct endpoint_method *find_method(const struct endpoint *endpoint, struct text name)
{
	for (size_t i = 0; i < endpoint->n_methods; i++)
		if (text_equal(name, text_from(endpoint->methods[i].name)))
			return &endpoint->methods[i];
	return NULL;
}

static void refuse_client_request(struct client *client, const struct jsonrpc_request *request,
	enum jsonrpc_code code, const char *message, const char *data_code)
{
	if (!request->notification)
		client_answer_error(client, request->id_text, code, message, data_code);
}

/* Returns whether the method has seen the request. */
static bool act_on_request(struct client *client, struct jsonrpc_request *request,
	const struct endpoint_method *method)
{
	const char *unknown = NULL;
	char message[128];

	if (!is_admitted(client, request))
		return false;
	if (!method) {
		refuse_client_request(
			client, request, JSONRPC_METHOD_NOT_FOUND, "There is no such method", NULL);
		return false;
	}
	if (client->role < method->role && !(method->own_user && peer_auth_is_own(&client->peer))) {
		audit_act(client->service->audit, &client->peer, method->name,
			(struct text){NULL, 0}, tool_error_name(TOOL_FORBIDDEN));
		refuse_client_request(client, request, JSONRPC_SERVER_ERROR,
			method->role < CONTROL_ROLE_ADMIN
				? "Only members of the admin and observer groups may do this"
				: "Only a member of the admin group may do this",
			tool_error_name(TOOL_FORBIDDEN));
		return false;
	}
	if (method->of_tenant && client->bound.workspace) {
		refuse_client_request(client, request, JSONRPC_SERVER_ERROR,
			"This connection is bound to one workspace",
			tool_error_name(TOOL_FORBIDDEN));
		return false;
	}
	if (!method->own_params)
		unknown = jsonrpc_unknown_param(request->params, method->params);
	if (unknown) {
		snprintf(message, sizeof(message), "Unknown parameter \"%.64s\"", unknown);
		refuse_client_request(client, request, JSONRPC_INVALID_PARAMS, message, NULL);
		return false;
	}
	method->act(client, request);
	return true;
}

/*
 * Returns the memory for values made from the current line of @len bytes. The line itself counts
 * against the service's memory, but not against the tenant's.
 */
static size_t memory_for_values(const struct client *client, size_t len)
{
	uint64_t of_all = service_memory_left(client->service, NULL, 0);
	size_t left = client_memory_left(client, len);

	if (left > of_all)
		left = of_all > client_own_left(client) ? (size_t)of_all : client_own_left(client);
	return left;
}

/*
 * Returns the memory for values made from a part of a request that is freed then; the request has
 * @taken of @memory. The tenant's limit applies again with the next request.
 */
static size_t memory_for_more(const struct client *client, size_t memory, size_t taken)
{
	uint64_t of_all = service_memory_left(client->service, NULL, 0);
	size_t left = memory - taken;

	return of_all > taken && of_all - taken > left ? (size_t)(of_all - taken) : left;
}

/* Refuses a request for lack of memory, under its id. */
static void refuse_for_memory(struct client *client, struct text line, int error)
{
	_cleanup_free_ char *id_text = line_id_find(line);

	if (error == -ENOBUFS)
		client_refuse_line(client, false, id_text);
	else
		client_answer_busy(client, id_text, "Out of memory; try again later");
}

/* A line that does not parse may still show its id, without which no client knows its call. */
static void answer_fault(struct client *client, struct text line, const struct jsonrpc_fault *fault)
{
	_cleanup_free_ char *shown = fault->code == JSONRPC_PARSE_ERROR ? line_id_find(line) : NULL;

	client_answer_error(
		client, shown ? shown : fault->id_text, fault->code, fault->message, NULL);
}

/*
 * A line was refused before it was known whether it has a payload: ends the connection of a client
 * that sends payloads.
 */
static void lose_line(struct client *client)
{
	if (client->sends_payloads)
		client->connection.end(client->connection.context);
}

void client_line(struct client *client, struct text line)
{
	struct jsonrpc_request request;
	struct jsonrpc_fault fault;
	size_t memory = memory_for_values(client, line.len);
	int r = jsonrpc_parse(line, memory, &request, &fault);

	if (r == 0) {
		const struct endpoint_method *method =
			find_method(client->endpoint, request.method);

		client->request_bytes = request.memory;
		client->request_left = memory_for_more(client, memory, request.memory);
		client->errors = method ? method->errors : NULL;
		client->speaks_mcp |= client->errors != NULL;
		if (!act_on_request(client, &request, method) && method && method->has_payload)
			lose_line(client);
		client->errors = NULL;
		jsonrpc_request_free(&request);
	} else if (r == -EBADMSG) {
		if (!fault.notification)
			answer_fault(client, line, &fault);
		jsonrpc_fault_free(&fault);
		lose_line(client);
	} else {
		refuse_for_memory(client, line, r);
		lose_line(client);
	}
}

void client_refuse_line(struct client *client, bool too_long, const char *id_text)
{
	char message[160];

	if (!too_long) {
		client_answer_busy(client, id_text,
			"The requests in flight use all the memory that they may use; try again "
			"when calls have been answered");
		lose_line(client);
		return;
	}
	snprintf(message, sizeof(message),
		"The message is longer than the %zu bytes that this socket accepts; send it in "
		"parts",
		client->endpoint->line_bytes);
	client_answer_error(client, id_text, JSONRPC_INVALID_REQUEST, message, NULL);
	lose_line(client);
}
