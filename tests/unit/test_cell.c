/* links: cloister-supervisor */
/* fakes: spawner_link process clock */
// SPDX-License-Identifier: Apache-2.0
/* The life of a cell: every event in every state. The test plays the spawner and the cell's
 * processes, and controls the clock. */
#include "supervisor/cell/cell_state.h"

#include "common/wire/wire_commands.h"
#include "common/wire/wire_files.h"
#include "supervisor/cell/cell_process.h"
#include "supervisor/cell/cell_trouble.h"

#include "tests/lib/cell_fixture.h"
#include "tests/lib/unit.h"

/* Makes the worker die. */
static void crash(struct fixture *f)
{
	cell_abandon(f->cell, CELL_WORKER, "why");
	run(f);
}

/* The spawner says where the held processes wait. */
static void answer_where(struct fixture *f)
{
	struct fake_asked *asked = fake_spawner_asked(f->spawner);

	if (!asked || asked->type != SPAWNER_WHERE)
		return;
	(void)fake_spawner_answer(f->spawner, asked);
	run(f);
}

static void reach_files(struct fixture *f, enum state state)
{
	open_cell(f);
	hold(f);
	cell_abandon(f->cell, CELL_FILES, "why");
	run(f);
	if (state == STATE_FILES_HELD)
		pass(f, LIMIT_KILL_REPORT_MS);
	answer_where(f);
	if (state >= STATE_FILES_RESTING) {
		fake_process_end(f->files);
		run(f);
		f->files = NULL;
	}
	if (state == STATE_FILES_OPENING)
		pass(f, 0);
}

/* Brings a new cell to @state. Its workspace is open and has no calls. */
static void reach(struct fixture *f, enum state state)
{
	drop_cell(f);
	make_cell(f);
	switch (state) {
	case STATE_CLOSED:
		break;
	case STATE_RESTING: /* after its second crash */
		open_cell(f);
		crash(f);
		open_cell(f);
		f->need = CELL_KEPT;
		crash(f);
		f->worker = f->files = NULL;
		break;
	case STATE_OPENING:
		f->need = CELL_CALLED;
		settle(f);
		break;
	case STATE_OPEN:
		open_cell(f);
		break;
	case STATE_ENDING:
	case STATE_QUARANTINED:
		open_cell(f);
		hold(f);
		crash(f);
		if (state == STATE_QUARANTINED)
			pass(f, LIMIT_KILL_REPORT_MS);
		break;
	default:
		reach_files(f, state);
	}
	answer_where(f);
	f->need = CELL_KEPT;
	settle(f);
	assert_int_equal(f->cell->state, state);
	hold(f);
	if (f->worker)
		f->worker->killed = 0;
	if (f->files)
		f->files->killed = 0;
	f->log[0] = '\0';
}

static void cause_ready(struct fixture *f)
{
	if (f->cell->state != STATE_OPENING && f->cell->state != STATE_FILES_OPENING)
		return;
	answer(f);
	if (f->cell->state == STATE_OPENING)
		say_ready(f, f->worker);
	say_ready(f, f->files);
}

static void cause_gone(struct fixture *f)
{
	if (f->files)
		fake_process_end(f->files);
	if (f->cell->state == STATE_ENDING || f->cell->state == STATE_QUARANTINED)
		fake_process_end(f->worker);
}

static void cause(struct fixture *f, enum cell_event event)
{
	switch (event) {
	case EVENT_FAILED:
		cell_abandon(f->cell, CELL_WORKER, "why");
		break;
	case EVENT_FILES_FAILED:
		cell_abandon(f->cell, CELL_FILES, "why");
		break;
	case EVENT_UNUSED:
		f->need = CELL_UNUSED;
		break;
	case EVENT_IDLE:
		cell_rest(f->cell);
		break;
	case EVENT_READY:
		cause_ready(f);
		break;
	case EVENT_GONE:
		cause_gone(f);
		break;
	case EVENT_OVERDUE:
		fake_clock_pass_until(&f->cell->deadline);
		break;
	default:
		assert_int_equal(event, EVENT_CALLED);
		f->need = CELL_CALLED;
	}
	settle(f);
}

