// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/agent/mcp_task.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/timer.h"
#include "supervisor/call/call.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/admission.h"
#include "supervisor/schedule/usage.h"

#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define META_RELATED "io.modelcontextprotocol/related-task"

#define ID_BYTES      16  /* random, and so not to be guessed */
#define MESSAGE_BYTES 256 /* of the sentence that says why one failed */
#define POLL_MS       1000

struct mcp_task {
	TAILQ_ENTRY(mcp_task) link;
	char id[2 * ID_BYTES + 1];
	uint64_t number; /* later ones of the connection have higher ones */
	struct session *session;
	struct tenant *tenant;     /* held: it counts for this one */
	struct session_call *call; /* NULL: it has not begun, or it is over */
	enum mcp_task_status status;
	bool begun;
	bool over;    /* the result is there */
	bool fetched; /* the client has been given it */
	int64_t ttl_ms;
	int64_t began;                  /* as clock_now() */
	int64_t created_ms, changed_ms; /* as clock_unix_ms() */
	char message[MESSAGE_BYTES + 1];
	char *result; /* JSON; NULL with over: memory was out */
	size_t len;
	size_t counted; /* bytes counted for it */
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

/* What tasks hold counts as answers that are not read. */
static void count(struct mcp_task *task, size_t bytes)
{
	task->tenant->usage->task_bytes += bytes - task->counted;
	unread_recount(session_unread(task->session), &task->counted, bytes);
}

static void forget(struct mcp_task *task)
{
	assert(!task->call && LIST_EMPTY(&task->waiting));
	timer_cancel(&task->expiry);
	count(task, 0);
	task->tenant->usage->tasks--;
	tenant_release(task->tenant);
	TAILQ_REMOVE(&task->session->tasks, task, link);
	task->session->n_tasks--;
	free(task->result);
	free(task);
}

static void on_expiry(void *context)
{
	forget(context);
}

static bool has_room(struct session *session)
{
	const struct tenant_usage *usage = session->counted->usage;

	return session->n_tasks < LIMIT_TASKS_PER_CONNECTION && usage->tasks < LIMIT_TASKS_TENANT &&
	       usage->task_bytes + LIMIT_TASK_RESULT_BYTES <= LIMIT_TASKS_TENANT_BYTES;
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

static int make_id(char *id)
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
	if (!task || make_id(task->id) < 0) {
		free(task);
		refusal_set(ret_refusal, TOOL_BUSY, "Out of memory");
		ret_refusal->retry_after_ms = admission_shortage(admission, session->counted);
		return NULL;
	}
	LIST_INIT(&task->waiting);
	timer_init(&task->expiry, on_expiry, task);
	task->session = session;
	task->number = ++session->last_task;
	task->ttl_ms = ttl_ms;
	task->began = clock_now();
	task->created_ms = task->changed_ms = clock_unix_ms();
	task->tenant = tenant_hold(session->counted);
	task->tenant->usage->tasks++;
	TAILQ_INSERT_TAIL(&session->tasks, task, link);
	session->n_tasks++;
	count(task, LIMIT_TASK_RESULT_BYTES);
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
	const uint64_t others = task->tenant->usage->task_bytes - task->counted;
	const uint64_t left =
		others < LIMIT_TASKS_TENANT_BYTES ? LIMIT_TASKS_TENANT_BYTES - others : 0;

	room += task->counted;
	return room < left ? room : left;
}

static void set_status(struct mcp_task *task, enum mcp_task_status status, struct text message)
{
	task->status = status;
	task->changed_ms = clock_unix_ms();
	message = utf8_cut(message, MESSAGE_BYTES);
	if (message.len > 0)
		memcpy(task->message, message.data, message.len);
	task->message[message.len] = '\0';
}

/* It is kept as long as the client asked for, and for a moment to be fetched in any case. */
static void set_expiry(struct mcp_task *task)
{
	const int64_t left = task->ttl_ms - (clock_now() - task->began) / CLOCK_NS_PER_MS;

	timer_set(&task->expiry, left > LIMIT_TASK_FETCH_MS ? left : LIMIT_TASK_FETCH_MS);
}

int mcp_task_finish(struct mcp_task *task, struct evbuffer *buffer, struct text error)
{
	const size_t len = buffer ? evbuffer_get_length(buffer) : 0;
	const bool changes = task->status == MCP_TASK_WORKING;

	assert(!task->over);
	if (sizeof(*task) + len >
		mcp_task_room(task, unread_tenant_room(session_unread(task->session))))
		return -ENOBUFS;
	task->result = len > 0 ? malloc(len) : NULL;
	if (task->result) {
		task->len = len;
		evbuffer_remove(buffer, task->result, len);
	}
	count(task, sizeof(*task) + task->len);
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
	return task->status;
}

bool mcp_task_is_over(const struct mcp_task *task)
{
	return task->over;
}

struct text mcp_task_peek(const struct mcp_task *task)
{
	return (struct text){task->result, task->len};
}

void mcp_task_set_fetched(struct mcp_task *task)
{
	task->fetched = true;
}

void mcp_task_wait(struct mcp_task *task, struct mcp_task_waiter *waiter)
{
	LIST_LINK_HEAD(&task->waiting, waiter, link);
}

/* By RFC 3339, in UTC. */
static void put_time(struct json_text *json, const char *key, int64_t unix_ms)
{
	const time_t seconds = (time_t)(unix_ms / 1000);
	char buffer[40];
	struct tm tm;
	size_t len = gmtime_r(&seconds, &tm) ? strftime(buffer, 24, "%Y-%m-%dT%H:%M:%S", &tm) : 0;

	snprintf(buffer + len, sizeof(buffer) - len, ".%03uZ", (unsigned)(unix_ms % 1000));
	json_text_put(json, key, buffer);
}

void mcp_task_put(struct json_text *json, const struct mcp_task *task)
{
	json_text_put(json, "taskId", task->id);
	json_text_put(json, "status", status_names[task->status]);
	if (task->message[0])
		json_text_put(json, "statusMessage", task->message);
	put_time(json, "createdAt", task->created_ms);
	put_time(json, "lastUpdatedAt", task->changed_ms);
	json_text_put_number(json, "ttl", task->ttl_ms);
	json_text_put_number(json, "pollInterval", POLL_MS);
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
