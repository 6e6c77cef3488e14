/* links: cloister-supervisor */
/* fakes: workspace egress_cell clock */
// SPDX-License-Identifier: Apache-2.0
/* How a call ended, as its answer reports it: the cause, the frames of its process, its output, and
 * the memory for the answer. */
#include "supervisor/call/call_begin.h"
#include "supervisor/call/call_state.h"

#include "supervisor/call/call_info.h"
#include "tests/lib/call_fixture.h"
#include "tests/lib/unit.h"

FIXTURE(set_up, tear_down)

/* The first cause is reported, if it is what ended the command. */
TEST(test_causes)
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
		{CALL_RUNNING, {.end = COMMAND_END_EXIT, .wait_status = 1 << 8, .disk_full = true},
			" leave = QUOTA_EXCEEDED disk"},
		{CALL_RUNNING, {.end = COMMAND_END_EXIT, .disk_full = true}, " leave = OK exit"},
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
	/* The file call had succeeded or failed before the cancel reached its process. */
	reach(f, FILE_CALL, CALL_ENDING);
	assert_int_equal(end_file(f, TOOL_OK), 0);
	assert_string_equal(outcome(f), " leave = OK exit");
	reach(f, FILE_CALL, CALL_ENDING);
	assert_int_equal(end_file(f, TOOL_NOT_FOUND), 0);
	assert_string_equal(outcome(f), " leave = NOT_FOUND exit");
}

/* Frames that an honest process would not send: the call stays as it was, and cloisterd drops the
 * process. */
TEST(test_hostile_frames)
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

/* Output that cloisterd has received ends the silence, even if the client does not read it. */
TEST(test_silence)
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
	assert_string_equal(outcome(f), " = running");
	read_output(f);
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

/*
 * What a command has left in its pipes is read before it is answered, also if its worker is lost;
 * a process that holds the lock of a pipe is ended then.
 */
TEST(test_output_that_is_left)
{
	struct fixture *f = *state;

	for (int i = 0; i < 3; i++) {
		struct call_request request = make_request(f, COMMAND);

		request.options.stream = true;
		start(f, request);
		begin(f);
		write_output(f, "left");
		(void)fake_workspace_log(&f->workspace);
		if (i == 0)
			assert_int_equal(
				end_command(f, (struct command_ended){.end = COMMAND_END_EXIT}), 0);
		else
			lose(f);
		assert_string_equal(f->answer, "");
		if (i == 2)
			call_pipe_held(f->call);
		else
			read_output(f);
		assert_string_equal(f->output, i == 2 ? "" : "left");
		assert_string_equal(f->answer, i == 0 ? "OK exit" : "WORKER_LOST worker_lost");
		finish(f);
	}
}

/* Too much output ends a command. If cloisterd sees it only after the end, the command ended by
 * itself. */
TEST(test_output_limit)
{
	struct fixture *f = *state;

	f->tenant->limits.output_total_bytes = 2;
	reach(f, COMMAND, CALL_RUNNING);
	write_output(f, "too much");
	/* The loop watches the pipes only after a delay. */
	fake_clock_pass(10);
	read_output(f);
	assert_string_equal(outcome(f), " terminate = ending");
	assert_int_equal(end_command(f, (struct command_ended){.end = COMMAND_END_TERMINATED}), 0);
	assert_string_equal(outcome(f), " leave = OUTPUT_LIMIT output_limit");
}

/* A patch whose result is too large to be told is made all the same, or made in part. */
static void test_patch_without_room(struct fixture *f, const struct call_owner *owner)
{
	static const struct {
		enum tool_error error;
		bool stepped;
		const char *answer, *message;
	} cases[] = {
		{TOOL_OK, true, "EXECUTION_ERROR", "The change was made, but"},
		{TOOL_STALE_FILE, true, "EXECUTION_ERROR", "The patch was made in part"},
		{TOOL_BUSY, true, "EXECUTION_ERROR", "The patch was made in part"},
		{TOOL_BUSY, false, "BUSY", ""},
	};

	static char frame[2 * LIMIT_PATH_BYTES], long_path[LIMIT_PATH_BYTES];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct call_request request = make_request(f, FILE_CALL);
		struct unread_account *account = owner->unread;

		request.tool = &tools[TOOL_APPLY_PATCH];
		f->answer[0] = '\0';
		assert_int_equal(
			call_start(&f->service, &f->workspace, &request, owner, &f->call), 0);
		begin(f);
		unread_count(account, LIMIT_UNREAD_BYTES);
		for (uint32_t n = 0; n < 20; n++) {
			struct files_patched file = {.index = n, .operation = FILES_UPDATE};
			struct wire_writer writer = wire_writer(frame, sizeof(frame));

			file.path = (struct text){long_path, LIMIT_PATH_BYTES};
			memset(long_path, 'x', sizeof(long_path));
			files_patched_put(&writer, &file);
			assert_int_equal(
				give_frame(f, FILES_PATCHED, (struct text){frame, writer.len}), 0);
		}
		if (cases[i].stepped) {
			struct wire_writer writer = wire_writer(frame, sizeof(frame));

			files_step_put(&writer, &(struct files_step){.state = FILES_CHANGED});
			assert_int_equal(
				give_frame(f, FILES_STEP, (struct text){frame, writer.len}), 0);
		}
		assert_int_equal(end_file(f, cases[i].error), 0);
		assert_memory_equal(f->answer, cases[i].answer, strlen(cases[i].answer));
		assert_memory_equal(f->message, cases[i].message, strlen(cases[i].message));
		unread_count(account, -(int64_t)LIMIT_UNREAD_BYTES);
	}
}

/* The connection has no room for another answer, so the call has not entered its workspace. */
TEST(test_without_room)
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
	/* So it does not leave the workspace either. */
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
	/* There is no room for the result: cloisterd asks the process to stop and waits for the
	 * end. */
	unread_count(&account, LIMIT_UNREAD_BYTES);
	assert_int_equal(give_frame(f, FILES_DATA, TEXT_LITERAL("content")), 0);
	assert_string_equal(outcome(f), " read cancel = running");
	assert_int_equal(give_frame(f, FILES_DATA, TEXT_LITERAL("more")), 0);
	assert_int_equal(end_file(f, TOOL_CANCELLED), 0);
	assert_string_equal(outcome(f), " leave = BUSY exit");
	assert_int_equal(f->service.admission.refused[ADMISSION_UNREAD_ANSWERS], 1);
	unread_count(&account, -(int64_t)LIMIT_UNREAD_BYTES);
	assert_int_equal(account.bytes, 0);

	/* A change that has been made is told. */
	request = make_request(f, FILE_CALL);
	request.tool = &tools[TOOL_EDIT_FILE];
	f->answer[0] = '\0';
	assert_int_equal(call_start(&f->service, &f->workspace, &request, &owner, &f->call), 0);
	begin(f);
	unread_count(&account, LIMIT_UNREAD_BYTES);
	assert_int_equal(give_frame(f, FILES_DATA, TEXT_LITERAL("diff")), 0);
	assert_int_equal(end_file(f, TOOL_OK), 0);
	assert_string_equal(f->answer, "OK exit");
	(void)fake_workspace_log(&f->workspace);
	unread_count(&account, -(int64_t)LIMIT_UNREAD_BYTES);
	assert_int_equal(account.bytes, 0);

	test_patch_without_room(f, &owner);
	(void)fake_workspace_log(&f->workspace);
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

/* What cloisterd shows of a call in each state. */
TEST(test_info)
{
	static const char *const names[] = {"waiting", "running", "ending", "killed", "summing"};
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
