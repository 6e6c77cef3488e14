/* links: cloister-supervisor */
/* fakes: workspace clock */
// SPDX-License-Identifier: Apache-2.0
/* The life of a call: every event in every state, for a command and for a file call, in a workspace
 * that the test plays and in time that the test lets pass. */
#include "supervisor/call/call_state.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire_commands.h"
#include "common/wire_files.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/call/observation.h"
#include "supervisor/call/pipe_stock.h"
#include "supervisor/call/service.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/loop_share.h"
#include "supervisor/schedule/usage.h"
#include "tests/unit/fakes/clock.h"
#include "tests/unit/fakes/workspace.h"

#include <errno.h>
#include <event2/event.h>
#include <json-c/json_object.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define TIMEOUT_MS 10000
#define QUEUE_MS   4000
#define IDLE_MS    3600000

enum kind { COMMAND, FILE_CALL, KINDS };

struct fixture {
	struct service service;
	struct workspace workspace;
	struct tenant *tenant;
	struct call *call; /* NULL: it has been answered */
	char answer[128];  /* "CODE ended_by" */
	char message[256];
	int64_t retry_after_ms;
	uint64_t wall_us;
	char output[64]; /* what was streamed */
	bool cancel_when_done;
};

static void on_done(void *context, const struct observation *observation)
{
	struct fixture *f = context;

	assert_string_equal(f->answer, "");
	assert_int_equal(f->call->state, CALL_OVER);
	if (f->cancel_when_done)
		call_cancel(f->call, ENDED_BY_OUTPUT_LIMIT);
	assert_int_equal(f->call->state, CALL_OVER);
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
	static const struct config_host host = {.commands = 1, .file_jobs = 1};
	struct fixture *f = calloc(1, sizeof(*f));
	struct service *service = &f->service;

	assert_non_null(f);
	fake_clock_start();
	service->base = event_base_new();
	assert_int_equal(event_base_priority_init(service->base, LOOP_PRIORITIES), 0);
	assert_int_equal(loop_turn_start(service->base), 0);
	assert_int_equal(loop_share_start(service->base), 0);
	service->admission.scheduler = scheduler_new(service->base, &host);
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
		.json = json_object_new_array(),
		.memory = 100,
	};

	tool_args_defaults(request.tool, &request.args);
	options_defaults(&request.options);
	for (int i = 0; i < 2; i++) /* params and arguments */
		assert_int_equal(json_object_array_add(request.json, json_object_new_object()), 0);
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

static int end_file(struct fixture *f, enum tool_error error)
{
	uint8_t payload[256];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	files_end_put(&writer, &(struct files_end){.error = error, .path = TEXT_LITERAL("file")});
	return give_frame(f, FILES_END, (struct text){(char *)payload, writer.len});
}

/* As workspace_entrys_lose() does it. */
static void lose(struct fixture *f)
{
	struct workspace_entry *lost = entry(f);

	f->workspace.entry = NULL;
	lost->owner->lost(lost->context, TOOL_WORKER_LOST, "the reason");
}

/* What the events are for this kind of call in this state. */
static void cause(struct fixture *f, enum kind kind, enum call_event event)
{
	bool cancelled = f->call->state != CALL_RUNNING;

	switch (event) {
	case CALL_BEGIN:
		begin(f);
		break;
	case CALL_CANCEL:
		call_cancel(f->call, ENDED_BY_SHUTDOWN);
		break;
	case CALL_OVERDUE:
		fake_clock_pass_until(&f->call->timer);
		break;
	case CALL_SILENT:
		timer_set(&f->call->idle_timer, 0);
		fake_clock_pass(0);
		break;
	case CALL_FRAME:
		if (kind == COMMAND)
			assert_int_equal(end_command(f,
						 (struct command_ended){
							 .end = cancelled ? COMMAND_END_TERMINATED
									  : COMMAND_END_EXIT}),
				0);
		else
			assert_int_equal(end_file(f, cancelled ? TOOL_CANCELLED : TOOL_OK), 0);
		break;
	default:
		assert_int_equal(event, CALL_LOST);
		lose(f);
	}
}

