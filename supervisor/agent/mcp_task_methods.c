// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/agent/mcp_task_methods.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "supervisor/agent/mcp.h"
#include "supervisor/agent/mcp_ext_task_methods.h"
#include "supervisor/agent/mcp_result.h"
#include "supervisor/agent/mcp_task.h"
#include "supervisor/base/json_build.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/observation.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/admission.h"

#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>

/* A tasks/result that waits. */
struct result_wait {
	struct session_pending pending;
	struct mcp_task_waiter waiter;
};

static void refuse(struct session *session, const struct jsonrpc_request *request,
	enum jsonrpc_code code, const char *message)
{
	session_answer_error(session, request->id_text, code, message, NULL);
}

static void answer_refusal(
	struct session *session, const char *id_text, const struct refusal *refusal)
{
	(void)jsonrpc_busy(session->connection.output, id_text, JSONRPC_INTERNAL_ERROR,
		refusal_text(refusal), refusal->retry_after_ms);
	session->connection.wrote(session->connection.context);
}

/* Whether @revision is the one that has tasks in its core; otherwise @request has been answered. */
static bool is_of_core(
	struct session *session, const struct jsonrpc_request *request, enum mcp_revision revision)
{
	if (revision != MCP_NONE && revision != MCP_2025_11_25)
		refuse(session, request, JSONRPC_METHOD_NOT_FOUND,
			"This method exists only in MCP 2025-11-25");
	return revision == MCP_2025_11_25;
}

/*
 * Returns whether @request is one of the revision that has tasks in its core. Otherwise it has been
 * answered, by @extension if it is one of the revision that has tasks in an extension (NULL: not
 * this method).
 */
static bool has_tasks(struct session *session, struct jsonrpc_request *request,
	void (*extension)(struct session *session, struct jsonrpc_request *request))
{
	const enum mcp_revision revision = mcp_revision_of(session, request);

	if (extension && revision == MCP_2026_07_28) {
		extension(session, request);
		return false;
	}
	return is_of_core(session, request, revision);
}

/* Returns the task that @request names, or NULL after answering. */
static struct mcp_task *named(struct session *session, const struct jsonrpc_request *request)
{
	struct mcp_task *task;
	struct text id;

	if (!session_string_param(request->params, "taskId", &id) || !id.data) {
		refuse(session, request, JSONRPC_INVALID_PARAMS,
			"Invalid params: taskId must be a string: the id of a task");
		return NULL;
	}
	task = mcp_task_find(session, id);
	if (!task)
		refuse(session, request, JSONRPC_INVALID_PARAMS,
			"Task not found: this connection never had it, or its ttl is over and it "
			"is forgotten; tasks/list has those that there are");
	return task;
}

static void answer_task(
	struct session *session, const struct jsonrpc_request *request, const struct mcp_task *task)
{
	struct json_text json;

	session_answer_begin(session, &json, request->id_text);
	json_text_object_begin(&json);
	mcp_task_put(&json, task);
	json_text_object_end(&json);
	session_answer_end(session, &json);
}

void mcp_tasks_get(struct session *session, struct jsonrpc_request *request)
{
	const struct mcp_task *task;

	if (!has_tasks(session, request, mcp_ext_tasks_get))
		return;
	task = named(session, request);
	if (task)
		answer_task(session, request, task);
}

void mcp_tasks_cancel(struct session *session, struct jsonrpc_request *request)
{
	struct mcp_task *task;
	char message[96];

	if (!has_tasks(session, request, mcp_ext_tasks_cancel))
		return;
	task = named(session, request);
	if (!task)
		return;
	if (mcp_task_status(task) != MCP_TASK_WORKING) {
		snprintf(message, sizeof(message),
			"Cannot cancel the task: its status is %s already",
			mcp_task_status_name(mcp_task_status(task)));
		refuse(session, request, JSONRPC_INVALID_PARAMS, message);
		return;
	}
	mcp_task_cancel(task);
	answer_task(session, request, task);
}

/* A page ends with the number of its last task, where the next one goes on. */
static bool read_cursor(const struct jsonrpc_request *request, uint64_t *ret_after)
{
	unsigned long long after;
	struct text cursor;
	char *end;

	*ret_after = 0;
	if (!session_string_param(request->params, "cursor", &cursor))
		return false;
	if (!cursor.data)
		return true;
	if (cursor.len == 0 || cursor.len > 19 || cursor.data[0] < '0' || cursor.data[0] > '9')
		return false;
	after = strtoull(cursor.data, &end, 10);
	*ret_after = after;
	return end == cursor.data + cursor.len;
}