/* clang-format off */
/* An event that a state does not name is impossible in it. */
static const char *const expected[STATES][EVENTS] = {
	[STATE_CLOSED] = {
		[EVENT_UNUSED] = " = closed",
		[EVENT_IDLE] = " = closed",
		[EVENT_GONE] = " = closed",
		[EVENT_CALLED] = " open = opening",
	},
	[STATE_RESTING] = {
		[EVENT_UNUSED] = " = closed",
		[EVENT_IDLE] = " = resting",
		[EVENT_GONE] = " = resting",
		[EVENT_OVERDUE] = " = closed",
		[EVENT_CALLED] = " = resting",
	},
	/* A process that the spawner has not reported yet need not be waited for. */
	[STATE_OPENING] = {
		[EVENT_FAILED] = " NOT_MADE = closed",
		[EVENT_FILES_FAILED] = " NOT_MADE = closed",
		[EVENT_UNUSED] = " = closed",
		[EVENT_IDLE] = " open = opening",
		[EVENT_READY] = " = open",
		[EVENT_GONE] = " open = opening",
		[EVENT_CALLED] = " open = opening",
	},
	[STATE_OPEN] = {
		[EVENT_FAILED] = " kill-worker kill-files = ending",
		[EVENT_FILES_FAILED] = " kill-files = files ending",
		[EVENT_UNUSED] = " kill-worker kill-files = ending",
		[EVENT_IDLE] = " kill-worker kill-files = ending",
		[EVENT_READY] = " = open",
		[EVENT_GONE] = " FILES_LOST = files resting",
		[EVENT_CALLED] = " = open",
	},
	[STATE_FILES_ENDING] = {
		[EVENT_FAILED] = " kill-worker kill-files = ending",
		[EVENT_FILES_FAILED] = " kill-files = files ending",
		[EVENT_UNUSED] = " kill-worker kill-files = ending",
		[EVENT_IDLE] = " = files ending",
		[EVENT_READY] = " = files ending",
		[EVENT_GONE] = " FILES_LOST = files resting",
		[EVENT_OVERDUE] = " where FILES_LOST FILES_HELD = files held",
		[EVENT_CALLED] = " = files ending",
	},
	[STATE_FILES_HELD] = {
		[EVENT_FAILED] = " kill-worker kill-files = ending",
		[EVENT_FILES_FAILED] = " kill-files = files held",
		[EVENT_UNUSED] = " kill-worker kill-files = ending",
		[EVENT_IDLE] = " = files held",
		[EVENT_READY] = " = files held",
		[EVENT_GONE] = " FILES_LOST = files resting",
		[EVENT_CALLED] = " FILES_HELD = files held",
	},
	[STATE_FILES_RESTING] = {
		[EVENT_FAILED] = " kill-worker = ending",
		[EVENT_UNUSED] = " kill-worker = ending",
		[EVENT_IDLE] = " = files resting",
		[EVENT_GONE] = " = files resting",
		[EVENT_OVERDUE] = " open-files = files opening",
		[EVENT_CALLED] = " = files resting",
	},
	[STATE_FILES_OPENING] = {
		[EVENT_FAILED] = " kill-worker = ending",
		[EVENT_FILES_FAILED] = " FILES_LOST = files resting",
		[EVENT_UNUSED] = " kill-worker = ending",
		[EVENT_IDLE] = " open-files = files opening",
		[EVENT_READY] = " = open",
		[EVENT_GONE] = " open-files = files opening",
		[EVENT_CALLED] = " open-files = files opening",
	},
	[STATE_ENDING] = {
		[EVENT_FAILED] = " kill-worker = ending",
		[EVENT_FILES_FAILED] = " kill-files = ending",
		[EVENT_UNUSED] = " = ending",
		[EVENT_IDLE] = " = ending",
		[EVENT_READY] = " = ending",
		[EVENT_GONE] = " LOST = closed",
		[EVENT_OVERDUE] = " where LOST HELD = quarantined",
		[EVENT_CALLED] = " = ending",
	},
	[STATE_QUARANTINED] = {
		[EVENT_FAILED] = " kill-worker = quarantined",
		[EVENT_FILES_FAILED] = " kill-files = quarantined",
		[EVENT_UNUSED] = " = quarantined",
		[EVENT_IDLE] = " = quarantined",
		[EVENT_READY] = " = quarantined",
		[EVENT_GONE] = " LOST = closed",
		[EVENT_CALLED] = " HELD = quarantined",
	},
};
/* clang-format on */