/* A new call comes to @state. Its cause to end is an administrator. */
static void reach(struct fixture *f, enum kind kind, enum call_state state)
{
	f->workspace.heard = true;
	start(f, make_request(f, kind));
	if (state >= CALL_RUNNING)
		begin(f);
	if (state >= CALL_ENDING)
		call_cancel(f->call, ENDED_BY_ADMIN);
	if (state >= CALL_KILLED)
		fake_clock_pass_until(&f->call->timer);
	assert_int_equal(f->call->state, state);
	(void)fake_workspace_log(&f->workspace);
}

/* What the workspace was told, and then the state or the answer. */
static const char *outcome(struct fixture *f)
{
	static const char *const names[CALL_STATES] = {
		"waiting", "running", "ending", "killed", "over"};
	static char text[512];

	snprintf(text, sizeof(text), "%s = %s", fake_workspace_log(&f->workspace),
		f->call ? names[f->call->state] : f->answer);
	return text;
}

/* Whatever state it is in. */
static void finish(struct fixture *f)
{
	if (f->call && f->workspace.entry)
		lose(f);
	fake_workspace_close(&f->workspace);
	(void)fake_workspace_log(&f->workspace);
}

#define IMPOSSIBLE "impossible"

/* clang-format off */
static const char *const expected[KINDS][CALL_STATES][CALL_EVENTS] = {
	[COMMAND] = {
		[CALL_WAITING] = {
			[CALL_BEGIN] = " run body = running",
			[CALL_CANCEL] = " leave = SHUTTING_DOWN shutdown",
			[CALL_OVERDUE] = " leave = BUSY exit",
			[CALL_SILENT] = IMPOSSIBLE,
			[CALL_FRAME] = IMPOSSIBLE,
			[CALL_LOST] = " = WORKER_LOST worker_lost",
		},
		[CALL_RUNNING] = {
			[CALL_BEGIN] = IMPOSSIBLE,
			[CALL_CANCEL] = " terminate = ending",
			[CALL_OVERDUE] = " terminate = ending",
			[CALL_SILENT] = " terminate = ending",
			[CALL_FRAME] = " leave = OK exit",
			[CALL_LOST] = " = WORKER_LOST worker_lost",
		},
		[CALL_ENDING] = {
			[CALL_BEGIN] = IMPOSSIBLE,
			[CALL_CANCEL] = " = ending",
			[CALL_OVERDUE] = " kill = killed",
			[CALL_SILENT] = " = ending",
			[CALL_FRAME] = " leave = CANCELLED admin",
			[CALL_LOST] = " = WORKER_LOST worker_lost",
		},
		[CALL_KILLED] = {
			[CALL_BEGIN] = IMPOSSIBLE,
			[CALL_CANCEL] = " = killed",
			[CALL_OVERDUE] = " abandon = killed",
			[CALL_SILENT] = " = killed",
			[CALL_FRAME] = " leave = CANCELLED admin",
			[CALL_LOST] = " = WORKER_LOST worker_lost",
		},
	},
	[FILE_CALL] = {
		[CALL_WAITING] = {
			[CALL_BEGIN] = " read = running",
			[CALL_CANCEL] = " leave = SHUTTING_DOWN shutdown",
			[CALL_OVERDUE] = " leave = TIMEOUT timeout",
			[CALL_SILENT] = IMPOSSIBLE,
			[CALL_FRAME] = IMPOSSIBLE,
			[CALL_LOST] = " = WORKER_LOST worker_lost",
		},
		[CALL_RUNNING] = {
			[CALL_BEGIN] = IMPOSSIBLE,
			[CALL_CANCEL] = " cancel = ending",
			[CALL_OVERDUE] = " cancel = ending",
			[CALL_SILENT] = IMPOSSIBLE,
			[CALL_FRAME] = " leave = OK exit",
			[CALL_LOST] = " = WORKER_LOST worker_lost",
		},
		[CALL_ENDING] = {
			[CALL_BEGIN] = IMPOSSIBLE,
			[CALL_CANCEL] = " = ending",
			[CALL_OVERDUE] = " abandon = killed",
			[CALL_SILENT] = IMPOSSIBLE,
			[CALL_FRAME] = " leave = CANCELLED admin",
			[CALL_LOST] = " = WORKER_LOST worker_lost",
		},
		[CALL_KILLED] = {
			[CALL_BEGIN] = IMPOSSIBLE,
			[CALL_CANCEL] = " = killed",
			[CALL_OVERDUE] = IMPOSSIBLE,
			[CALL_SILENT] = IMPOSSIBLE,
			[CALL_FRAME] = " leave = CANCELLED admin",
			[CALL_LOST] = " = WORKER_LOST worker_lost",
		},
	},
};
/* clang-format on */

