/* links: cloister-supervisor */
/* fakes: workspace egress_cell clock */
// SPDX-License-Identifier: Apache-2.0
/* The life of file.watch: what it asks for, a files process that lies, and a client that stops. */
#include "supervisor/call/call_state.h"

#include "common/limits.h"
#include "supervisor/call/call_watch.h"
#include "supervisor/schedule/usage.h"
#include "tests/lib/call_fixture.h"
#include "tests/lib/unit.h"

FIXTURE(set_up, tear_down)

static unsigned begun, events;

static void on_watched(void *context, const struct files_node *node)
{
	(void)context;
	(void)node;
	begun++;
}

static void on_event(void *context, const struct files_event *event)
{
	(void)context;
	(void)event;
	events++;
}

static void start_watch(struct fixture *f, int64_t timeout_ms)
{
	struct call_request request = {
		.tool = &file_methods[TOOL_FILE_WATCH - TOOL_FILE_STAT],
		.tenant = tenant_hold(f->tenant),
		.params = json_object_new_object(),
		.arguments = json_object_new_object(),
		.path = strdup("file"),
	};
	struct call_owner owner = {
		.done = on_done, .context = f, .watched = on_watched, .event = on_event};

	tool_args_defaults(request.tool, &request.args);
	options_defaults(&request.options);
	request.options.timeout_ms = timeout_ms;
	begun = events = 0;
	f->answer[0] = f->message[0] = f->output[0] = '\0';
	assert_int_equal(call_start(&f->service, &f->workspace, &request, &owner, &f->call), 0);
	begin(f);
}

static int tell_node(struct fixture *f)
{
	uint8_t payload[256];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	struct files_node node = {
		.entry = {.path = TEXT_LITERAL("."), .type = FILES_TYPE_DIRECTORY}};

	files_node_put(&writer, &node);
	return give_frame(f, FILES_NODE, (struct text){(char *)payload, writer.len});
}

static int tell_event(struct fixture *f, size_t path_len)
{
	static char path[LIMIT_PATH_BYTES + 1];
	uint8_t payload[LIMIT_PATH_BYTES + 64];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	struct files_event event = {.type = FILES_EVENT_CREATED, .path = {path, path_len}};

	memset(path, 'x', sizeof(path));
	files_event_put(&writer, &event);
	return give_frame(f, FILES_EVENT, (struct text){(char *)payload, writer.len});
}

TEST(test_a_watch_has_no_end)
{
	struct fixture *f = *state;

	start_watch(f, 0);
	assert_string_equal(outcome(f), " enter watch more = running");
	assert_int_equal(f->tenant->usage->calls, 0);
	assert_int_equal(f->tenant->usage->watches, 1);
	assert_false(timer_is_set(&f->call->timer));
	assert_int_equal(tell_node(f), 0);
	assert_int_equal(begun, 1);
	assert_int_equal(tell_event(f, 1), 0);
	assert_int_equal(events, 1);
	call_cancel(f->call, ENDED_BY_CANCEL);
	assert_int_equal(tell_event(f, 1), 0); /* it was on its way */
	assert_int_equal(events, 1);
	assert_int_equal(end_file(f, TOOL_CANCELLED), 0);
	assert_int_equal(f->tenant->usage->watches, 0);
	assert_string_equal(f->answer, "CANCELLED cancel");
}

TEST(test_another_daemon_takes_over)
{
	struct fixture *f = *state;

	start_watch(f, 0);
	assert_int_equal(tell_node(f), 0);
	call_watches_end();
	assert_int_equal(end_file(f, TOOL_CANCELLED), 0);
	assert_string_equal(f->answer, "SHUTTING_DOWN shutdown");
}

/* A client that does not read is asked about before more events are. */
TEST(test_a_flood_of_events)
{
	struct fixture *f = *state;
	int64_t sent = 0;
	int r;

	start_watch(f, 0);
	assert_int_equal(tell_node(f), 0);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(tell_event(f, 4000), 0); /* it is asked for more each time */
		(void)outcome(f);
	}
	call_pause_output(f->call);
	while ((r = tell_event(f, 4000)) == 0)
		sent += 4000;
	assert_int_equal(r, -EBADMSG);
	assert_in_range(sent, 4000, LIMIT_FILE_WATCH_WINDOW);
	finish(f);
}

TEST(test_a_files_process_that_lies)
{
	struct fixture *f = *state;

	for (int i = 0; i < 6; i++) {
		int r = 0;

		start_watch(f, 0);
		if (i > 0)
			assert_int_equal(tell_node(f), 0);
		if (i == 0) /* before it has told of the directory */
			r = tell_event(f, 1);
		else if (i == 1)
			r = tell_node(f);
		else if (i == 2)
			r = tell_event(f, 0);
		else if (i == 3)
			r = tell_event(f, LIMIT_PATH_BYTES + 1);
		else if (i == 4)
			r = give_frame(f, FILES_EVENT, TEXT_LITERAL("x"));
		else
			r = give_frame(f, FILES_DATA, TEXT_LITERAL("x"));
		assert_int_equal(r, -EBADMSG);
		assert_int_equal(events, 0);
		finish(f);
	}
}
