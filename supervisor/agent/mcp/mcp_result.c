// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/agent/mcp/mcp_result.h"

#include "common/limits.h"
#include "supervisor/base/json_text.h"
#include "supervisor/config/tenant.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/schedule/unread.h"
#include "supervisor/schedule/usage.h"

#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>

/* What tasks hold counts as answers that are not read. */
static void count_result_bytes(struct mcp_result *result, size_t bytes)
{
	result->tenant->usage->task_bytes += bytes - result->counted;
	unread_recount(result->account, &result->counted, bytes);
}

bool mcp_result_has_room(const struct tenant *tenant)
{
	return tenant->usage->tasks < LIMIT_TASKS_TENANT &&
	       tenant->usage->task_bytes + LIMIT_TASK_RESULT_BYTES <= LIMIT_TASKS_TENANT_BYTES;
}

void mcp_result_open(
	struct mcp_result *result, struct tenant *tenant, struct unread_account *account)
{
	*result = (struct mcp_result){.tenant = tenant_hold(tenant), .account = account};
	tenant->usage->tasks++;
	count_result_bytes(result, LIMIT_TASK_RESULT_BYTES);
}

uint64_t mcp_result_room(const struct mcp_result *result, uint64_t room)
{
	const uint64_t others = result->tenant->usage->task_bytes - result->counted;
	const uint64_t left =
		others < LIMIT_TASKS_TENANT_BYTES ? LIMIT_TASKS_TENANT_BYTES - others : 0;

	room += result->counted;
	return room < left ? room : left;
}

struct evbuffer *mcp_result_write(
	const struct client_reply *reply, const struct observation *observation)
{
	struct evbuffer *buffer = evbuffer_new();
	struct json_text json = json_text(buffer);

	if (!buffer)
		return NULL;
	reply->form->write(&json, reply, observation);
	if (json_text_flush(&json) < 0)
		evbuffer_drain(buffer, evbuffer_get_length(buffer));
	return buffer;
}

void mcp_result_error(
	const struct observation *observation, char buffer[static MCP_RESULT_ERROR_SIZE])
{
	const struct text message = observation_message(observation);

	buffer[0] = '\0';
	if (observation->error != TOOL_OK)
		snprintf(buffer, MCP_RESULT_ERROR_SIZE, "%s: %.*s",
			tool_error_name(observation->error), (int)message.len, message.data);
}

struct observation mcp_result_untold(const struct observation *observation)
{
	return (struct observation){
		.tool = observation->tool,
		.error = TOOL_EXECUTION_ERROR,
		.message = TEXT_LITERAL("The command has ended, but there is no room to keep its "
					"result"),
		.wall_us = observation->wall_us,
	};
}

int mcp_result_keep(struct mcp_result *result, struct evbuffer *buffer, size_t besides)
{
	const size_t len = buffer ? evbuffer_get_length(buffer) : 0;

	if (besides + len > mcp_result_room(result, unread_tenant_room(result->account)))
		return -ENOBUFS;
	result->json = len > 0 ? malloc(len) : NULL;
	if (result->json) {
		result->len = len;
		evbuffer_remove(buffer, result->json, len);
	}
	count_result_bytes(result, besides + result->len);
	return 0;
}

struct text mcp_result_peek(const struct mcp_result *result)
{
	return (struct text){result->json, result->len};
}

void mcp_result_done(struct mcp_result *result)
{
	count_result_bytes(result, 0);
	result->tenant->usage->tasks--;
	tenant_release(result->tenant);
	free(result->json);
}