/* Whether the code knows it too, or at least has nothing that could bring the event about. */
static void check_impossible(
	struct fixture *f, enum kind kind, enum call_state state, enum call_event event)
{
	if (call_acts[state][event] == call_impossible)
		return;
	assert_int_equal(kind, FILE_CALL);
	assert_true(event == CALL_SILENT || event == CALL_OVERDUE);
	assert_false(timer_is_set(event == CALL_SILENT ? &f->call->idle_timer : &f->call->timer));
}

static void test_every_event_in_every_state(void **state)
{
	struct fixture *f = *state;

	for (enum kind kind = 0; kind < KINDS; kind++)
		for (enum call_state from = 0; from < CALL_OVER; from++)
			for (enum call_event event = 0; event < CALL_EVENTS; event++) {
				const char *want = expected[kind][from][event];

				assert_non_null(want);
				assert_non_null(call_acts[from][event]);
				reach(f, kind, from);
				if (strcmp(want, IMPOSSIBLE) == 0) {
					check_impossible(f, kind, from, event);
				} else {
					assert_ptr_not_equal(
						call_acts[from][event], call_impossible);
					cause(f, kind, event);
					assert_string_equal(outcome(f), want);
				}
				finish(f);
			}
}

/* What is read while it is answered may reach the output's limit. */
static void test_over(void **state)
{
	struct fixture *f = *state;

	for (enum call_event event = 0; event < CALL_EVENTS; event++)
		assert_true(
			(call_acts[CALL_OVER][event] == call_impossible) == (event != CALL_CANCEL));
	f->cancel_when_done = true;
	reach(f, COMMAND, CALL_RUNNING);
	assert_int_equal(end_command(f, (struct command_ended){.end = COMMAND_END_EXIT}), 0);
	assert_string_equal(outcome(f), " leave = OK exit");
}

/* A deadline counts from the call's beginning, whatever it waited for. */
static void test_deadlines(void **state)
{
	struct fixture *f = *state;

	reach(f, COMMAND, CALL_WAITING);
	fake_clock_pass(QUEUE_MS - 1);
	begin(f);
	fake_clock_pass(TIMEOUT_MS - QUEUE_MS);
	assert_string_equal(outcome(f), " run body = running");
	fake_clock_pass(1);
	assert_string_equal(outcome(f), " terminate = ending");
	fake_clock_pass(LIMIT_TERM_GRACE_MS - 1);
	assert_string_equal(outcome(f), " = ending");
	fake_clock_pass(1);
	assert_string_equal(outcome(f), " kill = killed");
	fake_clock_pass(LIMIT_KILL_REPORT_MS - 1);
	assert_string_equal(outcome(f), " = killed");
	assert_int_equal(end_command(f, (struct command_ended){.end = COMMAND_END_TERMINATED}), 0);
	assert_string_equal(outcome(f), " leave = TIMEOUT timeout");
	assert_non_null(strstr(f->message, "at its deadline"));
	assert_int_equal(
		f->wall_us, (TIMEOUT_MS + LIMIT_TERM_GRACE_MS + LIMIT_KILL_REPORT_MS - 1) * 1000);
	finish(f);

	reach(f, FILE_CALL, CALL_WAITING);
	begin(f);
	fake_clock_pass(TIMEOUT_MS - 1);
	assert_string_equal(outcome(f), " read = running");
	fake_clock_pass(1);
	assert_string_equal(outcome(f), " cancel = ending");
	fake_clock_pass(LIMIT_FILES_REPORT_MS);
	assert_string_equal(outcome(f), " abandon = killed");
	finish(f);
}