FIXTURE(set_up, tear_down)

TEST(test_every_event_in_every_state)
{
	struct fixture *f = *state;

	for (enum state from = 0; from < STATES; from++)
		for (enum cell_event event = 0; event < EVENTS; event++) {
			const char *want = expected[from][event];

			assert_non_null(cell_acts[from][event]);
			reach(f, from);
			if (want) {
				assert_ptr_not_equal(cell_acts[from][event], cell_impossible);
				cause(f, event);
				assert_string_equal(outcome(f), want);
				continue;
			}
			assert_true(cell_acts[from][event] == cell_impossible);
			assert_false(event == EVENT_OVERDUE && timer_is_set(&f->cell->deadline));
		}
}

/* Commands run while there is no files process. No call begins in a cell that is failing. */
TEST(test_serves)
{
	struct fixture *f = *state;

	for (enum state at = 0; at < STATES; at++) {
		reach(f, at);
		assert_int_equal(cell_serves(f->cell, CELL_FILES), at == STATE_OPEN);
		assert_int_equal(cell_serves(f->cell, CELL_WORKER),
			at >= STATE_OPEN && at <= STATE_FILES_OPENING);
		cell_process_fail(cell_worker(f->cell), "in the same turn");
		assert_false(cell_serves(f->cell, CELL_WORKER));
		assert_false(cell_serves(f->cell, CELL_FILES));
		/* Without settling the cell: where it has no processes, a failure would be
		 * impossible. */
		free(TAKE_PTR(cell_worker(f->cell)->failure));
	}
}

/* Processes that the spawner has started must be ready in time. */
TEST(test_ready_in_time)
{
	struct fixture *f = *state;

	reach(f, STATE_OPENING);
	answer(f);
	say_ready(f, f->worker);
	pass(f, LIMIT_WORKSPACE_OPEN_MS - 1);
	assert_string_equal(outcome(f), " = opening");
	pass(f, 1);
	assert_string_equal(outcome(f), " kill-worker kill-files NOT_MADE = closed");
	assert_string_equal(f->why, "The workspace did not open in time");
	assert_int_equal(f->counts.lost, 0);

	reach(f, STATE_FILES_OPENING);
	answer(f);
	pass(f, LIMIT_WORKSPACE_OPEN_MS - 1);
	assert_string_equal(outcome(f), " = files opening");
	pass(f, 1);
	assert_string_equal(outcome(f), " kill-files FILES_LOST = files resting");
}

/* The spawner cannot make the cell, or cannot even be asked. */
TEST(test_spawner_fails)
{
	static const struct {
		int error;
		const char *outcome, *why;
	} answers[] = {
		{-ENOSPC, " NOT_MADE = closed",
			"The workspace could not be opened: the step: No space left on device"},
		{-SPAWNER_REFUSAL, " REFUSED = closed",
			"The spawner refused to open the workspace: the step"},
		{-EAGAIN, " NOT_NOW = closed",
			"The workspace could not be opened: the step: Resource temporarily "
			"unavailable"},
		{-ENOMEM, " NOT_NOW = closed",
			"The workspace could not be opened: the step: Cannot allocate memory"},
		{-ETIMEDOUT, " SILENT = closed",
			"The workspace's file system does not answer; try again when it does"},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		reach(f, STATE_OPENING);
		fake_spawner_fail(f->spawner, fake_spawner_asked(f->spawner), answers[i].error,
			TEXT_LITERAL("the step"));
		run(f);
		assert_string_equal(outcome(f), answers[i].outcome);
		assert_string_equal(f->why, answers[i].why);
	}
	reach(f, STATE_FILES_OPENING);
	fake_spawner_fail(f->spawner, fake_spawner_asked(f->spawner), -ENOSPC, TEXT_LITERAL("it"));
	run(f);
	assert_string_equal(outcome(f), " FILES_LOST = files resting");

	reach(f, STATE_CLOSED);
	fake_spawner_break(f->spawner, -EPIPE);
	cause(f, EVENT_CALLED);
	assert_string_equal(outcome(f), " NOT_MADE = closed");
	assert_string_equal(f->why, "The workspace could not be opened: Broken pipe");
	reach(f, STATE_FILES_RESTING);
	fake_spawner_break(f->spawner, -EPIPE);
	cause(f, EVENT_OVERDUE);
	assert_string_equal(outcome(f), " FILES_LOST = files resting");
}

