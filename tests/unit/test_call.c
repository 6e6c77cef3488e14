/* links: cloister-supervisor */
/* fakes: workspace egress_cell clock */
// SPDX-License-Identifier: Apache-2.0
/* The life of a call: every event in every state, for a command and for a file call. The test plays
 * the workspace and controls the clock. */
#include "supervisor/call/call_state.h"

#include "supervisor/call/call_session.h"
#include "tests/lib/call_fixture.h"
#include "tests/lib/unit.h"

#define LIFETIME_MS 7200000 /* beyond every deadline of a call */

/* What the heir of a call has learned. */
static struct {
	struct call *call;
	char answer[128]; /* what the call was answered, when it was inherited */
	char output[64];
	bool ended;
} heir;

static void heir_output(void *context, enum command_stream stream, struct text data)
{
	size_t len = strlen(heir.output);

	(void)context;
	(void)stream;
	snprintf(heir.output + len, sizeof(heir.output) - len, "%.*s", (int)data.len, data.data);
}

/* The end of the call, whether it was inherited or not. */
static void heir_done(void *context, const struct observation *observation)
{
	struct fixture *f = context;

	heir.ended = true;
	if (!f->call)
		return;
	assert_string_equal(observation->apart ? "apart" : "", "apart");
	on_done(f, observation);
}

static void inherit(void *context)
{
	struct fixture *f = context;

	assert_null(f->call);
	f->call = heir.call;
	f->owner_left = false;
	snprintf(heir.answer, sizeof(heir.answer), "%s", f->answer);
	f->answer[0] = '\0';
}

/* The fixture is told the answer first, and then, as the heir, the end. */
static void give_heir(struct fixture *f)
{
	const struct call_heir wanted = {
		.owner = {.done = heir_done, .output = heir_output, .context = f},
		.session = {.id = "id", .lifetime_ms = LIFETIME_MS},
		.inherit = inherit,
	};

	memset(&heir, 0, sizeof(heir));
	heir.call = f->call;
	f->owner_left = f->call->state == CALL_RUNNING;
	call_set_heir(f->call, &wanted);
}

/* Causes @event for a call of @kind in its present state. */
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
	case CALL_LOST:
		lose(f);
		break;
	case CALL_YIELD:
		give_heir(f);
		timer_set(&f->call->yield_timer, 0);
		fake_clock_pass(0);
		break;
	case CALL_DRAINED:
		call_drained(f->call);
		break;
	case CALL_HELD:
		call_pipe_held(f->call);
		break;
	default:
		assert_int_equal(event, CALL_SUMMED);
		fake_egress_sum();
	}
}