/* The shorter of the call's deadline and the tenant's bound. */
static void test_waiting(void **state)
{
	struct fixture *f = *state;
	struct call_request request;

	reach(f, COMMAND, CALL_WAITING);
	fake_clock_pass(QUEUE_MS - 1);
	assert_string_equal(outcome(f), " = waiting");
	fake_clock_pass(1);
	assert_string_equal(outcome(f), " leave = BUSY exit");
	assert_true(f->retry_after_ms >= LIMIT_RETRY_MIN_MS);
	assert_int_equal(f->service.admission.refused[ADMISSION_QUEUE_TIME], 1);

	request = make_request(f, COMMAND);
	request.options.timeout_ms = QUEUE_MS - 1;
	start(f, request);
	fake_clock_pass(QUEUE_MS - 1);
	assert_string_equal(outcome(f), " enter leave = TIMEOUT timeout");
	assert_non_null(strstr(f->message, "was not begun"));
}

/* One that has not read that it should end the command is not waited for twice. */
static void test_deaf_worker(void **state)
{
	struct fixture *f = *state;

	reach(f, COMMAND, CALL_ENDING);
	f->workspace.heard = false;
	fake_clock_pass(LIMIT_TERM_GRACE_MS);
	assert_string_equal(outcome(f), " abandon = killed");
	assert_false(timer_is_set(&f->call->timer));
	finish(f);
}

/* The first cause counts, if the end was really brought about by it. */
static void test_causes(void **state)
{
	static const struct {
		enum call_state from;
		struct command_ended ended;
		const char *answer;
	} ends[] = {
		{CALL_RUNNING, {.end = COMMAND_END_EXIT, .wait_status = 3 << 8},
			" leave = OK exit"},
		{CALL_RUNNING, {.end = COMMAND_END_EXIT, .wait_status = 9}, " leave = OK signal"},
		{CALL_RUNNING,
			{.end = COMMAND_END_EXIT, .wait_status = 9, .cgroup = {.oom_kills = 1}},
			" leave = MEMORY_LIMIT memory"},
		{CALL_RUNNING,
			{.end = COMMAND_END_EXIT,
				.wait_status = 1 << 8,
				.cgroup = {.refused_forks = 1}},
			" leave = PROCESS_LIMIT pids"},
		{CALL_RUNNING, {.end = COMMAND_END_TERMINATED, .wait_status = 15},
			" leave = OK signal"},
		{CALL_RUNNING, {.end = COMMAND_END_NOT_BEGUN, .launch_error = EAGAIN},
			" leave = PROCESS_LIMIT worker_lost"},
		{CALL_RUNNING, {.end = COMMAND_END_NOT_BEGUN, .launch_error = ENOMEM},
			" leave = EXECUTION_ERROR worker_lost"},
		{CALL_RUNNING, {.end = COMMAND_END_NOT_BEGUN, .launch_error = ECANCELED},
			" leave = EXECUTION_ERROR worker_lost"},
		{CALL_ENDING, {.end = COMMAND_END_EXIT}, " leave = OK exit"},
		{CALL_ENDING, {.end = COMMAND_END_TERMINATED, .wait_status = 15},
			" leave = CANCELLED admin"},
		{CALL_ENDING, {.end = COMMAND_END_NOT_BEGUN, .launch_error = ECANCELED},
			" leave = CANCELLED admin"},
		{CALL_ENDING, {.end = COMMAND_END_NOT_BEGUN, .launch_error = EAGAIN},
			" leave = PROCESS_LIMIT worker_lost"},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		reach(f, COMMAND, ends[i].from);
		if (f->call->state == CALL_ENDING)
			call_cancel(f->call, ENDED_BY_CANCEL);
		assert_int_equal(end_command(f, ends[i].ended), 0);
		assert_string_equal(outcome(f), ends[i].answer);
		fake_workspace_close(&f->workspace);
	}
	/* A file call that had succeeded, or failed, before the cancel reached it. */
	reach(f, FILE_CALL, CALL_ENDING);
	assert_int_equal(end_file(f, TOOL_OK), 0);
	assert_string_equal(outcome(f), " leave = OK exit");
	reach(f, FILE_CALL, CALL_ENDING);
	assert_int_equal(end_file(f, TOOL_NOT_FOUND), 0);
	assert_string_equal(outcome(f), " leave = NOT_FOUND exit");
}