void mcp_tasks_list(struct session *session, struct jsonrpc_request *request)
{
	const struct mcp_task *task;
	struct json_text json;
	uint64_t after, number;
	char cursor[24];

	if (!has_tasks(session, request, NULL))
		return;
	if (!read_cursor(request, &after) || after > session->last_task) {
		refuse(session, request, JSONRPC_INVALID_PARAMS,
			"Invalid params: cursor must be the nextCursor of an earlier answer");
		return;
	}
	session_answer_begin(session, &json, request->id_text);
	json_text_object_begin(&json);
	json_text_key(&json, "tasks");
	json_text_array_begin(&json);
	for (size_t i = 0; i < LIMIT_TASKS_LISTED; i++) {
		task = mcp_task_next(session, after, &number);
		if (!task)
			break;
		json_text_object_begin(&json);
		mcp_task_put(&json, task);
		json_text_object_end(&json);
		after = number;
	}
	json_text_array_end(&json);
	if (mcp_task_next(session, after, &number)) {
		snprintf(cursor, sizeof(cursor), "%llu", (unsigned long long)after);
		json_text_put(&json, "nextCursor", cursor);
	}
	json_text_object_end(&json);
	session_answer_end(session, &json);
}

/* A result is kept until its time is over, so what has no room now can be asked for again. */
static void answer_result(struct session *session, const char *id_text, struct mcp_task *task)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct text result = mcp_task_peek(task);
	struct json_text json;

	if (!result.data) {
		session_answer_error(session, id_text, JSONRPC_INTERNAL_ERROR,
			"The command has ended, but there was no memory for its result", NULL);
		return;
	}
	if (result.len > unread_tenant_room(session_unread(session))) {
		admission_answers_unread(&session->service->admission, session->counted, &refusal);
		answer_refusal(session, id_text, &refusal);
		return;
	}
	mcp_task_set_fetched(task);
	session_answer_begin(session, &json, id_text);
	json_text_raw(&json, result);
	session_answer_end(session, &json);
}

/* Takes @wait out of its session, and frees it. */
static void drop(struct result_wait *wait)
{
	struct session *session = wait->pending.session;

	LIST_UNLINK(&wait->pending, link);
	assert(session->n_pending > 0);
	session->n_pending--;
	free(wait->pending.id_text);
	free(wait);
}

static struct result_wait *wait_of(struct mcp_task_waiter *waiter)
{
	return (struct result_wait *)((char *)waiter - offsetof(struct result_wait, waiter));
}

static void on_result(struct mcp_task_waiter *waiter, struct mcp_task *task)
{
	struct result_wait *wait = wait_of(waiter);

	answer_result(wait->pending.session, wait->pending.id_text, task);
	drop(wait);
}

static void leave(struct session_pending *pending)
{
	struct result_wait *wait = (struct result_wait *)pending;

	LIST_UNLINK(&wait->waiter, link);
	drop(wait);
}

/* Only the waiting ends; the task goes on. */
static void cancel(struct session_pending *pending, bool silent)
{
	if (!silent)
		session_answer_error(pending->session, pending->id_text, JSONRPC_INTERNAL_ERROR,
			"The request was cancelled; its task goes on",
			tool_error_name(TOOL_CANCELLED));
	leave(pending);
}

void mcp_tasks_result(struct session *session, struct jsonrpc_request *request)
{
	struct mcp_task *task;
	struct result_wait *wait;

	if (!has_tasks(session, request, NULL))
		return;
	task = named(session, request);
	if (!task)
		return;
	if (mcp_task_is_over(task)) {
		answer_result(session, request->id_text, task);
		return;
	}
	wait = session_calls(session) < LIMIT_CALLS_PER_CONNECTION ? calloc(1, sizeof(*wait))
								   : NULL;
	if (!wait) {
		session_answer_busy(session, request->id_text,
			"Too many requests wait on this connection; wait for an answer first");
		return;
	}
	wait->pending.session = session;
	wait->pending.leave = leave;
	wait->pending.cancel = cancel;
	wait->pending.id_text = TAKE_PTR(request->id_text);
	LIST_LINK_HEAD(&session->pending, &wait->pending, link);
	session->n_pending++;
	wait->waiter.act = on_result;
	mcp_task_wait(task, &wait->waiter);
}

/* How a tools/call becomes a task. */

static bool may_be_task(struct text name)
{
	return text_equal(name, text_from(tools[TOOL_RUN_COMMAND].name));
}

