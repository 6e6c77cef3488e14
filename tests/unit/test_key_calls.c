/* links: cloister-supervisor */
/* fakes: workspace egress_cell clock disk */
// SPDX-License-Identifier: Apache-2.0
/* Calls with keys that wait for the journal or for another call. The test plays the workspace. */
#include "common/wake_cost.h"
#include "supervisor/base/shared_fd.h"
#include "supervisor/call/keys/call_keyed.h"
#include "supervisor/call/keys/key_journal.h"
#include "supervisor/call/keys/key_table.h"
#include "supervisor/call/keys/keys.h"
#include "supervisor/call/result/observation_json.h"

#include "supervisor/base/json_text.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/journal/journal.h"
#include "tests/unit/fakes/disk.h"

#include <time.h>

#include "tests/lib/call_fixture.h"
#include "tests/lib/keys_fixture.h"
#include "tests/lib/unit.h"

#include <event2/buffer.h>

/* Ends the call, and empties the journal. */
static void leave_free(struct fixture *f)
{
	finish(f);
	restart(f);
	(void)unlinkat(scratch.fd, "keys.0", 0);
	(void)unlinkat(scratch.fd, "keys.1", 0);
	restart(f);
}

/* Calls. */

static void start_second(
	struct fixture *f, struct call_request request, struct call_owner owner, struct call **ret)
{
	assert_int_equal(call_start(&f->service, &f->workspace, &request, &owner, ret), 0);
}

FIXTURE(set_up_keys, tear_down_keys)

/* While the beginning is on its way to a disk that does not answer. */
TEST(test_recording)
{
	struct fixture *f = *state;

	close_keys(f);
	open_keys(f, true); /* and its thread is not started */
	start(f, keyed(f, FILE_CALL, 'a', 'd'));
	begin(f);
	assert_string_equal(outcome(f), " enter = recording");
	assert_string_equal(arrival(f, 'a', 'd'), "join");
	call_cancel(f->call, ENDED_BY_CANCEL);
	assert_string_equal(outcome(f), " leave = CANCELLED cancel");
	assert_string_equal(arrival(f, 'a', 'd'), "run");
	fake_workspace_close(&f->workspace);

	start(f, keyed(f, FILE_CALL, 'a', 'd'));
	begin(f);
	(void)fake_workspace_log(&f->workspace);
	fake_clock_pass(TIMEOUT_MS);
	assert_string_equal(outcome(f), " leave = TIMEOUT timeout");
	fake_workspace_close(&f->workspace);

	start(f, keyed(f, FILE_CALL, 'a', 'd'));
	begin(f);
	(void)fake_workspace_log(&f->workspace);
	lose(f);
	assert_string_equal(outcome(f), " = WORKER_LOST worker_lost");
	assert_string_equal(arrival(f, 'a', 'd'), "run");
	finish(f);
	/* What began none is free after a restart too. */
	assert_int_equal(keys_start(f->service.keys, f->service.base), 0);
	restart(f);
	assert_string_equal(arrival(f, 'a', 'd'), "run");
}

/* Commands, which wait at a gate meanwhile. */

static void start_gated(struct fixture *f)
{
	f->workspace.heard = true;
	start(f, keyed(f, COMMAND, 'a', 'd'));
	begin(f);
	assert_string_equal(outcome(f), " enter run body = running");
	assert_true(f->call->is_gated);
	assert_string_equal(arrival(f, 'a', 'd'), "join");
}

/* What a command would read: the first byte decides. 0: the end. */
static char first_byte(const struct fixture *f)
{
	char byte = 0;

	/* It comes last, since the command has no input. */
	assert_int_equal(f->workspace.n_fds, 3);
	loop_turn_end(); /* which wakes the thread */
	assert_true(read(f->workspace.fds[2], &byte, 1) >= 0);
	return byte;
}

static const struct command_ended not_begun = {
	.end = COMMAND_END_NOT_BEGUN, .launch_error = ECANCELED};

