/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tasks of MCP 2025-11-25: a tools/call that is answered at once, and whose result is kept until
 * the client asks for it. The call behind a task is a call like any other; only its answer goes
 * into the task. Tasks belong to their connection: no other finds them, and they end with it. Runs
 * in cloisterd; clients are hostile.
 */

#include "supervisor/rpc/session_state.h"

struct json_object;
struct mcp_task;

enum mcp_task_status {
	MCP_TASK_WORKING,
	MCP_TASK_COMPLETED,
	MCP_TASK_FAILED,
	MCP_TASK_CANCELLED,
};

#define MCP_TASK_POLL_MS 1000 /* how often a client is to ask */

/* Somebody waits for the result. */
struct mcp_task_waiter {
	LIST_ENTRY(mcp_task_waiter) link;
	/* The result is there. Takes @waiter out, and frees it. */
	void (*act)(struct mcp_task_waiter *waiter, struct mcp_task *task);
};

/**
 * Makes a task of @session that is kept for @ttl_ms after now. Room for a small result is its own
 * from now on. Returns NULL with @ret_refusal if there is no room for one more.
 */
struct mcp_task *mcp_task_new(struct session *session, int64_t ttl_ms, struct refusal *ret_refusal);

/** Its call has begun: the client may be told of it. */
void mcp_task_begin(struct mcp_task *task, struct session_call *call);

/** No call of it runs any more. A task that has not begun is freed. */
void mcp_task_release(struct mcp_task *task);

/** Returns how much of @room its result may take, and of what is reserved for it. */
uint64_t mcp_task_room(const struct mcp_task *task, uint64_t room);

/**
 * Keeps the result of its call, the JSON in @buffer, which is emptied. @error (empty: none) is in
 * words why the call failed. Returns 1 if the status has changed by it, otherwise 0; -ENOBUFS if
 * the result is larger than the room for it, and then nothing has changed.
 */
int mcp_task_finish(struct mcp_task *task, struct evbuffer *buffer, struct text error);

/** Tells those who wait that the result is there. */
void mcp_task_wake(struct mcp_task *task);

/** Ends its call. The result comes when that is over. */
void mcp_task_cancel(struct mcp_task *task);

/** Returns the client's task called @id, or NULL. */
struct mcp_task *mcp_task_find(struct session *session, struct text id);

/**
 * Returns the first task of @session that is younger than the one with the number @after, or NULL.
 * Stores the number of the one that is returned.
 */
const struct mcp_task *mcp_task_next(
	const struct session *session, uint64_t after, uint64_t *ret_number);

enum mcp_task_status mcp_task_status(const struct mcp_task *task);
const char *mcp_task_status_name(enum mcp_task_status status);

/** Whether its result is there. That of a cancelled one comes when its call is over. */
bool mcp_task_is_over(const struct mcp_task *task);

/** Returns its result as JSON, borrowed; data is NULL if memory was out. */
struct text mcp_task_peek(const struct mcp_task *task);
/** The client has been given the result: if there is no room for others, it may be forgotten. */
void mcp_task_set_fetched(struct mcp_task *task);

/** Its result is not there yet: @waiter gets it. */
void mcp_task_wait(struct mcp_task *task, struct mcp_task_waiter *waiter);

#define MCP_TASK_ID_SIZE 33 /* 128 random bits in hexadecimal digits, and a NUL */
/** Makes an id that cannot be guessed. Returns 0 or -errno. */
int mcp_task_make_id(char id[static MCP_TASK_ID_SIZE]);

/* What a client is told of a task, in both protocols. */
struct mcp_task_told {
	const char *id;
	enum mcp_task_status status;
	const char *message;            /* empty: none */
	int64_t created_ms, changed_ms; /* as clock_unix_ms() */
	int64_t ttl_ms;
};

/** Writes @told inside the object of a task; the protocols name two of its members differently. */
void mcp_task_put_told(struct json_text *json, const struct mcp_task_told *told,
	const char *ttl_key, const char *poll_key);

/** Writes the members of MCP's Task, inside its object. */
void mcp_task_put(struct json_text *json, const struct mcp_task *task);

/** Writes the member _meta that says which task a message belongs to. */
void mcp_task_put_related(struct json_text *json, const struct mcp_task *task);

/** Endpoint's leave: the client is gone, its calls are lost. Frees its tasks. */
void mcp_tasks_leave(struct session *session);