/* Reads the time for which the client wants the task to be kept. */
static bool read_ttl(struct json_object *wish, int64_t *ret_ms)
{
	struct json_object *ttl;
	int64_t ms;

	*ret_ms = LIMIT_TASK_TTL_DEFAULT_MS;
	if (!json_object_is_type(wish, json_type_object))
		return false;
	if (!json_object_object_get_ex(wish, "ttl", &ttl))
		return true;
	ms = ttl ? json_object_get_int64(ttl) : LIMIT_TASK_TTL_MS;
	*ret_ms = ms < LIMIT_TASK_TTL_MS ? ms : LIMIT_TASK_TTL_MS;
	return !ttl || (json_object_is_type(ttl, json_type_int) && ms >= 0);
}

bool mcp_task_wanted(
	struct session *session, const struct jsonrpc_request *request, struct session_reply *reply)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct json_object *wish;
	struct text name;
	int64_t ttl_ms;

	/* Other revisions have no tasks, and what they do not know is ignored. */
	if (reply->revision != MCP_2025_11_25 ||
		!json_object_object_get_ex(request->params, "task", &wish))
		return true;
	if (!read_ttl(wish, &ttl_ms)) {
		refuse(session, request, JSONRPC_INVALID_PARAMS,
			"Invalid params: task must be an object, and its ttl a number of "
			"milliseconds, 0 or more");
		return false;
	}
	if (!session_string_param(request->params, "name", &name) || !may_be_task(name)) {
		refuse(session, request, JSONRPC_METHOD_NOT_FOUND,
			"Only run_command can be a task: call this tool without task");
		return false;
	}
	reply->task = mcp_task_new(session, ttl_ms, &refusal);
	if (!reply->task)
		answer_refusal(session, request->id_text, &refusal);
	return reply->task != NULL;
}

/* Answers with MCP's CreateTaskResult. */
static void answer_created(
	struct session *session, const char *id_text, const struct mcp_task *task)
{
	struct json_text json;

	session_answer_begin(session, &json, id_text);
	json_text_object_begin(&json);
	json_text_key(&json, "task");
	json_text_object_begin(&json);
	mcp_task_put(&json, task);
	json_text_object_end(&json);
	json_text_object_end(&json);
	session_answer_end(session, &json);
}

void mcp_task_begun(struct session_call *call)
{
	mcp_task_begin(call->reply.task, call);
	answer_created(call->session, call->id_text, call->reply.task);
	/* The request is answered, and its id is the client's again. */
	free(TAKE_PTR(call->id_text));
}

/* A client that does not read is not told: it finds the status when it asks. */
static void tell_status(struct session *session, const struct mcp_task *task)
{
	struct json_text json;

	if (session->paused)
		return;
	json = json_text(session->connection.output);
	jsonrpc_notification_begin(&json, "notifications/tasks/status");
	json_text_object_begin(&json);
	mcp_task_put(&json, task);
	json_text_object_end(&json);
	session_answer_end(session, &json);
}

/* Writes the result and hands it to the task. Returns as mcp_task_finish(). */
static int finish(struct mcp_task *task, const struct session_reply *reply,
	const struct observation *observation)
{
	char error[MCP_RESULT_ERROR_SIZE];
	struct evbuffer *buffer = mcp_result_write(reply, observation);
	int r = mcp_task_finish(task, buffer, text_from(mcp_result_error(observation, error)));

	if (buffer)
		evbuffer_free(buffer);
	return r;
}

void mcp_task_keep(struct session *session, const char *id_text, const struct session_reply *reply,
	const struct observation *observation)
{
	struct mcp_task *task = reply->task;
	const struct observation untold = mcp_result_untold(observation);
	int r;

	/* A task is working when the client first hears of it. */
	if (id_text)
		answer_created(session, id_text, task);
	r = finish(task, reply, observation);
	if (r < 0)
		r = finish(task, reply, &untold);
	if (r > 0)
		tell_status(session, task);
	mcp_task_wake(task);
	/* The end of a call leaves room for more requests, also if nothing was written. */
	session->connection.wrote(session->connection.context);
}

/* What the definitions say. */

void mcp_tasks_put_capability(struct json_text *json)
{
	json_text_key(json, "tasks");
	json_text_raw(json, TEXT_LITERAL("{\"list\":{},\"cancel\":{},"
					 "\"requests\":{\"tools\":{\"call\":{}}}}"));
}

bool mcp_tasks_mark(struct json_object *definitions)
{
	for (size_t i = 0; i < json_object_array_length(definitions); i++) {
		struct json_object *definition = json_object_array_get_idx(definitions, i);
		struct json_object *execution;
		struct text name;

		if (!session_string_param(definition, "name", &name) || !may_be_task(name))
			continue;
		execution = json_object_new_object();
		if (!json_build_add(execution, "taskSupport", json_object_new_string("optional"))) {
			json_object_put(execution);
			return false;
		}
		if (!json_build_add(definition, "execution", execution))
			return false;
	}
	return true;
}