TEST(test_a_gate_that_stays_shut)
{
	struct fixture *f = *state;
	enum { CANCEL, TOO_LATE, LOST, LIE, CASES };

	close_keys(f);
	open_keys(f, true); /* and its thread is not started */
	for (int i = 0; i < CASES; i++) {
		start_gated(f);
		switch (i) {
		case CANCEL:
			call_cancel(f->call, ENDED_BY_CANCEL);
			assert_string_equal(outcome(f), " terminate = ending");
			assert_int_equal(end_command(f, not_begun), 0);
			assert_string_equal(outcome(f), " leave = CANCELLED cancel");
			break;
		case TOO_LATE:
			fake_clock_pass(QUEUE_MS);
			assert_string_equal(outcome(f), " terminate = ending");
			assert_int_equal(end_command(f, not_begun), 0);
			assert_string_equal(outcome(f), " leave = BUSY worker_lost");
			assert_non_null(strstr(f->message, "journal"));
			break;
		case LOST:
			lose(f);
			assert_string_equal(outcome(f), " = WORKER_LOST worker_lost");
			break;
		default: /* a worker that runs it all the same cannot have a result kept for it */
			assert_int_equal(
				end_command(f, (struct command_ended){.end = COMMAND_END_EXIT}), 0);
			assert_string_equal(outcome(f), " leave = OK exit");
		}
		assert_string_equal(arrival(f, 'a', 'd'), "run");
		assert_int_equal(first_byte(f), 0);
		fake_workspace_close(&f->workspace);
	}
	/* The thread writes all of them now, and their keys stay free. */
	assert_int_equal(keys_start(f->service.keys, f->service.base), 0);
	restart(f);
	assert_string_equal(arrival(f, 'a', 'd'), "run");
}

static void await_record(struct fixture *f)
{
	while (f->call->is_gated)
		event_base_loop(f->service.base, EVLOOP_ONCE);
}

/* Each reading is so much later that a call between two was dear once too often. */
static int64_t be_dear(void)
{
	static _Atomic int64_t ns;

	return ns += 2 * LIMIT_WAKES_DEAR_US * CLOCK_NS_PER_US;
}

static void be_at_fault(void *context)
{
	++*(unsigned *)context;
}

/* The worker's end of the gate has many waiters, such as watches of epoll(7). */
TEST(test_a_gate_that_is_dear)
{
	struct fixture *f = *state;
	unsigned dear = 0;

	close_keys(f);
	open_keys(f, true);
	assert_int_equal(keys_start(f->service.keys, f->service.base), 0);
	f->workspace.fd_sum = shared_fd_sum_new(be_at_fault, &dear);
	wake_cost_replace_clocks(be_dear, be_dear);
	start_gated(f);
	assert_int_equal(first_byte(f), COMMAND_GATE_OPEN);
	while (dear == 0)
		event_base_loop(f->service.base, EVLOOP_ONCE);
	wake_cost_replace_clocks(NULL, NULL);
	await_record(f);
	assert_int_equal(end_command(f, (struct command_ended){.end = COMMAND_END_EXIT}), 0);
	assert_string_equal(outcome(f), " leave = OK exit");
	leave_free(f);
	shared_fd_sum_free(TAKE_PTR(f->workspace.fd_sum));
}

TEST(test_a_gate_that_is_opened)
{
	struct fixture *f = *state;

	for (int durable = 0; durable < 2; durable++) {
		close_keys(f);
		open_keys(f, durable);
		assert_int_equal(keys_start(f->service.keys, f->service.base), 0);
		start_gated(f);
		assert_int_equal(first_byte(f), COMMAND_GATE_OPEN);
		/* The loop may hear of the command's end before it hears of the record. */
		assert_true(f->call->is_gated);
		if (durable)
			await_record(f);
		assert_int_equal(
			end_command(f, (struct command_ended){.end = COMMAND_END_EXIT}), 0);
		assert_string_equal(outcome(f), " leave = OK exit");
		assert_string_equal(arrival(f, 'a', 'd'), "replay");
		leave_free(f);
	}
	/* Its deadline begins when it is recorded. */
	close_keys(f);
	open_keys(f, false);
	assert_int_equal(keys_start(f->service.keys, f->service.base), 0);
	start_gated(f);
	assert_int_equal(first_byte(f), COMMAND_GATE_OPEN);
	fake_clock_pass(QUEUE_MS);
	assert_false(f->call->is_gated);
	assert_string_equal(outcome(f), " = running");
	fake_clock_pass(TIMEOUT_MS - QUEUE_MS);
	assert_string_equal(outcome(f), " terminate = ending");
	leave_free(f);
}

TEST(test_a_record_that_cannot_be_written_at_a_gate)
{
	struct fixture *f = *state;

	close_keys(f);
	open_keys(f, false);
	assert_int_equal(keys_start(f->service.keys, f->service.base), 0);
	fake_disk_error = ENOSPC;
	fake_disk_room = 0;
	start_gated(f);
	await_record(f);
	assert_int_equal(first_byte(f), 0);
	assert_int_equal(end_command(f, not_begun), 0);
	assert_string_equal(outcome(f), " leave = BUSY worker_lost");
	assert_non_null(strstr(f->message, "The journal of keys cannot be written"));
	assert_string_equal(arrival(f, 'a', 'd'), "run");
	fake_disk_reset();
	leave_free(f);
}

