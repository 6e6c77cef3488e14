// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/agent/mcp_task.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "supervisor/agent/mcp_result.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/timer.h"
#include "supervisor/call/call.h"
#include "supervisor/schedule/admission.h"

#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define META_RELATED "io.modelcontextprotocol/related-task"

#define ID_BYTES      (MCP_TASK_ID_SIZE / 2) /* random, and so not to be guessed */
#define MESSAGE_BYTES 256                    /* of the sentence that says why one failed */

struct mcp_task {
	TAILQ_ENTRY(mcp_task) link;
	char id[MCP_TASK_ID_SIZE];
	uint64_t number; /* later ones of the connection have higher ones */
	struct session *session;
	struct session_call *call; /* NULL: it has not begun, or it is over */
	struct mcp_task_told told;
	bool begun;
	bool over;     /* the result is there */
	bool fetched;  /* the client has been given it */
	int64_t began; /* as clock_now() */
	char message[MESSAGE_BYTES + 1];
	struct mcp_result result;
	LIST_HEAD(, mcp_task_waiter) waiting;
	struct timer expiry; /* when it is over: until it is forgotten */
};

static const char *const status_names[] = {
	[MCP_TASK_WORKING] = "working",
	[MCP_TASK_COMPLETED] = "completed",
	[MCP_TASK_FAILED] = "failed",
	[MCP_TASK_CANCELLED] = "cancelled",
};

const char *mcp_task_status_name(enum mcp_task_status status)
{
	return status_names[status];
}

static void forget(struct mcp_task *task)
{
	assert(!task->call && LIST_EMPTY(&task->waiting));
	timer_cancel(&task->expiry);
	mcp_result_done(&task->result);
	TAILQ_REMOVE(&task->session->tasks, task, link);
	task->session->n_tasks--;
	free(task);
}

static void on_expiry(void *context)
{
	forget(context);
}

static bool has_room(struct session *session)
{
	return session->n_tasks < LIMIT_TASKS_PER_CONNECTION &&
	       mcp_result_has_room(session->counted);
}

/* Forgets the oldest task whose result the client has. Returns whether there was one. */
static bool forget_fetched(struct session *session)
{
	struct mcp_task *task;

	TAILQ_FOREACH (task, &session->tasks, link)
		if (task->fetched) {
			forget(task);
			return true;
		}
	return false;
}