/*
 * The spawner has no room to start a files process now. Calls are told so, the worker goes on, and
 * the spawner is asked until it has room.
 */
TEST(test_files_process_is_put_off)
{
	struct fixture *f = *state;
	uint64_t files_lost;

	reach(f, STATE_FILES_OPENING);
	files_lost = f->counts.files_lost;
	for (int i = 0; i < 5; i++) {
		f->log[0] = '\0';
		fake_spawner_fail(f->spawner, fake_spawner_asked(f->spawner), -SPAWNER_NOT_NOW,
			TEXT_LITERAL("try again in a moment"));
		run(f);
		assert_string_equal(outcome(f), " FILES_HELD = files resting");
		assert_string_equal(
			f->why, "The workspace cannot be opened now: try again in a moment");
		assert_true(cell_serves(f->cell, CELL_WORKER));
		pass(f, CELL_REST_MAX_MS - 1);
		assert_int_equal(f->cell->state, STATE_FILES_RESTING);
		pass(f, 1);
		assert_int_equal(f->cell->state, STATE_FILES_OPENING);
	}
	assert_int_equal(f->counts.files_lost, files_lost);
	/* Another failure is a loss again. */
	fake_spawner_fail(f->spawner, fake_spawner_asked(f->spawner), -ENOSPC, TEXT_LITERAL("it"));
	run(f);
	assert_int_equal(f->counts.files_lost, files_lost + 1);
	assert_int_equal(f->worker->killed, 0);
}

/* A cell is made again at once, then after longer and longer rests. A cell that was open for long
 * starts over. */
TEST(test_rests)
{
	static const int64_t rests[] = {0, 20, 40, 80, 160, 320, 640, 1000, 1000};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rests); i++) {
		open_cell(f);
		cell_reset_crash_count(f->cell);
		crash(f);
		if (rests[i] > 0) {
			assert_int_equal(cell_status(f->cell), CELL_STATUS_RESTING);
			pass(f, rests[i] - 1);
			assert_int_equal(cell_status(f->cell), CELL_STATUS_RESTING);
			pass(f, 1);
		}
		assert_int_equal(cell_status(f->cell), CELL_STATUS_OPENING);
	}
	open_cell(f);
	cell_reset_crash_count(f->cell);
	pass(f, CELL_HEALTHY_MS);
	crash(f);
	assert_int_equal(cell_status(f->cell), CELL_STATUS_OPENING);
	assert_int_equal(f->counts.lost, ARRAY_SIZE(rests) + 1);
}

/* When a cell has died three times without a result, cloisterd also answers the calls that wait. */
TEST(test_gives_up)
{
	static const char *const losses[] = {" LOST", " LOST", " GIVEN_UP", " GIVEN_UP"};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(losses); i++) {
		open_cell(f);
		crash(f);
		assert_string_equal(f->log, losses[i]);
		f->log[0] = '\0';
		pass(f, CELL_REST_MAX_MS);
	}
	open_cell(f);
	cell_reset_crash_count(f->cell);
	crash(f);
	assert_string_equal(f->log, " LOST");
}

/* The same holds for the files process alone. cloisterd then ends the worker too. */
TEST(test_files_process_dies_again_and_again)
{
	struct fixture *f = *state;

	open_cell(f);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(cell_status(f->cell), CELL_STATUS_OPEN);
		fake_process_end(f->files);
		run(f);
		if (i == 2)
			break;
		assert_string_equal(f->log, " FILES_LOST");
		f->log[0] = '\0';
		pass(f, CELL_REST_MAX_MS);
		answer(f);
		say_ready(f, f->files);
	}
	assert_string_equal(f->log, " FILES_LOST GIVEN_UP");
	assert_string_equal(f->why, "The workspace's files process died several times in a row");
	assert_true(f->worker->killed > 0);
	assert_int_equal(f->counts.files_lost, 3);
	assert_int_equal(f->counts.lost, 1);
}