TEST(test_a_beginning_that_cannot_be_written)
{
	struct fixture *f = *state;

	fake_disk_error = ENOSPC;
	fake_disk_room = 0;
	start(f, keyed(f, COMMAND, 'a', 'd'));
	begin(f);
	assert_string_equal(outcome(f), " enter leave = BUSY worker_lost");
	assert_non_null(strstr(f->message, "The journal of keys cannot be written"));
	finish(f);
	/* Calls without a key do not notice. */
	reach(f, COMMAND, CALL_RUNNING);
	finish(f);
	fake_disk_reset();
}

static struct fixture joined_fixture;

static void on_joined_done(void *context, const struct observation *observation)
{
	struct fixture *f = context;
	struct evbuffer *buffer = evbuffer_new();
	struct json_text json = json_text(buffer);

	f->call = NULL;
	snprintf(f->answer, sizeof(f->answer), "%s",
		observation->error == TOOL_OK ? "OK" : tool_error_name(observation->error));
	observation_write(&json, observation);
	assert_int_equal(json_text_flush(&json), 0);
	assert_int_equal(evbuffer_add(buffer, "", 1), 0);
	assert_null(strstr((char *)evbuffer_pullup(buffer, -1), "replayed"));
	assert_non_null(strstr((char *)evbuffer_pullup(buffer, -1), "\"key_horizon_ms\":3600000}"));
	evbuffer_free(buffer);
}

/* Starts a call and one that joins it, and returns the second one's fixture. */
static struct fixture *join(struct fixture *f, bool begun)
{
	struct fixture *second = &joined_fixture;
	struct call_owner owner = {.done = on_joined_done, .context = second};

	*second = (struct fixture){0};
	f->workspace.heard = true;
	start(f, keyed(f, COMMAND, 'j', 'd'));
	if (begun)
		begin(f);
	assert_string_equal(arrival(f, 'j', 'd'), "join");
	start_second(f, keyed(f, COMMAND, 'j', 'd'), owner, &second->call);
	assert_int_equal(second->call->state, CALL_JOINED);
	(void)fake_workspace_log(&f->workspace);
	return second;
}

TEST(test_joined)
{
	struct fixture *f = *state, *second;
	enum { END, LOST, SHUTDOWN, CANCEL_FIRST, CANCEL_SECOND, DEADLINE, LOSE_FIRST, CASES };

	for (int i = 0; i < CASES; i++) {
		second = join(f, true);
		switch (i) {
		case END:
			end_command(f, (struct command_ended){.end = COMMAND_END_EXIT});
			assert_string_equal(outcome(f), " leave = OK exit");
			assert_string_equal(second->answer, "OK");
			break;
		case LOST:
			lose(f);
			assert_string_equal(second->answer, "WORKER_LOST");
			break;
		case SHUTDOWN:
			call_cancel(f->call, ENDED_BY_SHUTDOWN);
			assert_string_equal(second->answer, "");
			end_command(f, (struct command_ended){.end = COMMAND_END_TERMINATED});
			assert_string_equal(second->answer, "SHUTTING_DOWN");
			break;
		case CANCEL_FIRST:
			f->owner_left = true;
			call_cancel(f->call, ENDED_BY_CANCEL);
			assert_string_equal(f->answer, "CANCELLED cancel");
			end_command(f, (struct command_ended){.end = COMMAND_END_EXIT});
			assert_string_equal(second->answer, "OK");
			f->owner_left = false;
			break;
		case CANCEL_SECOND:
			call_cancel(second->call, ENDED_BY_CANCEL);
			assert_string_equal(second->answer, "CANCELLED");
			assert_string_equal(outcome(f), " = running");
			break;
		case DEADLINE:
			second->call->request.options.timeout_ms = 1;
			fake_clock_pass_until(&second->call->timer);
			assert_string_equal(second->answer, "TIMEOUT");
			break;
		default:
			call_lose_client(f->call);
			f->call = NULL;
			assert_int_equal(call_count_left_behind(), 1);
			end_command(f, (struct command_ended){.end = COMMAND_END_EXIT});
			assert_string_equal(second->answer, "OK");
		}
		leave_free(f);
		assert_null(second->call);
		assert_int_equal(call_count_left_behind(), 0);
	}
}

/* One that has not begun goes on waiting for those that joined it; its last one ends it. */
TEST(test_joined_before_it_began)
{
	struct fixture *f = *state, *second = join(f, false);

	call_lose_client(f->call);
	f->call = NULL;
	begin(f);
	assert_string_equal(fake_workspace_log(&f->workspace), " run body");
	end_command(f, (struct command_ended){.end = COMMAND_END_EXIT});
	assert_string_equal(second->answer, "OK");
	leave_free(f);
}

