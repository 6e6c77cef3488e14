// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd: selftest, for administrators, and its part of status and metrics. */
#include "supervisor/control/control_selftest.h"

#include "supervisor/audit/audit.h"
#include "supervisor/control/control.h"
#include "supervisor/control/control_events.h"
#include "supervisor/control/metrics_text.h"
#include "supervisor/selftest/selftest.h"

#include <stdlib.h>

/* A client that waits for the end of a run. */
struct waiter {
	LIST_ENTRY(waiter) entry;
	struct client *client;
	char *id_text;
};

static LIST_HEAD(, waiter) waiters = LIST_HEAD_INITIALIZER(waiters);

static void drop_selftest_waiter(struct waiter *waiter)
{
	LIST_REMOVE(waiter, entry);
	free(waiter->id_text);
	free(waiter);
}

static void put_result(void *context, const struct selftest_result *result)
{
	const struct selftest_probe *probe = result->probe;
	struct json_text *json = context;

	json_text_object_begin(json);
	json_text_put(json, "row", probe->row);
	json_text_put(json, "probe", probe->name);
	json_text_put(json, "how", probe->how ? probe->how : "the probe program");
	json_text_put(json, "wanted", probe->wanted);
	json_text_put(json, "answer", result->answer);
	json_text_put(json, "result", result->outcome);
	json_text_object_end(json);
}

static void put_counts(struct json_text *json, const struct selftest_summary *summary)
{
	json_text_put_uint64(json, "passed", summary->passed);
	json_text_put_uint64(json, "failed", summary->failed);
	json_text_put_uint64(json, "skipped", summary->skipped);
	json_text_put_number(json, "duration_ms", summary->duration_ms);
}

/* Why the latest run was not done. */
static void put_obstacle(struct json_text *json, const struct selftest_summary *summary)
{
	if (summary->obstacle)
		json_text_put(json, "obstacle", summary->obstacle);
}

static void answer_selftest(const struct waiter *waiter, const struct selftest *selftest,
	const struct selftest_summary *summary)
{
	struct json_text json;

	client_answer_begin(waiter->client, &json, waiter->id_text);
	json_text_put(&json, "result", selftest_state_name(summary->state));
	put_counts(&json, summary);
	put_obstacle(&json, summary);
	json_text_put_array(&json, "probes");
	selftest_each(selftest, put_result, &json);
	json_text_array_end(&json);
	client_answer_end(waiter->client, &json);
}

static void put_event(void *context, struct json_text *json)
{
	const struct selftest_summary *summary = context;

	json_text_put(json, "result", selftest_state_name(summary->state));
	put_counts(json, summary);
	put_obstacle(json, summary);
}

void control_selftest_ended(const struct selftest *selftest)
{
	struct selftest_summary summary;

	selftest_look_latest(selftest, &summary);
	control_events_tell("selftest", put_event, &summary);
	while (!LIST_EMPTY(&waiters)) {
		answer_selftest(LIST_FIRST(&waiters), selftest, &summary);
		drop_selftest_waiter(LIST_FIRST(&waiters));
	}
}

void control_selftest_leave(struct client *client)
{
	struct waiter *waiter, *next;

	for (waiter = LIST_FIRST(&waiters); waiter; waiter = next) {
		next = LIST_NEXT(waiter, entry);
		if (waiter->client == client)
			drop_selftest_waiter(waiter);
	}
}

void control_selftest(struct client *client, struct jsonrpc_request *request)
{
	struct selftest *selftest = client->service->selftest;
	struct waiter *waiter = NULL;
	const char *obstacle;

	if (!selftest) {
		control_refuse(client, request, TOOL_NOT_FOUND, "This instance has no self-test");
		return;
	}
	obstacle = selftest_obstacle(selftest);
	if (obstacle) {
		audit_act(client->service->audit, &client->peer, "selftest", (struct text){NULL, 0},
			tool_error_name(TOOL_BUSY));
		control_refuse(client, request, TOOL_BUSY, obstacle);
		return;
	}
	if (request->id_text) {
		waiter = calloc(1, sizeof(*waiter));
		if (!waiter) {
			control_refuse(client, request, TOOL_BUSY, "Out of memory");
			return;
		}
		waiter->client = client;
		waiter->id_text = request->id_text;
		request->id_text = NULL;
		LIST_INSERT_HEAD(&waiters, waiter, entry);
	}
	audit_act(
		client->service->audit, &client->peer, "selftest", (struct text){NULL, 0}, "done");
	selftest_run(selftest);
}

void control_selftest_put(struct json_text *json, const struct selftest *selftest)
{
	struct selftest_summary summary;

	if (!selftest)
		return;
	selftest_look(selftest, &summary);
	json_text_put_object(json, "selftest");
	json_text_put(json, "result", selftest_state_name(summary.state));
	json_text_put_bool(json, "running", summary.running);
	json_text_put_bool(json, "required", summary.required);
	put_counts(json, &summary);
	json_text_put_number(json, "ended_ms", summary.ended_ms);
	put_obstacle(json, &summary);
	json_text_object_end(json);
}

void control_selftest_metrics(const struct metrics_text *out, const struct selftest *selftest)
{
	struct selftest_summary summary;

	if (!selftest)
		return;
	selftest_look(selftest, &summary);
	metrics_family(out, "selftest_probes", "gauge",
		"Probes of the last self-test that was done, by result.");
	metrics_add(out,
		"cloister_selftest_probes{result=\"passed\"} %zu\n"
		"cloister_selftest_probes{result=\"failed\"} %zu\n"
		"cloister_selftest_probes{result=\"skipped\"} %zu\n",
		summary.passed, summary.failed, summary.skipped);
	metrics_family(out, "selftest_last_run_timestamp_seconds", "gauge",
		"Time at which the last self-test that was done ended, 0 if none has.");
	metrics_add(out, "cloister_selftest_last_run_timestamp_seconds %.3f\n",
		(double)summary.ended_ms / 1000);
}