TEST(test_idle)
{
	struct fixture *f = *state;

	reach(f, STATE_OPEN);
	cause(f, EVENT_IDLE);
	fake_process_end(f->worker);
	fake_process_end(f->files);
	run(f);
	assert_string_equal(outcome(f), " kill-worker kill-files = closed");
	assert_int_equal(f->counts.idle_ended, 1);
	assert_int_equal(f->counts.lost, 0);
	/* The next call opens another cell. */
	open_cell(f);
}

/* Which frames each process may send as its first one, and which ones afterwards. */
TEST(test_what_processes_say)
{
	static const struct {
		enum cell_process from;
		bool ready;
		uint8_t type;
		struct text payload;
		const char *outcome;
	} words[] = {
		{CELL_WORKER, false, COMMAND_ENDED, {NULL, 0}, "NOT_MADE"},
		{CELL_WORKER, false, COMMAND_READY, TEXT_LITERAL("more"), "NOT_MADE"},
		{CELL_WORKER, false, COMMAND_FAILED, TEXT_LITERAL("?"), "NOT_MADE"},
		{CELL_WORKER, false, FILES_END, {NULL, 0}, "NOT_MADE"},
		{CELL_FILES, false, FILES_DATA, {NULL, 0}, "NOT_MADE"},
		{CELL_FILES, false, FILES_READY, {NULL, 0}, "NOT_MADE"},
		{CELL_FILES, false, FILES_READY, TEXT_LITERAL("\0\0\0\0\0\0\0\0\0"), "NOT_MADE"},
		{CELL_FILES, false, FILES_FAILED, TEXT_LITERAL("?"), "NOT_MADE"},
		{CELL_WORKER, true, COMMAND_READY, {NULL, 0}, "LOST"},
		{CELL_WORKER, true, FILES_END, {NULL, 0}, "LOST"},
		{CELL_WORKER, true, COMMAND_RUN, {NULL, 0}, "LOST"},
		{CELL_FILES, true, FILES_READY, {NULL, 0}, "FILES_LOST"},
		{CELL_FILES, true, FILES_FAILED, {NULL, 0}, "FILES_LOST"},
		{CELL_FILES, true, 255, {NULL, 0}, "FILES_LOST"},
		{CELL_FILES, true, FILES_DATA, {NULL, 0}, "FILES_LOST"},
		{CELL_FILES, true, FILES_IMAGE, {NULL, 0}, "FILES_LOST"},
		{CELL_WORKER, true, COMMAND_ENDED, {NULL, 0}, NULL},
		{CELL_FILES, true, FILES_DATA, TEXT_LITERAL("x"), NULL},
		{CELL_FILES, true, FILES_ENTRY, TEXT_LITERAL("x"), NULL},
		{CELL_FILES, true, FILES_MATCH, TEXT_LITERAL("x"), NULL},
		{CELL_FILES, true, FILES_END, TEXT_LITERAL("x"), NULL},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		reach(f, words[i].ready ? STATE_OPEN : STATE_OPENING);
		if (!words[i].ready)
			answer(f);
		f->worker->held = f->files->held = false;
		f->frames = 0;
		fake_process_say(words[i].from == CELL_WORKER ? f->worker : f->files, words[i].type,
			0, words[i].payload);
		run(f);
		if (words[i].outcome)
			assert_non_null(strstr(f->log, words[i].outcome));
		else
			assert_string_equal(outcome(f), " = open");
		assert_int_equal(f->frames, words[i].outcome ? 0 : 1);
	}
}

static void fail_set_up(struct fixture *f, enum cell_process which, uint32_t error)
{
	const struct setup_failure failure = {TEXT_LITERAL("mount it"), error};
	char payload[64];
	struct wire_writer writer = wire_writer((uint8_t *)payload, sizeof(payload));

	reach(f, STATE_OPENING);
	answer(f);
	setup_failure_put(&writer, &failure);
	fake_process_say(which == CELL_WORKER ? f->worker : f->files,
		which == CELL_WORKER ? COMMAND_FAILED : FILES_FAILED, 0,
		(struct text){payload, writer.len});
	fake_process_end(which == CELL_WORKER ? f->worker : f->files);
	run(f);
}

/* Calls are told why the process could not be set up, not that the process died. */
/* Its workspace's calls are told why, and the next one has it made if nothing is in the way then.
 */