/* clang-format off */
/* An event that a state does not name is impossible in it. */
static const char *const expected[KINDS][CALL_STATES][CALL_EVENTS] = {
	[COMMAND] = {
		[CALL_WAITING] = {
			[CALL_BEGIN] = " run body = running",
			[CALL_CANCEL] = " leave = SHUTTING_DOWN shutdown",
			[CALL_OVERDUE] = " leave = BUSY exit",
			[CALL_LOST] = " = WORKER_LOST worker_lost",
		},
		[CALL_RUNNING] = {
			[CALL_CANCEL] = " terminate = ending",
			[CALL_OVERDUE] = " terminate = ending",
			[CALL_SILENT] = " terminate = ending",
			[CALL_FRAME] = " leave = OK exit",
			[CALL_LOST] = " = WORKER_LOST worker_lost",
			[CALL_YIELD] = " session = running",
			[CALL_HELD] = " abandon = killed",
		},
		[CALL_ENDING] = {
			[CALL_CANCEL] = " = ending",
			[CALL_OVERDUE] = " kill = killed",
			[CALL_SILENT] = " = ending",
			[CALL_FRAME] = " leave = CANCELLED admin",
			[CALL_LOST] = " = WORKER_LOST worker_lost",
			[CALL_YIELD] = " = ending",
			[CALL_HELD] = " abandon = killed",
		},
		[CALL_KILLED] = {
			[CALL_CANCEL] = " = killed",
			[CALL_OVERDUE] = " abandon = killed",
			[CALL_SILENT] = " = killed",
			[CALL_FRAME] = " leave = CANCELLED admin",
			[CALL_LOST] = " = WORKER_LOST worker_lost",
			[CALL_YIELD] = " = killed",
			[CALL_HELD] = " abandon = killed",
		},
		/* Its entry has left the workspace, whose processes say nothing more about it. */
		[CALL_SUMMING] = {
			[CALL_CANCEL] = " = summing",
			[CALL_OVERDUE] = " = OK exit",
			[CALL_SUMMED] = " = OK exit",
			[CALL_YIELD] = " = summing",
			[CALL_DRAINED] = " = summing",
			[CALL_HELD] = " abandon = WORKER_LOST worker_lost",
		},
	},
	[FILE_CALL] = {
		[CALL_WAITING] = {
			[CALL_BEGIN] = " read = running",
			[CALL_CANCEL] = " leave = SHUTTING_DOWN shutdown",
			[CALL_OVERDUE] = " leave = TIMEOUT timeout",
			[CALL_LOST] = " = WORKER_LOST worker_lost",
		},
		[CALL_RUNNING] = {
			[CALL_CANCEL] = " cancel = ending",
			[CALL_OVERDUE] = " cancel = ending",
			[CALL_FRAME] = " leave = OK exit",
			[CALL_LOST] = " = WORKER_LOST worker_lost",
		},
		[CALL_ENDING] = {
			[CALL_CANCEL] = " = ending",
			[CALL_OVERDUE] = " abandon = killed",
			[CALL_FRAME] = " leave = CANCELLED admin",
			[CALL_LOST] = " = WORKER_LOST worker_lost",
		},
		[CALL_KILLED] = {
			[CALL_CANCEL] = " = killed",
			[CALL_FRAME] = " leave = CANCELLED admin",
			[CALL_LOST] = " = WORKER_LOST worker_lost",
		},
	},
};
/* clang-format on */

/* Checks that the code calls the event impossible too, or that nothing in it can cause the
 * event. */
static void check_impossible(
	struct fixture *f, enum kind kind, enum call_state state, enum call_event event)
{
	if (call_acts[state][event] == call_impossible)
		return;
	assert_int_equal(kind, FILE_CALL);
	if (event == CALL_HELD)
		return; /* it has no pipes */
	assert_true(event == CALL_SILENT || event == CALL_OVERDUE || event == CALL_YIELD);
	assert_false(timer_is_set(event == CALL_SILENT  ? &f->call->idle_timer
				  : event == CALL_YIELD ? &f->call->yield_timer
							: &f->call->timer));
}

FIXTURE(set_up, tear_down)

