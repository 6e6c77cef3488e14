/* links: cloister-supervisor */
/* fakes: workspace egress_cell clock */
// SPDX-License-Identifier: Apache-2.0
/* The life of file.read and file.write: what they ask for, what a files process that lies can do,
 * and a client that stops. */
#include "supervisor/call/call_begin.h"
#include "supervisor/call/call_state.h"

#include "common/limits.h"
#include "supervisor/call/call_stream.h"
#include "tests/lib/call_fixture.h"
#include "tests/lib/unit.h"

FIXTURE(set_up, tear_down)

static struct call_request request_of(struct fixture *f, enum tool_id id)
{
	struct call_request request = {
		.tool = &file_methods[id - TOOL_FILE_STAT],
		.tenant = tenant_hold(f->tenant),
		.params = json_object_new_object(),
		.arguments = json_object_new_object(),
		.path = strdup("file"),
	};

	tool_args_defaults(request.tool, &request.args);
	options_defaults(&request.options);
	return request;
}

static char taken[128]; /* "LABEL taken closed, ..." */

static void on_taken(void *context, const char *label, size_t bytes, bool closed)
{
	size_t len = strlen(taken);

	(void)context;
	snprintf(taken + len, sizeof(taken) - len, "%s %zu%s, ", label, bytes,
		closed ? " closed" : "");
}

static void start_method(struct fixture *f, enum tool_id id)
{
	struct call_request request = request_of(f, id);
	struct call_owner owner = {
		.done = on_done, .output = on_output, .input_taken = on_taken, .context = f};

	taken[0] = f->answer[0] = f->message[0] = f->output[0] = '\0';
	assert_int_equal(call_start(&f->service, &f->workspace, &request, &owner, &f->call), 0);
}

static int tell_node(struct fixture *f)
{
	uint8_t payload[256];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	struct files_node node = {
		.entry = {.path = TEXT_LITERAL("file"), .type = FILES_TYPE_FILE, .size = 7}};

	files_node_put(&writer, &node);
	return give_frame(f, FILES_NODE, (struct text){(char *)payload, writer.len});
}

static uint64_t amount_asked(const struct fixture *f)
{
	struct files_amount amount;

	assert_int_equal(
		files_amount_get(
			(struct text){f->workspace.request, f->workspace.request_len}, &amount),
		0);
	return amount.bytes;
}

static int tell_taken(struct fixture *f, uint64_t bytes)
{
	uint8_t payload[FILES_AMOUNT_SIZE];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	files_amount_put(&writer, &(struct files_amount){bytes});
	return give_frame(f, FILES_TAKEN, (struct text){(char *)payload, writer.len});
}

static int add(struct fixture *f, const char *label, const char *text, bool eof)
{
	char *kept = strdup(label);
	int r = call_add_input(f->call, text_from(text), eof, &kept);

	assert_int_equal(kept != NULL, r < 0);
	free(kept);
	return r;
}

TEST(test_a_read_asks_for_no_more_than_its_window)
{
	struct fixture *f = *state;
	static const char bytes[LIMIT_FILE_STREAM_WINDOW];
	const struct text half = {bytes, sizeof(bytes) / 2};

	start_method(f, TOOL_FILE_READ);
	begin(f);
	assert_string_equal(outcome(f), " enter fetch = running");
	assert_int_equal(tell_node(f), 0);
	assert_string_equal(outcome(f), " more = running");
	assert_int_equal(amount_asked(f), half.len);
	assert_int_equal(call_stream_size(f->call), 7);
	/* It never asks for more than it can take, and its client stops it. */
	call_pause_output(f->call);
	assert_int_equal(give_frame(f, FILES_DATA, half), 0);
	assert_string_equal(outcome(f), " = running");
	call_resume_output(f->call);
	assert_string_equal(outcome(f), " more = running");
	assert_int_equal(give_frame(f, FILES_DATA, TEXT_LITERAL("abc")), 0);
	assert_string_equal(f->output + strlen(f->output) - 3, "abc");
	assert_int_equal(end_file(f, TOOL_OK), 0);
	assert_string_equal(outcome(f), " more leave = OK exit");
}

TEST(test_a_files_process_sends_what_it_was_not_asked_for)
{
	struct fixture *f = *state;
	static const char bytes[LIMIT_FILE_STREAM_WINDOW / 2 + 1];

	for (int i = 0; i < 5; i++) {
		int r = 0;

		start_method(f, TOOL_FILE_READ);
		begin(f);
		if (i > 0)
			assert_int_equal(tell_node(f), 0);
		if (i == 0) /* before it has told of the file */
			r = give_frame(f, FILES_DATA, TEXT_LITERAL("x"));
		else if (i == 1)
			r = give_frame(f, FILES_DATA, (struct text){bytes, sizeof(bytes)});
		else if (i == 2)
			r = give_frame(f, FILES_DATA, (struct text){bytes, 0});
		else if (i == 3)
			r = tell_node(f);
		else
			r = tell_taken(f, 1);
		assert_int_equal(r, -EBADMSG);
		finish(f);
	}
}

