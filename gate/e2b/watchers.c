// SPDX-License-Identifier: Apache-2.0
/*
 * In cloister-gate, which trusts no client: filesystem.Filesystem/CreateWatcher, GetWatcherEvents
 * and RemoveWatcher. A bounded number of events wait here until the client asks for them. A watcher
 * that is not asked ends. After a restart the gate answers not_found.
 */

#include "gate/e2b/data.h"
#include "gate/e2b/dir_watch.h"
#include "gate/e2b/sandbox.h"
#include "gate/gate.h"
#include "gate/request.h"

#include <event2/event.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define WATCHERS_OF_SANDBOX 16
#define WATCHERS            1024
#define WATCHER_EVENTS      4096
#define WATCHER_IDLE_S      600

struct watcher {
	struct watcher *next;
	struct dir_watch *watch;
	struct op *op; /* that is to be answered when it is watched; kept by op_stay() */
	struct json_object *events;
	struct event *idle;
	bool lost;     /* there were more events */
	bool ended;    /* nothing is watched any more */
	char code[32]; /* why; empty: the sandbox is gone */
	char message[256];
	char id[17];
	char sandbox[SANDBOX_ID_LETTERS + 1];
};

static struct watcher *watchers;

static void watcher_free(struct watcher *watcher)
{
	struct watcher **at = &watchers;

	while (*at != watcher)
		at = &(*at)->next;
	*at = watcher->next;
	dir_watch_free(watcher->watch);
	json_object_put(watcher->events);
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

static void on_event(void *context, struct json_object *event)
{
	struct watcher *watcher = context;

	if (json_object_array_length(watcher->events) < WATCHER_EVENTS) {
		json_object_array_add(watcher->events, event);
		return;
	}
	watcher->lost = true;
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

static bool is_full(const struct op *op)
{
	const struct text id = sandbox_id_of(op->sandbox);
	unsigned all = 0, own = 0;

	for (const struct watcher *at = watchers; at; at = at->next) {
		all++;
		own += text_equal(text_from(at->sandbox), id);
	}
	return all >= WATCHERS || own >= WATCHERS_OF_SANDBOX;
}

static struct watcher *watcher_new(struct op *op)
{
	const struct text sandbox = sandbox_id_of(op->sandbox);
	struct watcher *watcher = calloc(1, sizeof(*watcher));
	uint64_t number;

	if (watcher == NULL)
		return NULL;
	watcher->events = json_object_new_array();
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

void filesystem_get_watcher_events(struct op *op)
{
	struct watcher *watcher = find_watcher(op);
	struct json_object *answer;

	if (watcher == NULL)
		return;
	used(watcher);
	if (watcher->lost) {
		op_fail(op, 500, "data_loss",
			"Events were lost, because they were not asked for in time: list the "
			"directory");
		watcher->lost = false;
	} else if (watcher->ended && json_object_array_length(watcher->events) == 0) {
		answer_end(op, watcher->code, watcher->message);
		return;
	} else {
		answer = json_object_new_object();
		json_object_object_add(answer, "events", json_object_get(watcher->events));
		op_answer(op, 200, answer);
	}
	json_object_put(watcher->events);
	watcher->events = json_object_new_array();
}

void filesystem_remove_watcher(struct op *op)
{
	struct watcher *watcher = find_watcher(op);

	if (watcher == NULL)
		return;
	watcher_free(watcher);
	op_answer(op, 200, json_object_new_object());
}