TEST(test_every_event_in_every_state)
{
	struct fixture *f = *state;

	for (enum kind kind = 0; kind < KINDS; kind++)
		for (enum call_state from = 0; from < CALL_OVER; from++)
			for (enum call_event event = 0; event < CALL_EVENTS; event++) {
				const char *want = expected[kind][from][event];

				if (kind == FILE_CALL && from == CALL_SUMMING)
					continue;
				if (event == CALL_NOTED) { /* test_keys.c */
					assert_true((call_acts[from][event] == call_impossible) ==
						    (from == CALL_WAITING));
					continue;
				}
				assert_non_null(call_acts[from][event]);
				reach(f, kind, from);
				if (!want) {
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

/* Output that is read while the call is answered may still reach the limit. */
TEST(test_over)
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

/* A deadline counts from the start of the call, however long the call waited for its turn. */
TEST(test_deadlines)
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
TEST(test_waiting)
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

/* What is known is told once, also when cloister-egress does not tell the rest in time. */
TEST(test_summing)
{
	struct fixture *f = *state;

	reach(f, COMMAND, CALL_SUMMING);
	fake_clock_pass(LIMIT_NETWORK_SUM_MS - 1);
	assert_string_equal(outcome(f), " = summing");
	fake_clock_pass(1);
	assert_string_equal(outcome(f), " = OK exit");
	finish(f);
	/* A command that was ended keeps the cause of that. */
	f->workspace.has_network = true;
	reach(f, COMMAND, CALL_ENDING);
	assert_int_equal(end_command(f, (struct command_ended){.end = COMMAND_END_TERMINATED}), 0);
	assert_string_equal(outcome(f), " leave = summing");
	fake_egress_sum();
	assert_string_equal(outcome(f), " = CANCELLED admin");
	finish(f);
}

static int hold_command(struct fixture *f, uint64_t cgroup)
{
	return give_frame(f, COMMAND_HELD, (struct text){(char *)&cgroup, COMMAND_HELD_SIZE});
}

/* The command begins once its cgroup is known, unless it has been told to end. */
TEST(test_held)
{
	struct fixture *f = *state;

	f->workspace.has_network = true;
	reach(f, COMMAND, CALL_RUNNING);
	assert_int_equal(hold_command(f, 0), -EBADMSG);
	assert_string_equal(outcome(f), " = running");
	assert_int_equal(hold_command(f, 5), 0);
	assert_int_equal(f->call->network.cgroup, 5);
	assert_string_equal(outcome(f), " go = running");
	assert_int_equal(hold_command(f, 6), -EBADMSG);
	assert_int_equal(f->call->network.cgroup, 5);
	finish(f);
	f->workspace.has_network = true;
	reach(f, COMMAND, CALL_ENDING);
	assert_int_equal(hold_command(f, 5), 0);
	assert_string_equal(outcome(f), " = ending");
	finish(f);
	/* Without a network none is held. */
	reach(f, COMMAND, CALL_RUNNING);
	assert_int_equal(hold_command(f, 5), -EBADMSG);
	finish(f);
}

/* The call does not wait a second time for a worker that has not read COMMAND_TERMINATE. */
TEST(test_deaf_worker)
{
	struct fixture *f = *state;

	reach(f, COMMAND, CALL_ENDING);
	f->workspace.heard = false;
	fake_clock_pass(LIMIT_TERM_GRACE_MS);
	assert_string_equal(outcome(f), " abandon = killed");
	assert_false(timer_is_set(&f->call->timer));
	finish(f);
}

#define YIELD_MS 3000

/* Starts a command with an heir, which begins when it has waited for @waited ms. */
static void start_with_heir(struct fixture *f, int64_t waited)
{
	struct call_request request = make_request(f, COMMAND);

	request.options.yield_ms = YIELD_MS;
	f->workspace.heard = true;
	start(f, request);
	give_heir(f);
	fake_clock_pass(waited);
	begin(f);
	assert_string_equal(outcome(f), " enter run body = running");
}

static void write_output(struct fixture *f, const char *text)
{
	assert_int_equal(write(f->workspace.fds[COMMAND_FD_STDOUT], text, strlen(text)),
		(ssize_t)strlen(text));
}

/* Counted from the beginning of the command, and once. */
TEST(test_a_command_goes_on)
{
	struct fixture *f = *state;

	start_with_heir(f, QUEUE_MS - 1);
	write_output(f, "one ");
	f->owner_left = true;
	fake_clock_pass(YIELD_MS - 1);
	read_output(f);
	assert_string_equal(outcome(f), " = running");
	assert_string_equal(heir.answer, "");
	fake_clock_pass(1);
	assert_string_equal(outcome(f), " session = running");
	assert_string_equal(heir.answer, "OK yield");
	assert_int_equal(f->wall_us, (QUEUE_MS - 1 + YIELD_MS) * 1000);
	/* It counts as a session, and has its time. */
	assert_int_equal(f->tenant->usage->calls, 0);
	assert_int_equal(f->service.stats.calls[TOOL_RUN_COMMAND][TOOL_OK], 1);
	assert_int_equal(f->service.stats.commands[ENDED_BY_YIELD], 1);
	fake_clock_pass(IDLE_MS);
	assert_string_equal(outcome(f), " = running");
	/* All of its output is the heir's, each byte once. */
	write_output(f, "two");
	read_output(f);
	assert_string_equal(heir.output, "one two");
	fake_clock_pass(LIFETIME_MS - QUEUE_MS + 1 - YIELD_MS - IDLE_MS);
	assert_string_equal(outcome(f), " terminate = ending");
	assert_int_equal(end_command(f, (struct command_ended){.end = COMMAND_END_TERMINATED}), 0);
	assert_string_equal(outcome(f), " leave = TIMEOUT lifetime");
	assert_true(heir.ended);
	assert_int_equal(f->service.stats.calls[TOOL_RUN_COMMAND][TOOL_TIMEOUT], 0);
	finish(f);
}

/* A command that is over before, or is told to end, or whose service is about to end, does not go
 * on; its heir is told the end. */
TEST(test_a_command_that_does_not_go_on)
{
	static const struct {
		bool cancelled, disinherited, shutting_down;
		const char *answer;
	} rows[] = {
		{false, false, false, " leave = OK exit"},
		{true, false, false, " terminate leave = CANCELLED cancel"},
		{false, true, false, " leave = OK exit"},
		{false, false, true, " leave = OK exit"},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		start_with_heir(f, 0);
		write_output(f, "out");
		f->owner_left = false;
		fake_clock_pass(YIELD_MS - 1);
		read_output(f);
		if (rows[i].cancelled)
			call_cancel(f->call, ENDED_BY_CANCEL);
		if (rows[i].disinherited)
			call_set_heir(f->call, NULL);
		f->service.shutting_down = rows[i].shutting_down;
		fake_clock_pass(i > 0 ? 2 : 0);
		f->service.shutting_down = false;
		assert_int_equal(end_command(f,
					 (struct command_ended){
						 .end = rows[i].cancelled ? COMMAND_END_TERMINATED
									  : COMMAND_END_EXIT}),
			0);
		assert_string_equal(outcome(f), rows[i].answer);
		assert_string_equal(heir.answer, "");
		assert_int_equal(heir.ended, !rows[i].disinherited);
		assert_string_equal(heir.output, "out");
		finish(f);
	}
}

/* The client has gone: the call ends and is not answered. */
TEST(test_disowned)
{
	struct fixture *f = *state;

	for (enum kind kind = 0; kind < KINDS; kind++)
		for (enum call_state from = 0; from < CALL_SUMMING + (kind == COMMAND); from++) {
			reach(f, kind, from);
			call_disown(f->call);
			if (from == CALL_SUMMING)
				fake_egress_sum();
			else
				lose(f);
			assert_string_equal(f->answer, "");
			f->call = NULL;
			finish(f);
		}
}

/* Only what a call uses is asked. */
TEST_WITH(test_what_a_call_uses, NULL, NULL)
{
	struct call_request request = {.tool = tool_by_name(TEXT_LITERAL("read_file"))};

	assert_int_equal(call_uses_of(&request), 1U << CALL_USES_RESULT);
	request.tool = tool_by_name(TEXT_LITERAL("write_file"));
	assert_int_equal(call_uses_of(&request), 1U << CALL_USES_RESULT | 1U << CALL_USES_DISK);
	request.tool = tool_by_name(TEXT_LITERAL("run_command"));
	assert_int_equal(call_uses_of(&request), 1U << CALL_USES_OUTPUT);
	request.options.stdin_stream = true;
	assert_int_equal(call_uses_of(&request), 1U << CALL_USES_OUTPUT | 1U << CALL_USES_INPUT);
	request.options = (struct call_options){.key = TEXT_LITERAL("k")};
	assert_int_equal(call_uses_of(&request), 1U << CALL_USES_OUTPUT | 1U << CALL_USES_KEY);
	/* Every row has something to do. */
	for (size_t i = 0; i < CALL_USES; i++)
		assert_true(call_hooks[i].begin || call_hooks[i].free);
}
