/* links: cloister-supervisor */
/* fakes: spawner_link process clock */
// SPDX-License-Identifier: Apache-2.0
/* Which private tmpfs a cell asks for, and when cloisterd lets one go. */
#include "supervisor/cell/cell_state.h"

#include "supervisor/cell/spare_cells.h"

#include "tests/lib/cell_fixture.h"
#include "tests/lib/unit.h"

/* Ends the open cell because nobody uses it. Returns its number. */
static uint64_t rest(struct fixture *f)
{
	uint64_t number = f->cell->group;

	f->need = CELL_KEPT;
	cell_rest(f->cell);
	run(f);
	assert_int_equal(f->cell->state, STATE_CLOSED);
	return number;
}

/* Calls the cell. Returns the number of the earlier cell that its request names. */
static uint64_t call(struct fixture *f)
{
	f->need = CELL_CALLED;
	settle(f);
	assert_non_null(fake_spawner_asked(f->spawner));
	return fake_spawner_asked(f->spawner)->request.kept;
}

static void get_ready(struct fixture *f)
{
	answer(f);
	say_ready(f, f->worker);
	say_ready(f, f->files);
	assert_int_equal(f->cell->state, STATE_OPEN);
}

FIXTURE(set_up, tear_down)

TEST(test_the_next_cell_asks_for_it)
{
	struct fixture *f = *state;
	uint64_t number, last;

	assert_int_equal(call(f), 0);
	get_ready(f);
	number = rest(f);
	assert_true(number > 0);
	assert_int_equal(call(f), number);
	get_ready(f);
	/* Each cell hands on the one of the cell before it. */
	last = rest(f);
	assert_true(last > number);
	assert_int_equal(call(f), last);
	get_ready(f);
}

TEST(test_a_death_loses_it)
{
	struct fixture *f = *state;
	uint64_t number;

	open_cell(f);
	(void)rest(f);
	(void)call(f);
	get_ready(f);
	number = f->cell->group;
	fake_process_end(f->worker);
	run(f);
	assert_true(fake_spawner_has_let_go(f->spawner, number));
	assert_int_equal(call(f), 0);
}

TEST(test_an_exchange_begins_anew)
{
	struct fixture *f = *state;
	uint64_t number;

	open_cell(f);
	number = f->cell->group;
	f->need = CELL_KEPT;
	cell_replace(f->cell, true);
	run(f);
	assert_int_equal(f->cell->state, STATE_CLOSED);
	cell_replace(f->cell, false);
	assert_true(fake_spawner_has_let_go(f->spawner, number));
	assert_int_equal(call(f), 0);
}

TEST(test_it_goes_with_its_workspace)
{
	struct fixture *f = *state;
	uint64_t number;

	open_cell(f);
	number = rest(f);
	assert_false(fake_spawner_has_let_go(f->spawner, number));
	cell_free(TAKE_PTR(f->cell));
	assert_true(fake_spawner_has_let_go(f->spawner, number));
	/* A cell that ends because its workspace is closed. */
	drop_cell(f);
	make_cell(f);
	open_cell(f);
	number = f->cell->group;
	f->need = CELL_UNUSED;
	settle(f);
	assert_true(fake_spawner_has_let_go(f->spawner, number));
}

/* A cell that cannot be made, perhaps because of what is in the tmpfs, is made without it. */
TEST(test_a_failure_loses_it)
{
	struct fixture *f = *state;
	uint64_t number;

	open_cell(f);
	number = rest(f);
	assert_int_equal(call(f), number);
	fake_spawner_fail(
		f->spawner, fake_spawner_asked(f->spawner), -EIO, TEXT_LITERAL("do as asked"));
	run(f);
	assert_true(fake_spawner_has_let_go(f->spawner, number));
	assert_int_equal(call(f), 0);
}

TEST(test_a_dead_spare_does_not_lose_it)
{
	struct fixture *f = *state;
	uint64_t number;

	spare_cells_limit(f->spares, 1);
	open_cell(f);
	number = rest(f);
	pass(f, 5);
	assert_int_equal(fake_spawner_asked(f->spawner)->type, SPAWNER_PREPARE);
	assert_int_equal(fake_spawner_asked(f->spawner)->request.kept, 0);
	answer(f);
	assert_int_equal(call(f), number);
	assert_int_equal(fake_spawner_asked(f->spawner)->type, SPAWNER_ASSIGN);
	fake_spawner_fail(
		f->spawner, fake_spawner_asked(f->spawner), -ESRCH, TEXT_LITERAL("assign it"));
	run(f);
	assert_int_equal(fake_spawner_asked(f->spawner)->request.kept, number);
}

/* The kernel holds a process that was killed: the files are kept all the same. */
TEST(test_a_held_process_does_not_lose_it)
{
	struct fixture *f = *state;
	uint64_t number;

	open_cell(f);
	number = f->cell->group;
	hold(f);
	f->need = CELL_KEPT;
	cell_rest(f->cell);
	run(f);
	pass(f, LIMIT_KILL_REPORT_MS);
	assert_string_equal(outcome(f), " where kill-worker kill-files LOST HELD = quarantined");
	f->worker->held = f->files->held = false;
	fake_process_end(f->worker);
	fake_process_end(f->files);
	run(f);
	assert_int_equal(f->cell->state, STATE_CLOSED);
	assert_int_equal(call(f), number);
}

/* A call that comes before the loop has ended the cell keeps it, also when that call is over. */
TEST(test_a_call_in_time_keeps_the_cell)
{
	struct fixture *f = *state;

	open_cell(f);
	f->need = CELL_KEPT;
	cell_rest(f->cell);
	f->need = CELL_CALLED;
	run(f);
	f->need = CELL_KEPT;
	settle(f);
	assert_int_equal(f->cell->state, STATE_OPEN);
}