TEST(test_a_cell_that_is_refused)
{
	struct fixture *f = *state;

	f->refused = "no room";
	f->need = CELL_CALLED;
	settle(f);
	assert_int_equal(f->cell->state, STATE_CLOSED);
	assert_string_equal(f->log, " NOT_NOW");
	assert_string_equal(f->why, "no room");
	assert_null(fake_spawner_asked(f->spawner));
	f->refused = NULL;
	f->need = CELL_CALLED;
	settle(f);
	assert_int_equal(f->cell->state, STATE_OPENING);
	f->need = CELL_UNUSED;
	settle(f);
}

TEST(test_set_up_fails)
{
	static const struct {
		uint32_t error;
		const char *outcome, *why;
	} failures[] = {
		{ENOSPC, " NOT_MADE", "mount it: No space left on device"},
		{EDQUOT, " OVER_QUOTA", "mount it: Disk quota exceeded"},
		/* the step is all that is to be said */
		{SETUP_UNFIT, " UNFIT", "mount it"},
	};
	struct fixture *f = *state;
	char why[256];

	for (size_t i = 0; i < CELL_PROCESSES * ARRAY_SIZE(failures); i++) {
		fail_set_up(f, i % CELL_PROCESSES, failures[i / CELL_PROCESSES].error);
		assert_string_equal(f->log, failures[i / CELL_PROCESSES].outcome);
		snprintf(why, sizeof(why), "The workspace could not be opened: %s",
			failures[i / CELL_PROCESSES].why);
		assert_string_equal(f->why, why);
	}
}

/* What is held against the host, until a worker tells of a command. */
TEST(test_openings_that_fail_are_counted)
{
	struct fixture *f = *state;
	char payload[64];
	const struct setup_failure no_filter = {TEXT_LITERAL("install the filter"), 524};
	struct wire_writer writer = wire_writer((uint8_t *)payload, sizeof(payload));

	fail_set_up(f, CELL_FILES, SETUP_UNFIT);
	assert_int_equal(f->counts.unmade, 0);
	fail_set_up(f, CELL_WORKER, EIO);
	assert_int_equal(f->counts.unmade, 1);
	open_cell(f);
	assert_int_equal(f->counts.unmade, 1);
	/* The filter comes last, when the worker has said that it is ready. */
	setup_failure_put(&writer, &no_filter);
	fake_process_say(f->worker, COMMAND_FAILED, 0, (struct text){payload, writer.len});
	fake_process_end(f->worker);
	fake_process_end(f->files);
	run(f);
	assert_int_equal(f->counts.unmade, 2);
	assert_non_null(strstr(f->counts.unmade_why, "install the filter"));
	open_cell(f);
	fake_process_say(f->worker, COMMAND_ENDED, 0, (struct text){NULL, 0});
	run(f);
	assert_int_equal(f->counts.unmade, 0);
}

/* The errno is the host's: nobody's code has run in the cell. */
TEST(test_a_host_without_processes_is_counted)
{
	struct fixture *f = *state;

	fail_set_up(f, CELL_WORKER, EAGAIN);
	assert_int_equal(f->counts.unmade, 1);
	fail_set_up(f, CELL_FILES, ENOMEM);
	assert_int_equal(f->counts.unmade, 1); /* of another cell, whose counts are new */
	f->need = CELL_CALLED;
	settle(f);
	fake_spawner_fail(
		f->spawner, fake_spawner_asked(f->spawner), -EAGAIN, TEXT_LITERAL("clone"));
	run(f);
	assert_int_equal(f->counts.unmade, 2);
	/* What a tenant has used up of its own share is no lack of the host's. */
	f->need = CELL_CALLED;
	settle(f);
	fake_spawner_fail(f->spawner, fake_spawner_asked(f->spawner), -SPAWNER_NOT_NOW,
		TEXT_LITERAL("too many closers"));
	run(f);
	assert_int_equal(f->counts.unmade, 2);
}

