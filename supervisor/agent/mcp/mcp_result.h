/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The result of a task of MCP, as JSON, from the beginning of the task until it is forgotten. The
 * results that tasks keep have a bound for each tenant, and count as unread answers. Runs in
 * cloisterd; the output of a command is hostile.
 */

#include "supervisor/call/result/observation.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct evbuffer;
struct client_reply;
struct tenant;
struct unread_account;

struct mcp_result {
	struct tenant *tenant; /* held: it counts for this one */
	struct unread_account *account;
	char *json; /* NULL: it has not come, or memory was out */
	size_t len;
	size_t counted; /* bytes counted for it */
};

/** Whether @tenant may have one more task, and keep its result. */
bool mcp_result_has_room(const struct tenant *tenant);

/** Begins to count a task for @tenant. Room for a small result is its own from now on. */
void mcp_result_open(
	struct mcp_result *result, struct tenant *tenant, struct unread_account *account);

/** Returns how much of @room and of its reservation the result may take. */
uint64_t mcp_result_room(const struct mcp_result *result, uint64_t room);

/** Writes @observation in the form of @reply. Returns NULL, or an empty buffer, without memory. */
struct evbuffer *mcp_result_write(
	const struct client_reply *reply, const struct observation *observation);

#define MCP_RESULT_ERROR_SIZE 512
/** Says in words why @observation failed, or nothing, in @buffer. */
void mcp_result_error(
	const struct observation *observation, char buffer[static MCP_RESULT_ERROR_SIZE]);

/** Returns the text that is kept in place of @observation if there is no room for that. */
struct observation mcp_result_untold(const struct observation *observation);

/**
 * Takes the content of @buffer (NULL: nothing), which counts from now on with @besides bytes more.
 * Returns 0; -ENOBUFS if there is no room for it, and then nothing has changed.
 */
int mcp_result_keep(struct mcp_result *result, struct evbuffer *buffer, size_t besides);

/** Returns the JSON, borrowed; data is NULL if there is none. */
struct text mcp_result_peek(const struct mcp_result *result);

/** Frees the kept result, which then no longer counts. */
void mcp_result_done(struct mcp_result *result);
