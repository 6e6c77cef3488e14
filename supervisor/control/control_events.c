// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd, which never waits for an observer: events for one that does not read are
 * counted instead of sent, and it is told how many it missed.
 */
#include "supervisor/control/control_events.h"

#include "common/limits.h"
#include "supervisor/base/clock.h"
#include "supervisor/call/call_info.h"
#include "supervisor/call/result/observation.h"
#include "supervisor/control/control.h"
#include "supervisor/schedule/usage.h"

#include <stdlib.h>

struct control_watcher {
	LIST_ENTRY(control_watcher) entry;
	struct client *client;
	int64_t missed;
};

static LIST_HEAD(, control_watcher) watchers = LIST_HEAD_INITIALIZER(watchers);
size_t control_watchers;

static void begin_control_event(struct client *client, struct json_text *json, const char *event)
{
	*json = json_text(client->connection.output);
	jsonrpc_notification_begin(json, "event");
	json_text_put(json, "event", event);
	json_text_put_number(json, "time_ms", clock_unix_ms());
}

static void end_control_event(struct client *client, struct json_text *json)
{
	client_answer_end(client, json);
}

/* A reload may have withdrawn its role, and it has sent no request since. */
static bool may_hear(const struct control_watcher *watcher)
{
	const struct client *client = watcher->client;

	return peer_auth_role(client->service->config, &client->peer) > CONTROL_ROLE_NONE;
}

/* Whether the observer gets the next event. First it is told how many it missed. */
static bool hears(struct control_watcher *watcher)
{
	struct client *client = watcher->client;
	struct json_text json;

	if (client->paused) {
		watcher->missed++;
		return false;
	}
	if (watcher->missed > 0) {
		begin_control_event(client, &json, "missed");
		json_text_put_number(&json, "count", watcher->missed);
		watcher->missed = 0;
		end_control_event(client, &json);
	}
	return true;
}

static void tell_control_watcher(struct control_watcher *watcher, const struct call_info *info,
	const struct observation *observation)
{
	struct client *client = watcher->client;
	struct json_text json;

	if (!hears(watcher))
		return;
	if (info->session)
		begin_control_event(client, &json, observation ? "session_end" : "session_begin");
	else
		begin_control_event(client, &json, observation ? "call_end" : "call_begin");
	if (info->session)
		json_text_put(&json, "session", info->session);
	control_put_call(&json, info, LIMIT_CONTROL_TEXT_BYTES);
	if (observation) {
		json_text_put_bool(&json, "success", observation->error == TOOL_OK);
		json_text_put(&json, "code",
			observation->error == TOOL_OK ? NULL : tool_error_name(observation->error));
		json_text_put(&json, "ended_by",
			observation->io ? ended_by_name(observation->ended_by) : NULL);
		json_text_put_uint64(&json, "wall_us", observation->wall_us);
	} else {
		json_text_put_number(&json, "deadline_ms", info->timeout_ms);
	}
	end_control_event(client, &json);
}

void control_events_tell(
	const char *event, void (*put)(void *context, struct json_text *json), void *context)
{
	struct control_watcher *watcher;
	struct json_text json;

	LIST_FOREACH (watcher, &watchers, entry)
		if (may_hear(watcher) && hears(watcher)) {
			begin_control_event(watcher->client, &json, event);
			put(context, &json);
			end_control_event(watcher->client, &json);
		}
}

static void tell_all(const struct call *call, const struct observation *observation)
{
	struct control_watcher *watcher;
	struct call_info info;

	call_get_info(call, &info);
	LIST_FOREACH (watcher, &watchers, entry)
		if (may_hear(watcher))
			tell_control_watcher(watcher, &info, observation);
}

void control_events_begun(void *context, const struct call *call)
{
	(void)context;
	tell_all(call, NULL);
}

void control_events_ended(
	void *context, const struct call *call, const struct observation *observation)
{
	(void)context;
	tell_all(call, observation);
}

static void put_cut(struct json_text *json, const char *name, struct text text)
{
	json_text_key(json, name);
	if (text.data)
		json_text_string(json, utf8_cut(text, LIMIT_CONTROL_TEXT_BYTES));
	else
		json_text_null(json);
}

static struct text text_or_none(const char *string)
{
	return string ? text_from(string) : (struct text){NULL, 0};
}

struct refusal_event {
	const struct refused *refused;
	uint64_t untold;
};

static void put_refused(void *context, struct json_text *json)
{
	const struct refusal_event *event = context;
	const struct refused *refused = event->refused;

	json_text_put(json, "what", refused->what);
	json_text_put_number(json, "uid", refused->peer->uid);
	json_text_put(json, "tenant", refused->tenant ? refused->tenant->name : NULL);
	put_cut(json, "workspace", refused->workspace);
	put_cut(json, "tool", text_or_none(refused->tool));
	json_text_put(json, "code", refused->code);
	put_cut(json, "message", text_or_none(refused->message));
	json_text_put_uint64(json, "untold", event->untold);
}

bool control_events_due(struct refusals_told *told, uint64_t *ret_untold)
{
	int64_t second = clock_now() / CLOCK_NS_PER_S;

	if (LIST_EMPTY(&watchers))
		return false;
	if (second != told->second)
		told->told = 0;
	told->second = second;
	if (told->told >= LIMIT_REFUSALS_TOLD) {
		told->untold++;
		return false;
	}
	told->told++;
	*ret_untold = told->untold;
	told->untold = 0;
	return true;
}

/* Clients without a tenant share the same few events. */
void control_events_refused(void *context, const struct refused *refused)
{
	static struct refusals_told of_none;
	struct refusals_told *told = refused->tenant ? &refused->tenant->usage->refusals : &of_none;
	struct refusal_event event = {.refused = refused};

	(void)context;
	if (control_events_due(told, &event.untold))
		control_events_tell("refused", put_refused, &event);
}

void control_events_leave(struct client *client)
{
	if (!client->watcher)
		return;
	LIST_REMOVE(client->watcher, entry);
	control_watchers--;
	free(client->watcher);
	client->watcher = NULL;
}

void control_events(struct client *client, struct jsonrpc_request *request)
{
	struct control_watcher *watcher = client->watcher;
	struct json_text json;

	if (!watcher) {
		watcher = calloc(1, sizeof(*watcher));
		if (!watcher) {
			control_refuse(client, request, TOOL_BUSY, "Out of memory");
			return;
		}
		watcher->client = client;
		client->watcher = watcher;
		LIST_INSERT_HEAD(&watchers, watcher, entry);
		control_watchers++;
	}
	if (request->notification)
		return;
	client_answer_begin(client, &json, request->id_text);
	client_answer_end(client, &json);
}