/* An administrator reads why each cell was lost, and where the processes wait that do not end. */
TEST(test_failures_are_told)
{
	struct fixture *f = *state;
	int64_t age;

	assert_null(cell_trouble(f->cell, &age));
	open_cell(f);
	crash(f);
	assert_string_equal(f->trouble, "its processes have ended: why");
	assert_int_equal(f->troubles, 1);
	pass(f, 7);
	assert_string_equal(cell_trouble(f->cell, &age), f->trouble);
	assert_int_equal(age, 7);
	/* One line, when it is known where they wait. */
	open_cell(f);
	hold(f);
	crash(f);
	assert_int_equal(f->troubles, 1);
	pass(f, LIMIT_KILL_REPORT_MS);
	assert_true(cell_is_held(f->cell));
	assert_int_equal(f->troubles, 1);
	assert_int_equal(fake_spawner_asked(f->spawner)->n_fds, CELL_PROCESSES);
	answer_where(f);
	assert_string_equal(f->trouble,
		"its processes were killed and have not ended: why; it waits somewhere");
	assert_int_equal(f->troubles, 2);
	cause_gone(f);
	run(f);
	assert_false(cell_is_held(f->cell));
	assert_string_equal(f->trouble, "its processes, which did not end, have ended now: why");
	assert_int_equal(f->troubles, 3);
	/* They end before the spawner has answered. */
	reach(f, STATE_ENDING);
	f->troubles = 0;
	pass(f, LIMIT_KILL_REPORT_MS);
	cause_gone(f);
	run(f);
	assert_int_equal(f->troubles, 2);
	assert_null(fake_spawner_asked(f->spawner));
	/* Of a files process that is held only that is asked. */
	reach(f, STATE_FILES_ENDING);
	pass(f, LIMIT_KILL_REPORT_MS);
	assert_int_equal(fake_spawner_asked(f->spawner)->n_fds, 1);
	answer_where(f);
	assert_string_equal(f->trouble,
		"its files process was killed and has not ended: why; it waits somewhere");
	/* The cell is freed while it is asked. */
	reach(f, STATE_ENDING);
	pass(f, LIMIT_KILL_REPORT_MS);
	assert_int_equal(f->cell->state, STATE_QUARANTINED);
}

static void count_kill(void *context)
{
	++*(unsigned *)context;
}

/* When a client leaves with a thousand workspaces, their cells do not all end at once. */
TEST(test_cells_that_nobody_uses_take_turns)
{
	struct fixture *f = *state;
	unsigned killed = 0;
	struct cell_ending others[LIMIT_CELLS_ENDING + 1];

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		others[i] = (struct cell_ending){.kill = count_kill, .context = &killed};
	for (size_t i = 0; i < LIMIT_CELLS_ENDING; i++)
		cell_ending_begin(&others[i], false);
	assert_int_equal(killed, LIMIT_CELLS_ENDING);
	reach(f, STATE_OPEN);
	hold(f);
	f->need = CELL_UNUSED;
	settle(f);
	assert_string_equal(outcome(f), " = ending");
	/* It waits for longer than a process that was killed may take. */
	pass(f, 2 * LIMIT_KILL_REPORT_MS);
	assert_string_equal(outcome(f), " = ending");
	cell_ending_begin(&others[LIMIT_CELLS_ENDING], false);
	cell_ending_done(&others[0]);
	assert_int_equal(killed, LIMIT_CELLS_ENDING);
	settle(f);
	assert_string_equal(outcome(f), " kill-worker kill-files = ending");
	/* The next one has its turn when this one is gone, or is not waited for any longer. */
	pass(f, LIMIT_KILL_REPORT_MS);
	assert_int_equal(f->cell->state, STATE_QUARANTINED);
	assert_int_equal(killed, LIMIT_CELLS_ENDING + 1);
	/* What has failed is ended at once. */
	reach(f, STATE_OPEN);
	hold(f);
	cell_abandon(f->cell, CELL_WORKER, "why");
	run(f);
	assert_string_equal(outcome(f), " kill-worker kill-files = ending");
	/* One that waits may be freed, or gone by itself. */
	reach(f, STATE_OPEN);
	hold(f);
	f->need = CELL_UNUSED;
	settle(f);
	fake_process_end(f->worker);
	fake_process_end(f->files);
	run(f);
	assert_int_equal(f->cell->state, STATE_CLOSED);
	reach(f, STATE_OPEN);
	hold(f);
	f->need = CELL_UNUSED;
	settle(f);
	reach(f, STATE_OPEN);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		cell_ending_done(&others[i]);
}
