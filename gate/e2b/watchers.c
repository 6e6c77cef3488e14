// SPDX-License-Identifier: Apache-2.0
/*
 * In cloister-gate, which trusts no client: filesystem.Filesystem/CreateWatcher, GetWatcherEvents
 * and RemoveWatcher. A bounded number of events wait here until the client asks for them, in the
 * tenant's share of the gate's memory. A watcher that is not asked ends. After a restart the gate
 * answers not_found.
 */

#include "common/budget.h"
#include "common/byte_queue.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "gate/e2b/data.h"
#include "gate/e2b/dir_watch.h"
#include "gate/e2b/sandbox.h"
#include "gate/gate.h"
#include "gate/request.h"
#include "gate/tenant_share.h"

#include <event2/event.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define WATCHERS_OF_SANDBOX 16
#define WATCHERS            1024 /* of all tenants */
#define WATCHER_EVENTS      4096
#define WATCHER_IDLE_S      600

struct watcher {
	struct watcher *next;
	struct dir_watch *watch;
	struct op *op;            /* that is to be answered when it is watched; kept by op_stay() */
	struct byte_queue events; /* JSON, with a comma behind each */
	unsigned n_events;
	struct gate_hold hold; /* what they take */
	struct event *idle;
	bool lost;     /* there were more events */
	bool ended;    /* nothing is watched any more */
	char code[32]; /* why; empty: the sandbox is gone */
	char message[256];
	char id[17];
	char sandbox[SANDBOX_ID_LETTERS + 1];
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1];
};

static struct watcher *watchers;

static void drop_events(struct watcher *watcher)
{
	byte_queue_free(&watcher->events);
	watcher->events = (struct byte_queue){0};
	watcher->n_events = 0;
	gate_hold_release(&watcher->hold);
}

static void watcher_free(struct watcher *watcher)
{
	struct watcher **at = &watchers;

	while (*at != watcher)
		at = &(*at)->next;
	*at = watcher->next;
	dir_watch_free(watcher->watch);
	drop_events(watcher);
	if (watcher->idle)
		event_free(watcher->idle);
	free(watcher);
}

static void on_idle(__attribute__((unused)) evutil_socket_t fd, __attribute__((unused)) short what,
	void *context)
{
	struct watcher *watcher = context;

	if (watcher->op == NULL)
		watcher_free(watcher);
}

static void used(struct watcher *watcher)
{
	const struct timeval time = {.tv_sec = WATCHER_IDLE_S};

	if (watcher->idle)
		event_add(watcher->idle, &time);
}

/* Returns the op that waits for the watcher, which is not kept any more then, or NULL. */
static struct op *take_op(struct watcher *watcher)
{
	struct op *op = watcher->op;

	watcher->op = NULL;
	return op;
}

static void on_begun(void *context)
{
	struct watcher *watcher = context;
	struct op *op = take_op(watcher);
	struct json_object *answer = json_object_new_object();

	json_put_text(answer, "watcherId", text_from(watcher->id));
	op_answer(op, 200, answer);
	op_leave(op);
}

/* Returns false if there is no room for it. */
static bool keep_watcher_event(struct watcher *watcher, struct json_object *event)
{
	struct byte_queue *events = &watcher->events;
	size_t len = 0;
	const char *text = json_object_to_json_string_length(event, JSON_C_TO_STRING_PLAIN, &len);

	if (!text || watcher->n_events == WATCHER_EVENTS ||
		!gate_hold_set(&watcher->hold, watcher->tenant, events->len + len + 1) ||
		byte_queue_append(events, text, len) < 0 || byte_queue_append(events, ",", 1) < 0)
		return false;
	watcher->n_events++;
	return true;
}

/* Once an event was lost, the client must list the directory, and needs none of the others. */
static void on_event(void *context, struct json_object *event)
{
	struct watcher *watcher = context;

	if (!watcher->lost && !keep_watcher_event(watcher, event)) {
		watcher->lost = true;
		drop_events(watcher);
	}
	json_object_put(event);
}

static void answer_end(struct op *op, const char *code, const char *message)
{
	if (op->request && code[0])
		op_fail(op, 400, code, "%s", message);
	else if (op->request)
		sandbox_answer_gone(op);
}

static void on_watcher_ended(void *context, const char *code, const char *message)
{
	struct watcher *watcher = context;
	struct op *op = take_op(watcher);

	watcher->ended = true;
	snprintf(watcher->code, sizeof(watcher->code), "%s", code ? code : "");
	snprintf(watcher->message, sizeof(watcher->message), "%s", message);
	if (op == NULL) {
		dir_watch_free(watcher->watch);
		watcher->watch = NULL;
		return;
	}
	answer_end(op, watcher->code, watcher->message);
	watcher_free(watcher);
	op_leave(op);
}