int mcp_task_make_id(char id[static MCP_TASK_ID_SIZE])
{
	uint8_t bytes[ID_BYTES];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -errno;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(id + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

struct mcp_task *mcp_task_new(struct session *session, int64_t ttl_ms, struct refusal *ret_refusal)
{
	struct admission *admission = &session->service->admission;
	struct mcp_task *task;

	while (!has_room(session))
		if (!forget_fetched(session)) {
			admission_refuse_session(admission, ADMISSION_TASKS, ret_refusal);
			return NULL;
		}
	if (unread_room(session_unread(session)) < LIMIT_TASK_RESULT_BYTES) {
		admission_answers_unread(admission, session->counted, ret_refusal);
		return NULL;
	}
	task = calloc(1, sizeof(*task));
	if (!task || mcp_task_make_id(task->id) < 0) {
		free(task);
		refusal_set(ret_refusal, TOOL_BUSY, "Out of memory");
		ret_refusal->retry_after_ms = admission_shortage(admission, session->counted);
		return NULL;
	}
	LIST_INIT(&task->waiting);
	timer_init(&task->expiry, on_expiry, task);
	task->told.id = task->id;
	task->told.message = task->message;
	task->session = session;
	task->number = ++session->last_task;
	task->told.ttl_ms = ttl_ms;
	task->began = clock_now();
	task->told.created_ms = task->told.changed_ms = clock_unix_ms();
	TAILQ_INSERT_TAIL(&session->tasks, task, link);
	session->n_tasks++;
	mcp_result_open(&task->result, session->counted, session_unread(session));
	return task;
}

void mcp_task_begin(struct mcp_task *task, struct session_call *call)
{
	task->begun = true;
	task->call = call;
}

void mcp_task_release(struct mcp_task *task)
{
	task->call = NULL;
	if (!task->begun)
		forget(task);
}

uint64_t mcp_task_room(const struct mcp_task *task, uint64_t room)
{
	return mcp_result_room(&task->result, room);
}

static void set_status(struct mcp_task *task, enum mcp_task_status status, struct text message)
{
	task->told.status = status;
	task->told.changed_ms = clock_unix_ms();
	message = utf8_cut(message, MESSAGE_BYTES);
	if (message.len > 0)
		memcpy(task->message, message.data, message.len);
	task->message[message.len] = '\0';
}

/* It is kept as long as the client asked for, and for a moment to be fetched in any case. */
static void set_expiry(struct mcp_task *task)
{
	const int64_t left = task->told.ttl_ms - (clock_now() - task->began) / CLOCK_NS_PER_MS;

	timer_set(&task->expiry, left > LIMIT_TASK_FETCH_MS ? left : LIMIT_TASK_FETCH_MS);
}

int mcp_task_finish(struct mcp_task *task, struct evbuffer *buffer, struct text error)
{
	const bool changes = task->told.status == MCP_TASK_WORKING;
	int r;

	assert(!task->over);
	r = mcp_result_keep(&task->result, buffer, sizeof(*task));
	if (r < 0)
		return r;
	task->begun = task->over = true;
	if (changes)
		set_status(task, error.len > 0 ? MCP_TASK_FAILED : MCP_TASK_COMPLETED, error);
	set_expiry(task);
	return changes;
}

void mcp_task_wake(struct mcp_task *task)
{
	struct mcp_task_waiter *waiter;

	while ((waiter = LIST_FIRST(&task->waiting))) {
		LIST_UNLINK(waiter, link);
		waiter->act(waiter, task);
	}
}

void mcp_task_cancel(struct mcp_task *task)
{
	set_status(task, MCP_TASK_CANCELLED, TEXT_LITERAL("The client cancelled it"));
	/* This may end the call, and so finish the task. */
	if (task->call)
		call_cancel(task->call->call, ENDED_BY_CANCEL);
}

struct mcp_task *mcp_task_find(struct session *session, struct text id)
{
	struct mcp_task *task;

	TAILQ_FOREACH (task, &session->tasks, link)
		if (text_equal(id, text_from(task->id)))
			return task;
	return NULL;
}

const struct mcp_task *mcp_task_next(
	const struct session *session, uint64_t after, uint64_t *ret_number)
{
	const struct mcp_task *task;

	TAILQ_FOREACH (task, &session->tasks, link)
		if (task->number > after) {
			*ret_number = task->number;
			return task;
		}
	return NULL;
}

enum mcp_task_status mcp_task_status(const struct mcp_task *task)
{
	return task->told.status;
}

bool mcp_task_is_over(const struct mcp_task *task)
{
	return task->over;
}

struct text mcp_task_peek(const struct mcp_task *task)
{
	return mcp_result_peek(&task->result);
}

void mcp_task_set_fetched(struct mcp_task *task)
{
	task->fetched = true;
}

void mcp_task_wait(struct mcp_task *task, struct mcp_task_waiter *waiter)
{
	LIST_LINK_HEAD(&task->waiting, waiter, link);
}

static void put_time(struct json_text *json, const char *key, int64_t unix_ms)
{
	const time_t seconds = (time_t)(unix_ms / 1000);
	char buffer[40];
	struct tm tm;
	size_t len = gmtime_r(&seconds, &tm) ? strftime(buffer, 24, "%Y-%m-%dT%H:%M:%S", &tm) : 0;

	snprintf(buffer + len, sizeof(buffer) - len, ".%03uZ", (unsigned)(unix_ms % 1000));
	json_text_put(json, key, buffer);
}

void mcp_task_put_told(struct json_text *json, const struct mcp_task_told *told,
	const char *ttl_key, const char *poll_key)
{
	json_text_put(json, "taskId", told->id);
	json_text_put(json, "status", status_names[told->status]);
	if (*told->message)
		json_text_put(json, "statusMessage", told->message);
	put_time(json, "createdAt", told->created_ms);
	put_time(json, "lastUpdatedAt", told->changed_ms);
	json_text_put_number(json, ttl_key, told->ttl_ms);
	json_text_put_number(json, poll_key, MCP_TASK_POLL_MS);
}

void mcp_task_put(struct json_text *json, const struct mcp_task *task)
{
	mcp_task_put_told(json, &task->told, "ttl", "pollInterval");
}

void mcp_task_put_related(struct json_text *json, const struct mcp_task *task)
{
	json_text_key(json, "_meta");
	json_text_object_begin(json);
	json_text_key(json, META_RELATED);
	json_text_object_begin(json);
	json_text_put(json, "taskId", task->id);
	json_text_object_end(json);
	json_text_object_end(json);
}

void mcp_tasks_leave(struct session *session)
{
	while (!TAILQ_EMPTY(&session->tasks))
		forget(TAILQ_FIRST(&session->tasks));
}
