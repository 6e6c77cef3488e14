/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tasks of MCP's extension io.modelcontextprotocol/tasks (SEP-2663), for revision 2026-07-28: the
 * server decides which tools/call becomes one, and its client finds it again over any connection,
 * also after a crash. So a task belongs to its tenant, as a session does, and every connection that
 * may open its workspace may use it. Runs in cloisterd; clients are hostile.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

struct call;
struct call_request;
struct json_text;
struct mcp_ext_offer;
struct mcp_ext_task;
struct client;
struct client_call;

/**
 * Makes the offer that a call becomes a task if it takes long. @become does that, with the call
 * that the offer began for. Returns NULL if memory is out: the call is answered as others are.
 */
struct mcp_ext_offer *mcp_ext_offer_new(void (*become)(struct client_call *call));
void mcp_ext_offer_free(struct mcp_ext_offer *offer);

/** Whether the call of @request may become a task. */
bool mcp_ext_offer_fits(const struct call_request *request);

/** The call of the offer has begun as @call. */
void mcp_ext_offer_begin(struct mcp_ext_offer *offer, struct client_call *call);

/**
 * Makes a task of the call of @call, which is the connection's no more: the caller answers and
 * frees
 * @call. Returns NULL if there is no room for one, and then nothing has changed.
 */
struct mcp_ext_task *mcp_ext_task_take(struct client_call *call);

/** Returns the task called @id that the client of @client may use, or NULL. */
struct mcp_ext_task *mcp_ext_task_find(const struct client *client, struct text id);

/** A client asks for it: it is in use. */
void mcp_ext_task_touch(struct mcp_ext_task *task);

/** Ends its call. It is cancelled when nothing of the command is left. */
void mcp_ext_task_cancel(struct mcp_ext_task *task);

/** Writes the members of the extension's Task, inside its object. */
void mcp_ext_task_put(struct json_text *json, const struct mcp_ext_task *task);

/**
 * After these it writes the result or the error, if the status has one, of at most @room bytes.
 * Returns false, and has written nothing, if it needs more.
 */
bool mcp_ext_task_fits(const struct mcp_ext_task *task, uint64_t room);
void mcp_ext_task_put_outcome(struct json_text *json, struct mcp_ext_task *task);

/** Frees all, after their calls. */
void mcp_ext_tasks_free_all(void);
