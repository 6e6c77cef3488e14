/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One call at a time: the test plays its workspace and lets time pass. */

#include "supervisor/call/call_state.h"

#include "common/wire/wire_commands.h"
#include "common/wire/wire_files.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/base/shared_fd.h"
#include "supervisor/call/pipe_stock.h"
#include "supervisor/call/result/observation.h"
#include "supervisor/call/service.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/loop_share.h"
#include "supervisor/schedule/usage.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/clock.h"
#include "tests/unit/fakes/egress_cell.h"
#include "tests/unit/fakes/workspace.h"

#include <event2/event.h>
#include <json-c/json_object.h>

#define TIMEOUT_MS 10000
#define QUEUE_MS   4000
#define IDLE_MS    3600000

enum kind { COMMAND, FILE_CALL, KINDS };

struct fixture {
	struct service service;
	struct workspace workspace;
	struct tenant *tenant;
	struct call *call; /* NULL once it is answered */
	char answer[128];  /* "CODE ended_by" */
	char message[256];
	int64_t retry_after_ms;
	uint64_t wall_us;
	char output[64]; /* what was streamed */
	bool cancel_when_done;
	bool owner_left; /* its owner has cancelled, and the call goes on for another one */
};

static void on_done(void *context, const struct observation *observation)
{
	struct fixture *f = context;

	assert_string_equal(f->answer, "");
	assert_int_equal(f->call->state == CALL_OVER, !f->owner_left);
	if (f->cancel_when_done)
		call_cancel(f->call, ENDED_BY_OUTPUT_LIMIT);
	assert_int_equal(f->call->state == CALL_OVER, !f->owner_left);
	f->call = NULL;
	snprintf(f->answer, sizeof(f->answer), "%s %s",
		observation->error == TOOL_OK ? "OK" : tool_error_name(observation->error),
		ended_by_name(observation->ended_by));
	snprintf(f->message, sizeof(f->message), "%.*s", (int)observation->message.len,
		observation->message.len > 0 ? observation->message.data : "");
	f->retry_after_ms = observation->retry_after_ms;
	f->wall_us = observation->wall_us;
}

static void on_output(void *context, enum command_stream stream, struct text data)
{
	struct fixture *f = context;
	size_t len = strlen(f->output);

	(void)stream;
	snprintf(f->output + len, sizeof(f->output) - len, "%.*s", (int)data.len, data.data);
}

static int set_up(void **state)
{
	static struct config config = {.host = {.commands = 1, .file_jobs = 1}};
	struct fixture *f = calloc(1, sizeof(*f));
	struct service *service = &f->service;

	assert_non_null(f);
	fake_clock_start();
	service->base = event_base_new();
	assert_int_equal(event_base_priority_init(service->base, LOOP_PRIORITIES), 0);
	assert_int_equal(loop_turn_start(service->base), 0);
	assert_int_equal(loop_share_start(service->base), 0);
	assert_int_equal(shared_fds_start(service->base), 0);
	service->config = &config;
	service->admission.scheduler = scheduler_new(service->base, &config);
	service->pipes = pipe_stock_new(service->base);
	unread_init(&service->unread);
	f->tenant = tenant_new("tenant");
	assert_int_equal(usage_begin(f->tenant), 0);
	f->tenant->limits.file_timeout_ms = TIMEOUT_MS;
	f->tenant->limits.queue_ms = QUEUE_MS;
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	assert_null(f->call);
	assert_int_equal(f->workspace.users, 0);
	assert_null(f->workspace.entry);
	assert_int_equal(f->tenant->usage->calls, 0);
	assert_int_equal(f->service.pending_bytes, 0);
	shared_fds_stop();
	assert_int_equal(timers_next(), INT64_MAX);
	fake_workspace_close(&f->workspace);
	pipe_stock_free(f->service.pipes);
	scheduler_free(f->service.admission.scheduler);
	tenant_release(f->tenant);
	loop_share_stop();
	loop_turn_stop();
	event_base_free(f->service.base);
	fake_clock_stop();
	free(f);
	return 0;
}

static struct call_request make_request(struct fixture *f, enum kind kind)
{
	struct call_request request = {
		.tool = &tools[kind == COMMAND ? TOOL_RUN_COMMAND : TOOL_READ_FILE],
		.tenant = tenant_hold(f->tenant),
		.params = json_object_new_object(),
		.arguments = json_object_new_object(),
		.memory = 100,
	};

