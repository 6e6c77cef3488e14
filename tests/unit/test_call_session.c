/* links: cloister-supervisor */
/* fakes: workspace egress_cell clock */
// SPDX-License-Identifier: Apache-2.0
/* The call of a session's command: its lifetime, its signals and the sizes of its terminal. The
 * test plays the workspace and controls the clock. */
#include "supervisor/call/call_state.h"

#include "supervisor/call/call_session.h"
#include "tests/lib/call_fixture.h"
#include "tests/lib/unit.h"

#define LIFETIME_MS 7200000 /* beyond every deadline of a call */

static void start_session(struct fixture *f)
{
	struct call_request request = make_request(f, COMMAND);

	request.session = (struct call_session){.id = "id", .lifetime_ms = LIFETIME_MS};
	request.options.idle_timeout_ms = 0;
	f->workspace.heard = true;
	start(f, request);
	assert_int_equal(entry(f)->class, CALL_CLASS_SESSION);
}

static void begin_session(struct fixture *f)
{
	start_session(f);
	begin(f);
	(void)fake_workspace_log(&f->workspace);
}

FIXTURE(set_up, tear_down)

/* It takes no place of a call, waits for no turn of a command, and is over with its lifetime. */
TEST(test_a_sessions_command)
{
	struct fixture *f = *state;

	start_session(f);
	assert_int_equal(f->tenant->usage->calls, 0);
	fake_clock_pass(QUEUE_MS + TIMEOUT_MS);
	assert_string_equal(outcome(f), " enter = waiting");
	begin(f);
	assert_string_equal(outcome(f), " run body = running");
	fake_clock_pass(LIFETIME_MS - QUEUE_MS - TIMEOUT_MS);
	assert_string_equal(outcome(f), " terminate = ending");
	assert_int_equal(end_command(f, (struct command_ended){.end = COMMAND_END_TERMINATED}), 0);
	assert_string_equal(outcome(f), " leave = TIMEOUT lifetime");
	assert_int_equal(f->service.stats.commands[ENDED_BY_LIFETIME], 1);
	assert_int_equal(f->service.stats.calls[TOOL_RUN_COMMAND][TOOL_TIMEOUT], 0);
	finish(f);
}

TEST(test_the_time_to_end)
{
	static const struct {
		int64_t first, then; /* what a client gives; -1: it does not ask again */
		int64_t passed;      /* between the two */
		int64_t until_kill;  /* from the second, or else from the first */
	} rows[] = {
		{60000, -1, 0, 60000},
		{300, -1, 0, 300},
		{0, -1, 0, 0},
		{60000, 1000, 100, 1000},
		{60000, 0, 100, 0},
		{1000, 60000, 100, 900},
		{5000, 4000, 2000, 3000},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		begin_session(f);
		call_end_within(f->call, ENDED_BY_CANCEL, rows[i].first);
		if (rows[i].passed > 0)
			fake_clock_pass(rows[i].passed);
		if (rows[i].then >= 0)
			call_end_within(f->call, ENDED_BY_ADMIN, rows[i].then);
		assert_string_equal(outcome(f), " terminate = ending");
		if (rows[i].until_kill > 0) {
			fake_clock_pass(rows[i].until_kill - 1);
			assert_string_equal(outcome(f), " = ending");
		}
		fake_clock_pass(1);
		assert_string_equal(outcome(f), " kill = killed");
		assert_int_equal(
			end_command(f, (struct command_ended){.end = COMMAND_END_TERMINATED}), 0);
		assert_string_equal(outcome(f), " leave = CANCELLED cancel");
		finish(f);
	}
}

/* A worker that had little time to read the order to end is not taken for a deaf one at once. */
TEST(test_little_time_for_the_worker)
{
	struct fixture *f = *state;

	begin_session(f);
	f->workspace.heard = false;
	call_end_within(f->call, ENDED_BY_CANCEL, 0);
	fake_clock_pass(1);
	assert_string_equal(outcome(f), " terminate kill = killed");
	fake_clock_pass(LIMIT_KILL_REPORT_MS);
	assert_string_equal(outcome(f), " abandon = killed");
	finish(f);
}

static int send_signal(struct fixture *f, uint8_t number)
{
	return call_signal(f->call, &(struct command_signal){number, false});
}

TEST(test_signals_are_for_those_that_run)
{
	struct fixture *f = *state;

	start_session(f);
	assert_int_equal(send_signal(f, 15), -ESRCH);
	begin(f);
	(void)fake_workspace_log(&f->workspace);
	assert_int_equal(send_signal(f, 15), 0);
	assert_string_equal(outcome(f), " signal = running");
	call_cancel(f->call, ENDED_BY_ADMIN);
	assert_int_equal(send_signal(f, 9), 0);
	assert_string_equal(outcome(f), " terminate signal = ending");
	fake_clock_pass_until(&f->call->timer);
	assert_int_equal(send_signal(f, 9), -ESRCH);
	assert_string_equal(outcome(f), " kill = killed");
	finish(f);
}

/* What has not begun begins with the size that it has then; sizes are bounded as signals are. */
TEST(test_sizes_are_for_those_that_run)
{
	static const struct command_terminal small = {10, 20}, large = {30, 40};
	struct fixture *f = *state;

	start_session(f);
	assert_int_equal(call_resize(f->call, &large), 0);
	assert_string_equal(outcome(f), " enter = waiting");
	assert_int_equal(f->call->request.session.terminal.rows, 30);
	begin(f);
	(void)fake_workspace_log(&f->workspace);
	f->workspace.heard = false;
	for (int i = 0; i < LIMIT_SESSION_SIGNALS; i++) {
		assert_int_equal(call_resize(f->call, &small), 0);
		assert_string_equal(fake_workspace_log(&f->workspace), " resize");
	}
	assert_int_equal(call_resize(f->call, &large), -EAGAIN);
	assert_int_equal(send_signal(f, 9), -EAGAIN);
	assert_int_equal(f->call->request.session.terminal.rows, 10);
	f->workspace.heard = true;
	call_cancel(f->call, ENDED_BY_ADMIN);
	assert_int_equal(call_resize(f->call, &large), 0);
	assert_string_equal(outcome(f), " terminate resize = ending");
	fake_clock_pass_until(&f->call->timer);
	assert_int_equal(call_resize(f->call, &large), -ESRCH);
	assert_string_equal(outcome(f), " kill = killed");
	finish(f);
}

/* A worker that does not read is sent a few signals only, and more when it has read those. */
TEST(test_signals_to_a_deaf_worker_are_few)
{
	struct fixture *f = *state;

	begin_session(f);
	f->workspace.heard = false;
	for (int i = 0; i < LIMIT_SESSION_SIGNALS; i++) {
		assert_int_equal(send_signal(f, 15), 0);
		assert_string_equal(fake_workspace_log(&f->workspace), " signal");
	}
	assert_int_equal(send_signal(f, 9), -EAGAIN);
	assert_string_equal(outcome(f), " = running");
	f->workspace.heard = true;
	assert_int_equal(send_signal(f, 9), 0);
	assert_string_equal(outcome(f), " signal = running");
	call_cancel(f->call, ENDED_BY_ADMIN);
	assert_string_equal(outcome(f), " terminate = ending");
	fake_clock_pass_until(&f->call->timer);
	assert_string_equal(outcome(f), " kill = killed");
	finish(f);
}