/* Ended watchers count too, which cost cloisterd nothing: no tenant can have all. */
static bool is_full(const struct op *op)
{
	const struct text id = sandbox_id_of(op->sandbox);
	unsigned all = 0, of_tenant = 0, own = 0;

	for (const struct watcher *at = watchers; at; at = at->next) {
		all++;
		of_tenant += strcmp(at->tenant, sandbox_tenant(op->sandbox)) == 0;
		own += text_equal(text_from(at->sandbox), id);
	}
	return share_left(true, WATCHERS, all, of_tenant) == 0 || own >= WATCHERS_OF_SANDBOX;
}

static struct watcher *watcher_new(struct op *op)
{
	const struct text sandbox = sandbox_id_of(op->sandbox);
	struct watcher *watcher = calloc(1, sizeof(*watcher));
	uint64_t number;

	if (watcher == NULL)
		return NULL;
	snprintf(watcher->tenant, sizeof(watcher->tenant), "%s", sandbox_tenant(op->sandbox));
	watcher->idle = event_new(gate_request_gate(op->request)->base, -1, 0, on_idle, watcher);
	watcher->next = watchers;
	watchers = watcher;
	if (watcher->idle == NULL || getrandom(&number, sizeof(number), 0) != sizeof(number)) {
		watcher_free(watcher);
		return NULL;
	}
	snprintf(watcher->id, sizeof(watcher->id), "%016llx", (unsigned long long)number);
	snprintf(
		watcher->sandbox, sizeof(watcher->sandbox), "%.*s", (int)sandbox.len, sandbox.data);
	used(watcher);
	return watcher;
}

void filesystem_create_watcher(struct op *op)
{
	struct dir_watch_owner owner = {on_begun, on_event, on_watcher_ended, NULL};
	struct watcher *watcher;
	char path[4097];
	int r;

	if (!watch_path(op, path))
		return;
	if (is_full(op)) {
		op_fail(op, 429, "resource_exhausted",
			"The sandbox has too many watchers: remove one");
		return;
	}
	watcher = watcher_new(op);
	if (watcher == NULL) {
		op_no_memory(op);
		return;
	}
	owner.context = watcher;
	r = dir_watch_new(op, path, &owner, &watcher->watch);
	if (r < 0) {
		watcher_free(watcher);
		op_fail(op, 503, "unavailable", "cloisterd cannot be reached: %s", strerror(-r));
		return;
	}
	watcher->op = op;
	op_stay(op);
}

/* Returns the watcher that the body names, or NULL: it has been answered. */
static struct watcher *find_watcher(struct op *op)
{
	const struct text id = json_text_of(op->body, "watcherId");
	struct watcher *watcher = watchers;

	while (watcher &&
		(watcher->op || !text_equal(text_from(watcher->id), id) ||
			!text_equal(text_from(watcher->sandbox), sandbox_id_of(op->sandbox))))
		watcher = watcher->next;
	if (watcher == NULL)
		op_fail(op, 404, "not_found", "The sandbox has no such watcher");
	return watcher;
}

static void answer_events(struct op *op, struct watcher *watcher)
{
	_cleanup_(byte_queue_free) struct byte_queue answer = {0};
	struct text events = byte_queue_peek(&watcher->events);

	if (events.len > 0)
		events.len--; /* the last comma */
	if (byte_queue_append(&answer, "{\"events\":[", strlen("{\"events\":[")) < 0 ||
		(events.len > 0 && byte_queue_append(&answer, events.data, events.len) < 0) ||
		byte_queue_append(&answer, "]}", 2) < 0) {
		op_no_memory(op);
		return;
	}
	/* Their share of the memory becomes the answer's. */
	drop_events(watcher);
	op_answer_text(op, 200, byte_queue_peek(&answer));
}

void filesystem_get_watcher_events(struct op *op)
{
	struct watcher *watcher = find_watcher(op);

	if (watcher == NULL)
		return;
	used(watcher);
	if (watcher->lost) {
		op_fail(op, 500, "data_loss",
			"Events were lost, because they were not asked for in time: list the "
			"directory");
		watcher->lost = false;
	} else if (watcher->ended && watcher->n_events == 0) {
		answer_end(op, watcher->code, watcher->message);
	} else {
		answer_events(op, watcher);
	}
}

void filesystem_remove_watcher(struct op *op)
{
	struct watcher *watcher = find_watcher(op);

	if (watcher == NULL)
		return;
	watcher_free(watcher);
	op_answer(op, 200, json_object_new_object());
}