TEST(test_a_lost_client)
{
	struct fixture *f = *state;
	struct call *call;

	/* A call that has begun and can have effects goes on. */
	start(f, keyed(f, COMMAND, 'a', 'd'));
	begin(f);
	(void)fake_workspace_log(&f->workspace);
	call = f->call;
	f->call = NULL;
	call_lose_client(call);
	assert_string_equal(fake_workspace_log(&f->workspace), "");
	assert_int_equal(call_count_left_behind(), 1);
	end_command(f, (struct command_ended){.end = COMMAND_END_EXIT});
	assert_string_equal(arrival(f, 'a', 'd'), "replay");
	fake_workspace_close(&f->workspace);
	/* The result of one that has none is kept too, but it does not go on. */
	start(f, keyed(f, FILE_CALL, 'c', 'd'));
	begin(f);
	assert_int_equal(end_file(f, TOOL_NOT_FOUND), 0);
	assert_string_equal(arrival(f, 'c', 'd'), "replay");
	fake_workspace_close(&f->workspace);
	/* One that has none, or no key, ends. */
	for (int i = 0; i < 2; i++) {
		start(f, i == 0 ? keyed(f, FILE_CALL, 'b', 'd') : make_request(f, COMMAND));
		begin(f);
		(void)fake_workspace_log(&f->workspace);
		call = f->call;
		f->call = NULL;
		call_lose_client(call);
		assert_string_equal(
			fake_workspace_log(&f->workspace), i == 0 ? " cancel" : " terminate");
		/* The client may ask again before the first one has ended. */
		assert_string_equal(arrival(f, 'b', 'd'), "run");
		lose(f);
		fake_workspace_close(&f->workspace);
	}
}

/* It is cancelled when nobody has waited for it for key_wait_ms, and only then. */
TEST(test_a_client_that_does_not_come_back)
{
	struct fixture *f = *state, *second = &joined_fixture;
	struct call_owner owner = {.done = on_joined_done, .context = second};
	struct call_request request = keyed(f, COMMAND, 'j', 'd');
	struct call *call;

	*second = (struct fixture){0};
	f->workspace.heard = true;
	request.options.key_wait_ms = 100;
	start(f, request);
	begin(f);
	(void)fake_workspace_log(&f->workspace);
	call = f->call;
	f->call = NULL;
	call_lose_client(call);
	fake_clock_pass(99);
	start_second(f, keyed(f, COMMAND, 'j', 'd'), owner, &second->call);
	fake_clock_pass(500);
	assert_string_equal(fake_workspace_log(&f->workspace), "");
	call_lose_client(second->call);
	second->call = NULL;
	fake_clock_pass(99);
	assert_string_equal(fake_workspace_log(&f->workspace), "");
	fake_clock_pass(1);
	assert_string_equal(fake_workspace_log(&f->workspace), " terminate");
	end_command(f, (struct command_ended){.end = COMMAND_END_TERMINATED});
	assert_string_equal(arrival(f, 'j', 'd'), "replay");
	leave_free(f);
}

/* There is no room for the result of a patch: it is cancelled, and not let go. */
TEST(test_no_room_for_what_is_held)
{
	static char frame[2 * LIMIT_PATH_BYTES], path[LIMIT_PATH_BYTES];
	struct fixture *f = *state;
	struct unread_account account;
	struct call_owner owner = {.done = on_done, .context = f, .unread = &account};
	struct call_request request = keyed(f, FILE_CALL, 'h', 'd');
	struct wire_writer writer;

	request.tool = &tools[TOOL_APPLY_PATCH];
	memset(path, 'x', sizeof(path));
	unread_open(&account, &f->service.unread);
	f->answer[0] = '\0';
	assert_int_equal(call_start(&f->service, &f->workspace, &request, &owner, &f->call), 0);
	begin(f);
	(void)fake_workspace_log(&f->workspace);
	unread_count(&account, LIMIT_UNREAD_BYTES);
	for (uint32_t n = 0; n < 20; n++) {
		const struct files_patched file = {.index = n,
			.operation = FILES_UPDATE,
			.path = {path, sizeof(path)},
			.found = TEXT_LITERAL("before")};

		writer = wire_writer(frame, sizeof(frame));
		files_patched_put(&writer, &file);
		assert_int_equal(give_frame(f, FILES_PATCHED, (struct text){frame, writer.len}), 0);
	}
	assert_string_equal(outcome(f), " cancel = running");
	writer = wire_writer(frame, sizeof(frame));
	files_held_put(&writer, &(struct files_held){0});
	assert_int_equal(give_frame(f, FILES_HELD, (struct text){frame, writer.len}), 0);
	assert_string_equal(outcome(f), " = running");
	assert_int_equal(end_file(f, TOOL_CANCELLED), 0);
	assert_string_equal(outcome(f), " leave = BUSY exit");
	assert_string_equal(arrival(f, 'h', 'd'), "run");
	unread_count(&account, -(int64_t)LIMIT_UNREAD_BYTES);
	unread_close(&account);
}