	tool_args_defaults(request.tool, &request.args);
	options_defaults(&request.options);
	if (kind == COMMAND) {
		request.args.command = TEXT_LITERAL("true");
		request.args.timeout_ms = TIMEOUT_MS;
		request.options.idle_timeout_ms = IDLE_MS;
	} else {
		request.path = strdup("file");
	}
	return request;
}

static void start(struct fixture *f, struct call_request request)
{
	struct call_owner owner = {.done = on_done, .output = on_output, .context = f};

	f->answer[0] = f->message[0] = f->output[0] = '\0';
	assert_int_equal(call_start(&f->service, &f->workspace, &request, &owner, &f->call), 0);
}

static struct workspace_entry *entry(struct fixture *f)
{
	assert_non_null(f->workspace.entry);
	return f->workspace.entry;
}

static void begin(struct fixture *f)
{
	entry(f)->begun = true;
	entry(f)->owner->begin(entry(f)->context);
}

static int give_frame(struct fixture *f, uint8_t type, struct text payload)
{
	const struct channel_frame frame = {
		.type = type, .call = entry(f)->call, .payload = payload};

	return entry(f)->owner->frame(entry(f)->context, &frame);
}

static int end_command(struct fixture *f, struct command_ended ended)
{
	uint8_t payload[COMMAND_ENDED_SIZE];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	command_ended_put(&writer, &ended);
	return give_frame(f, COMMAND_ENDED, (struct text){(char *)payload, writer.len});
}

static inline int end_file(struct fixture *f, enum tool_error error)
{
	uint8_t payload[256];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	files_end_put(&writer, &(struct files_end){.error = error, .path = TEXT_LITERAL("file")});
	return give_frame(f, FILES_END, (struct text){(char *)payload, writer.len});
}

/* Lets the tenant's thread read the output that is there, which is watched. */
static inline void read_output(struct fixture *f)
{
	while (f->call && f->call->io && command_io_is_waiting(f->call->io))
		event_base_loop(f->service.base, EVLOOP_ONCE);
	while (f->call && f->call->state == CALL_SUMMING && f->call->drains)
		event_base_loop(f->service.base, EVLOOP_ONCE);
}

/* Loses the entry as workspace_calls_lost() does. */
static void lose(struct fixture *f)
{
	struct workspace_entry *lost = entry(f);

	f->workspace.entry = NULL;
	lost->owner->lost(lost->context, TOOL_WORKER_LOST, "the reason");
}

/* Starts a call and brings it to @state, if need be with an administrator who ends it. */
static inline void reach(struct fixture *f, enum kind kind, enum call_state state)
{
	f->workspace.heard = true;
	f->workspace.has_network |= state == CALL_SUMMING;
	start(f, make_request(f, kind));
	if (state >= CALL_RUNNING)
		begin(f);
	if (state == CALL_ENDING || state == CALL_KILLED)
		call_cancel(f->call, ENDED_BY_ADMIN);
	if (state == CALL_SUMMING)
		assert_int_equal(
			end_command(f, (struct command_ended){.end = COMMAND_END_EXIT}), 0);
	if (state == CALL_KILLED)
		fake_clock_pass_until(&f->call->timer);
	assert_int_equal(f->call->state, state);
	(void)fake_workspace_log(&f->workspace);
}

/* Returns what the workspace was asked, and then the call's state or its answer. */
static inline const char *outcome(struct fixture *f)
{
	static const char *const names[CALL_STATES] = {
		"waiting", "running", "ending", "killed", "summing", "over", "recording", "joined"};
	static char text[512];

	snprintf(text, sizeof(text), "%s = %s", fake_workspace_log(&f->workspace),
		f->call ? names[f->call->state] : f->answer);
	return text;
}

/* Ends the call in any state. */
static inline void finish(struct fixture *f)
{
	if (f->call && f->workspace.entry)
		lose(f);
	else if (f->call)
		fake_egress_sum();
	f->workspace.has_network = false;
	fake_workspace_close(&f->workspace);
	(void)fake_workspace_log(&f->workspace);
}
