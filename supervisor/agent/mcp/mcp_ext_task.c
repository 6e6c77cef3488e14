// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/agent/mcp/mcp_ext_task.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "supervisor/agent/answer_room.h"
#include "supervisor/agent/mcp/mcp_result.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/timer.h"
#include "supervisor/call/call.h"
#include "supervisor/call/call_info.h"
#include "supervisor/call/keys/call_keyed.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/call/result/observation.h"
#include "supervisor/config/tenant.h"
#include "supervisor/connection/client_state.h"
#include "supervisor/connection/jsonrpc.h"
#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspace_access.h"

#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define POLL_MS 1000 /* how often a client is to ask */
#define ID_SIZE 33   /* 128 random bits in hexadecimal digits, and a NUL */

struct mcp_ext_offer {
	void (*become)(struct client_call *call);
	struct client_call *call;
	struct timer timer;
};

enum task_status { TASK_WORKING, TASK_COMPLETED, TASK_FAILED, TASK_CANCELLED };

static const char *const status_names[] = {
	[TASK_WORKING] = "working",
	[TASK_COMPLETED] = "completed",
	[TASK_FAILED] = "failed",
	[TASK_CANCELLED] = "cancelled",
};

struct mcp_ext_task {
	TAILQ_ENTRY(mcp_ext_task) link;
	char id[ID_SIZE];
	struct call *call;                 /* NULL: it is over */
	const struct workspace *workspace; /* that its call holds */
	char *place;                       /* name of its workspace */
	struct workspace_access access;
	struct client_reply reply; /* the form of the result */
	enum task_status status;
	int64_t created_ms, changed_ms; /* as clock_unix_ms() */
	int64_t ttl_ms;
	bool cancelled;                /* its client wants it to end */
	bool fetched;                  /* its client has been given the result */
	int64_t began, used;           /* as clock_now() */
	struct unread_account account; /* the tenant's, for the result */
	struct mcp_result result;
	char message[MCP_RESULT_ERROR_SIZE]; /* empty: none */
	struct timer timer; /* until it is unused; when it is over: until it is forgotten */
};

static TAILQ_HEAD(, mcp_ext_task) all = TAILQ_HEAD_INITIALIZER(all);

/* The offer. */

static void on_offer(void *context)
{
	struct mcp_ext_offer *offer = context;

	offer->become(offer->call);
}

struct mcp_ext_offer *mcp_ext_offer_new(void (*become)(struct client_call *call))
{
	struct mcp_ext_offer *offer = calloc(1, sizeof(*offer));

	if (!offer)
		return NULL;
	offer->become = become;
	timer_init(&offer->timer, on_offer, offer);
	return offer;
}

void mcp_ext_offer_free(struct mcp_ext_offer *offer)
{
	if (offer)
		timer_cancel(&offer->timer);
	free(offer);
}

bool mcp_ext_offer_fits(const struct call_request *request)
{
	/* What goes on as a session, and what is sent input, has its client already. */
	return request->tool->id == TOOL_RUN_COMMAND && request->options.yield_ms == 0 &&
	       !request->options.stdin_stream;
}

void mcp_ext_offer_begin(struct mcp_ext_offer *offer, struct client_call *call)
{
	offer->call = call;
	timer_set(&offer->timer, LIMIT_TASK_OFFER_MS);
}

/* The life of a task. */

static void unmake(struct mcp_ext_task *task)
{
	workspace_access_done(&task->access);
	free(task->place);
	free(task);
}

static void forget_mcp_task(struct mcp_ext_task *task)
{
	assert(!task->call);
	timer_cancel(&task->timer);
	TAILQ_UNLINK(&all, task, link);
	/* Then its account counts nothing. */
	mcp_result_done(&task->result);
	unmake(task);
}

/* Looks again when nobody may have used its workspace for long. */
static void on_timer(void *context)
{
	struct mcp_ext_task *task = context;
	const int64_t now = clock_now();
	int64_t detached, since;

	if (!task->call) {
		forget_mcp_task(task);
		return;
	}
	detached = (int64_t)task->result.tenant->limits.session_detached_ms * CLOCK_NS_PER_MS;
	since = workspace_unattended_since(task->workspace);
	if (since == 0)
		since = now;
	else if (since < task->used)
		since = task->used;
	if (since + detached <= now)
		call_cancel(task->call, ENDED_BY_WORKSPACE_CLOSED);
	else
		timer_set_ns(&task->timer, since + detached - now);
}