TEST(test_a_write_passes_on_what_comes)
{
	struct fixture *f = *state;

	start_method(f, TOOL_FILE_WRITE);
	assert_int_equal(add(f, "early", "ab", false), 0);
	assert_int_equal(call_pending_input(f->call), 2);
	begin(f);
	assert_string_equal(outcome(f), " enter write body = running");
	assert_int_equal(add(f, "late", "cde", true), 0);
	assert_int_equal(add(f, "later", "f", false), -EPIPE);
	assert_int_equal(f->workspace.streaming, 5);
	assert_int_equal(tell_taken(f, 3), 0);
	assert_string_equal(taken, "early 2, ");
	assert_string_equal(outcome(f), " body = running");
	assert_int_equal(tell_taken(f, 2), 0);
	assert_string_equal(taken, "early 2, late 3, ");
	assert_string_equal(outcome(f), " go = running");
	assert_int_equal(end_file(f, TOOL_OK), 0);
	assert_string_equal(outcome(f), " leave = OK exit");
	assert_int_equal(f->workspace.streaming, 0);
}

TEST(test_an_empty_file_and_a_write_that_fails)
{
	struct fixture *f = *state;

	start_method(f, TOOL_FILE_WRITE);
	assert_int_equal(add(f, "end", "", true), 0);
	begin(f);
	assert_string_equal(outcome(f), " enter write go = running");
	assert_int_equal(end_file(f, TOOL_OK), 0);
	(void)outcome(f);
	start_method(f, TOOL_FILE_WRITE);
	begin(f);
	assert_int_equal(add(f, "a", "abc", false), 0);
	assert_int_equal(tell_taken(f, 1), 0);
	assert_int_equal(end_file(f, TOOL_NO_SPACE), 0);
	assert_string_equal(taken, "a 1 closed, ");
	assert_string_equal(outcome(f), " enter write body leave = NO_SPACE exit");
}

TEST(test_a_files_process_has_written_more_than_it_got)
{
	struct fixture *f = *state;

	start_method(f, TOOL_FILE_WRITE);
	begin(f);
	assert_int_equal(add(f, "a", "abc", false), 0);
	assert_int_equal(tell_taken(f, 4), -EBADMSG);
	finish(f);
}

/* Each byte that moves gives the stream its time again; then the one who stops does not matter. */
TEST(test_a_stream_on_which_nothing_moves)
{
	struct fixture *f = *state;

	start_method(f, TOOL_FILE_READ);
	begin(f);
	assert_int_equal(tell_node(f), 0);
	fake_clock_pass(TIMEOUT_MS - 1);
	assert_int_equal(give_frame(f, FILES_DATA, TEXT_LITERAL("x")), 0);
	fake_clock_pass(TIMEOUT_MS - 1);
	assert_int_equal(f->call->state, CALL_RUNNING);
	fake_clock_pass(1);
	assert_int_equal(f->call->state, CALL_ENDING);
	assert_int_equal(end_file(f, TOOL_CANCELLED), 0);
	assert_string_equal(f->answer, "TIMEOUT timeout");
	assert_non_null(strstr(f->message, "no byte has moved"));
	(void)outcome(f);

	start_method(f, TOOL_FILE_WRITE);
	begin(f);
	fake_clock_pass(TIMEOUT_MS - 1);
	assert_int_equal(add(f, "a", "x", false), 0);
	fake_clock_pass(TIMEOUT_MS - 1);
	assert_int_equal(f->call->state, CALL_RUNNING);
	fake_clock_pass(1);
	assert_int_equal(end_file(f, TOOL_CANCELLED), 0);
	assert_string_equal(f->answer, "TIMEOUT timeout");
	assert_string_equal(taken, "a 0 closed, ");
	(void)outcome(f);
}

/* What a stream has written counts, though no measurement finds it. */
TEST(test_a_write_beyond_the_disk)
{
	struct fixture *f = *state;

	f->workspace.disk = (struct disk_state){
		.enforcer = DISK_ENFORCER_MEASURED, .known = true, .bytes = 1, .limit = 10};
	start_method(f, TOOL_FILE_WRITE);
	begin(f);
	assert_int_equal(add(f, "a", "123456789", false), 0);
	f->workspace.disk.bytes += f->workspace.streaming;
	assert_int_equal(add(f, "b", "x", false), 0);
	assert_int_equal(f->call->state, CALL_ENDING);
	assert_int_equal(end_file(f, TOOL_CANCELLED), 0);
	assert_string_equal(f->answer, "QUOTA_EXCEEDED disk");
	assert_non_null(strstr(f->message, "nothing was written"));
	(void)outcome(f);
	/* One that waits. */
	start_method(f, TOOL_FILE_WRITE);
	assert_int_equal(add(f, "a", "x", false), 0);
	assert_string_equal(f->answer, "QUOTA_EXCEEDED disk");
	assert_string_equal(taken, "a 0 closed, ");
	(void)outcome(f);
}