/* Frames that an honest process would not send: the call is as it was, and its process is dropped.
 */
static void test_hostile_frames(void **state)
{
	static const struct {
		enum kind kind;
		uint8_t type;
		struct text payload;
	} frames[] = {
		{COMMAND, COMMAND_ENDED, {NULL, 0}},
		{COMMAND, COMMAND_ENDED, TEXT_LITERAL("short")},
		{COMMAND, COMMAND_READY, {NULL, 0}},
		{COMMAND, FILES_END, {NULL, 0}},
		{FILE_CALL, FILES_END, {NULL, 0}},
		{FILE_CALL, FILES_ENTRY, TEXT_LITERAL("of another tool")},
		{FILE_CALL, FILES_READ, {NULL, 0}},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		reach(f, frames[i].kind, CALL_RUNNING);
		assert_int_equal(give_frame(f, frames[i].type, frames[i].payload), -EBADMSG);
		assert_string_equal(outcome(f), " = running");
		finish(f);
	}
}

static void write_output(struct fixture *f, const char *text)
{
	size_t len = strlen(text);

	assert_int_equal(write(f->workspace.fds[COMMAND_FD_STDOUT], text, len), (ssize_t)len);
}

/* Output that has come is no silence, nor is it one that the client does not read. */
static void test_silence(void **state)
{
	struct fixture *f = *state;
	struct call_request request = make_request(f, COMMAND);

	request.options.idle_timeout_ms = 1000;
	request.options.stream = true;
	start(f, request);
	begin(f);
	(void)fake_workspace_log(&f->workspace);
	fake_clock_pass(999);
	write_output(f, "one");
	fake_clock_pass(1);
	assert_string_equal(f->output, "one");
	assert_string_equal(outcome(f), " = running");
	call_pause_output(f->call);
	fake_clock_pass(1000);
	assert_string_equal(outcome(f), " = running");
	call_resume_output(f->call);
	fake_clock_pass(1000);
	assert_string_equal(outcome(f), " terminate = ending");
	assert_int_equal(end_command(f, (struct command_ended){.end = COMMAND_END_TERMINATED}), 0);
	assert_string_equal(outcome(f), " leave = TIMEOUT idle_timeout");
}

/* Too much output ends a command, also where it is seen only at the end: then it ended by itself.
 */
static void test_output_limit(void **state)
{
	struct fixture *f = *state;

	f->tenant->limits.output_total_bytes = 2;
	reach(f, COMMAND, CALL_RUNNING);
	write_output(f, "too much");
	/* The loop watches the pipes only after a while. */
	fake_clock_pass(10);
	event_base_loop(f->service.base, EVLOOP_NONBLOCK);
	assert_string_equal(outcome(f), " terminate = ending");
	assert_int_equal(end_command(f, (struct command_ended){.end = COMMAND_END_TERMINATED}), 0);
	assert_string_equal(outcome(f), " leave = OUTPUT_LIMIT output_limit");
}