/* Keeps @observation, if there is room. Returns as mcp_result_keep(). */
static int keep_mcp_task(struct mcp_ext_task *task, const struct observation *observation)
{
	struct evbuffer *buffer = mcp_result_write(&task->reply, observation);
	int r = mcp_result_keep(&task->result, buffer, sizeof(*task));

	if (buffer)
		evbuffer_free(buffer);
	if (r == 0)
		mcp_result_error(observation, task->message);
	return r;
}

/* Keeps @observation, or as much of it as there is room for. */
static void keep_result(struct mcp_ext_task *task, const struct observation *observation)
{
	const uint64_t room = mcp_result_room(&task->result, unread_tenant_room(&task->account));
	const struct observation untold = mcp_result_untold(observation);

	if (observation->io)
		answer_room_cut(observation->io, task->reply.form->reader, room);
	if (!answer_room_fits(observation, task->reply.form->reader, room) ||
		keep_mcp_task(task, observation) < 0)
		(void)keep_mcp_task(task, &untold);
}

/* How long a result is kept, as the end of a session is: but a client has time to fetch it. */
static int64_t kept_for_ms(const struct tenant *tenant)
{
	const int64_t ms = (int64_t)tenant->limits.session_retention_ms;

	if (ms < LIMIT_TASK_FETCH_MS)
		return LIMIT_TASK_FETCH_MS;
	return ms < LIMIT_TASK_TTL_MS ? ms : LIMIT_TASK_TTL_MS;
}

/* Nothing of its command is left. */
static void on_mcp_task_done(void *context, const struct observation *observation)
{
	struct mcp_ext_task *task = context;
	const int64_t kept_ms = kept_for_ms(task->result.tenant);

	task->call = NULL;
	task->workspace = NULL;
	if (task->cancelled && observation->error == TOOL_CANCELLED) {
		task->status = TASK_CANCELLED;
		mcp_result_error(observation, task->message);
		(void)mcp_result_keep(&task->result, NULL, sizeof(*task));
	} else {
		keep_result(task, observation);
		task->status = mcp_result_peek(&task->result).data ? TASK_COMPLETED : TASK_FAILED;
	}
	task->changed_ms = clock_unix_ms();
	task->ttl_ms = (clock_now() - task->began) / CLOCK_NS_PER_MS + kept_ms;
	timer_set(&task->timer, kept_ms);
}

/* Forgets the oldest of @tenant whose result its client has. Returns whether there was one. */
static bool forget_fetched(const struct tenant *tenant)
{
	struct mcp_ext_task *task;

	TAILQ_FOREACH (task, &all, link)
		if (task->fetched && task->result.tenant->usage == tenant->usage) {
			forget_mcp_task(task);
			return true;
		}
	return false;
}