/* Its client has gone: no answer, and the call ends all the same. */
static void test_disowned(void **state)
{
	struct fixture *f = *state;

	for (enum kind kind = 0; kind < KINDS; kind++)
		for (enum call_state from = 0; from < CALL_OVER; from++) {
			reach(f, kind, from);
			call_disown(f->call);
			lose(f);
			assert_string_equal(f->answer, "");
			f->call = NULL;
			finish(f);
		}
}

/* A call whose connection has no room for more answers has not entered its workspace. */
static void test_without_room(void **state)
{
	struct fixture *f = *state;
	struct unread_account account;
	struct call_owner owner = {.done = on_done, .context = f, .unread = &account};
	struct call_request request = make_request(f, FILE_CALL);

	unread_open(&account, &f->service.unread);
	unread_count(&account, LIMIT_UNREAD_BYTES);
	unread_set_full(&account, true);
	f->answer[0] = '\0';
	assert_int_equal(call_start(&f->service, &f->workspace, &request, &owner, &f->call), 0);
	assert_string_equal(outcome(f), " = waiting");
	/* Nor need it leave. */
	call_cancel(f->call, ENDED_BY_CANCEL);
	assert_string_equal(outcome(f), " = CANCELLED cancel");

	request = make_request(f, FILE_CALL);
	f->answer[0] = '\0';
	assert_int_equal(call_start(&f->service, &f->workspace, &request, &owner, &f->call), 0);
	unread_count(&account, -(int64_t)LIMIT_UNREAD_BYTES);
	unread_set_full(&account, false);
	loop_turn_end();
	assert_string_equal(outcome(f), " enter = waiting");
	begin(f);
	/* No room for the result: it is asked to stop, and its end is waited for. */
	unread_count(&account, LIMIT_UNREAD_BYTES);
	assert_int_equal(give_frame(f, FILES_DATA, TEXT_LITERAL("content")), 0);
	assert_string_equal(outcome(f), " read cancel = running");
	assert_int_equal(give_frame(f, FILES_DATA, TEXT_LITERAL("more")), 0);
	assert_int_equal(end_file(f, TOOL_CANCELLED), 0);
	assert_string_equal(outcome(f), " leave = BUSY exit");
	assert_int_equal(f->service.admission.refused[ADMISSION_UNREAD_ANSWERS], 1);
	unread_count(&account, -(int64_t)LIMIT_UNREAD_BYTES);
	assert_int_equal(account.bytes, 0);

	request = make_request(f, FILE_CALL);
	f->answer[0] = '\0';
	assert_int_equal(call_start(&f->service, &f->workspace, &request, &owner, &f->call), 0);
	assert_int_equal(account.short_calls, 1);
	lose(f);
	assert_int_equal(account.short_calls, 0);
	assert_int_equal(account.bytes, 0);
	unread_close(&account);
}

static void note_call(void *context, struct call *call)
{
	*(struct call **)context = call;
}

/* What is seen of a call from outside. */
static void test_info(void **state)
{
	static const char *const names[] = {"waiting", "running", "ending", "killed"};
	struct fixture *f = *state;

	for (enum call_state from = 0; from < CALL_OVER; from++) {
		struct call *found = NULL;
		struct call_info info;

		reach(f, COMMAND, from);
		call_foreach(note_call, &found);
		assert_ptr_equal(found, f->call);
		call_get_info(f->call, &info);
		assert_int_equal(info.state, from);
		assert_string_equal(call_state_name(info.state), names[from]);
		assert_string_equal(info.tool, "run_command");
		assert_true(text_equal(info.subject, TEXT_LITERAL("true")));
		assert_int_equal(info.timeout_ms, TIMEOUT_MS);
		assert_true(info.is_command);
		finish(f);
	}
	reach(f, FILE_CALL, CALL_WAITING);
	assert_int_equal(call_add_input(f->call, TEXT_LITERAL("x"), false, NULL), -EINVAL);
	assert_int_equal(call_pending_input(f->call), 0);
	finish(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_every_event_in_every_state, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_over, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_deadlines, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_waiting, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_deaf_worker, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_causes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_hostile_frames, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_silence, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_output_limit, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_disowned, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_without_room, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_info, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