/* Makes an id that cannot be guessed. Returns 0 or -errno. */
static int make_id(char id[static ID_SIZE])
{
	uint8_t bytes[ID_SIZE / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -errno;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(id + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

struct mcp_ext_task *mcp_ext_task_take(struct client_call *call)
{
	struct mcp_ext_task *task;
	struct tenant *tenant;
	struct call_info info;
	struct call_owner owner = {.done = on_mcp_task_done};

	call_get_info(call->call, &info);
	tenant = info.request->tenant;
	/* Nothing of such a tenant outlives its connection. */
	if (tenant->limits.sessions == 0)
		return NULL;
	while (!mcp_result_has_room(tenant))
		if (!forget_fetched(tenant))
			return NULL;
	task = calloc(1, sizeof(*task));
	if (task)
		task->place = strdup(workspace_name(info.workspace));
	if (!task || !task->place || make_id(task->id) < 0 ||
		workspace_access_copy(info.workspace, &task->access) < 0) {
		if (task)
			free(task->place);
		free(task);
		return NULL;
	}
	unread_open(&task->account, &call->client->service->unread);
	unread_move(&task->account, tenant->usage);
	if (unread_tenant_room(&task->account) < LIMIT_TASK_RESULT_BYTES) {
		unread_close(&task->account);
		unmake(task);
		return NULL;
	}
	mcp_result_open(&task->result, tenant, &task->account);
	timer_init(&task->timer, on_timer, task);
	task->reply = (struct client_reply){.form = call->reply.form,
		.revision = call->reply.revision,
		.as_json = call->reply.as_json};
	task->call = call->call;
	task->workspace = info.workspace;
	task->used = clock_now();
	task->began = task->used - info.age_ms * CLOCK_NS_PER_MS;
	task->created_ms = task->changed_ms = clock_unix_ms() - info.age_ms;
	/* Its call has a deadline, and then there is time to fetch the result. */
	task->ttl_ms = info.timeout_ms + kept_for_ms(tenant);
	TAILQ_LINK_TAIL(&all, task, link);
	timer_set(&task->timer, (int64_t)tenant->limits.session_detached_ms);
	owner.context = task;
	call_hand_over(task->call, &owner);
	return task;
}

static bool may_use(const struct client *client, const struct mcp_ext_task *task)
{
	if (!client_may_name(client, text_from(task->place)))
		return false;
	for (size_t i = 0; i < client->n_tenants; i++)
		if (strcmp(client->tenants[i]->name, task->result.tenant->name) == 0 &&
			workspace_access_allows(&task->access, client->tenants[i]))
			return true;
	return false;
}

struct mcp_ext_task *mcp_ext_task_find(const struct client *client, struct text id)
{
	struct mcp_ext_task *task;

	TAILQ_FOREACH (task, &all, link)
		if (text_equal(id, text_from(task->id)))
			return may_use(client, task) ? task : NULL;
	return NULL;
}

void mcp_ext_task_touch(struct mcp_ext_task *task)
{
	task->used = clock_now();
}

void mcp_ext_task_cancel(struct mcp_ext_task *task)
{
	if (!task->call)
		return;
	task->cancelled = true;
	/* This may end the call, and so the task. */
	call_cancel(task->call, ENDED_BY_CANCEL);
}

/* What a client is told. */

static void put_time(struct json_text *json, const char *key, int64_t unix_ms)
{
	const time_t seconds = (time_t)(unix_ms / 1000);
	char buffer[40];
	struct tm tm;
	size_t len = gmtime_r(&seconds, &tm) ? strftime(buffer, 24, "%Y-%m-%dT%H:%M:%S", &tm) : 0;

	snprintf(buffer + len, sizeof(buffer) - len, ".%03uZ", (unsigned)(unix_ms % 1000));
	json_text_put(json, key, buffer);
}

void mcp_ext_task_put(struct json_text *json, const struct mcp_ext_task *task)
{
	json_text_put(json, "taskId", task->id);
	json_text_put(json, "status", status_names[task->status]);
	if (*task->message)
		json_text_put(json, "statusMessage", task->message);
	put_time(json, "createdAt", task->created_ms);
	put_time(json, "lastUpdatedAt", task->changed_ms);
	json_text_put_number(json, "ttlMs", task->ttl_ms);
	json_text_put_number(json, "pollIntervalMs", POLL_MS);
}

bool mcp_ext_task_fits(const struct mcp_ext_task *task, uint64_t room)
{
	return task->status != TASK_COMPLETED || mcp_result_peek(&task->result).len <= room;
}

void mcp_ext_task_put_outcome(struct json_text *json, struct mcp_ext_task *task)
{
	if (task->status == TASK_WORKING)
		return;
	task->fetched = true;
	if (task->status == TASK_COMPLETED) {
		json_text_put_raw(json, "result", mcp_result_peek(&task->result));
	} else if (task->status == TASK_FAILED) {
		json_text_put_object(json, "error");
		json_text_put_number(json, "code", JSONRPC_INTERNAL_ERROR);
		json_text_put(json, "message",
			"The command has ended, but there was no memory for its result");
		json_text_object_end(json);
	}
}

void mcp_ext_tasks_free_all(void)
{
	struct mcp_ext_task *task;

	while ((task = TAILQ_FIRST(&all))) {
		task->call = NULL;
		forget_mcp_task(task);
	}
}
