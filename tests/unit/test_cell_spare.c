/* links: cloister-supervisor */
/* fakes: spawner_link process clock */
// SPDX-License-Identifier: Apache-2.0
/* A cell that takes a spare one, whose processes were made, and may have died, before. */
#include "supervisor/cell/cell_state.h"

#include "supervisor/cell/process_link.h"
#include "supervisor/cell/spare_cells.h"

#include "tests/lib/cell_fixture.h"
#include "tests/lib/unit.h"

/* Makes a spare cell and closes the workspace's own. */
static void make_spare(struct fixture *f)
{
	struct spare_cells_view view;

	spare_cells_limit(f->spares, 1);
	open_cell(f); /* which makes cloisterd want spare cells */
	f->need = CELL_KEPT;
	cell_rest(f->cell);
	run(f);
	assert_int_equal(cell_status(f->cell), CELL_STATUS_CLOSED);
	pass(f, 5);
	answer(f);
	spare_cells_look(f->spares, &view);
	assert_int_equal(view.ready, 1);
	f->worker = &fake_spawner_cells(f->spawner)->worker;
	f->log[0] = '\0';
}

FIXTURE(set_up, tear_down)

/* The processes of a spare cell may be ready before the spawner has answered. The cell waits for
 * the answer, which has the sockets of its network. */
TEST(test_ready_before_assigned)
{
	struct fixture *f = *state;

	make_spare(f);
	f->need = CELL_CALLED;
	settle(f);
	assert_string_equal(outcome(f), " assign = opening");
	say_ready(f, f->worker);
	say_ready(f, f->files);
	assert_string_equal(outcome(f), " assign = opening");
	assert_false(cell_serves(f->cell, CELL_WORKER));
	answer(f);
	assert_string_equal(outcome(f), " = open");
	assert_false(timer_is_set(&f->cell->deadline));
	/* A process that dies before the answer is known to be dead when the answer comes. The
	 * cell is made again, and no client is told. */
	drop_cell(f);
	make_cell(f);
	make_spare(f);
	f->need = CELL_CALLED;
	settle(f);
	say_ready(f, f->worker);
	say_ready(f, f->files);
	hold(f);
	fake_process_end(f->files);
	run(f);
	assert_string_equal(outcome(f), " assign = opening");
	answer(f);
	assert_string_equal(outcome(f), " kill-worker = ending");
	fake_process_end(f->worker);
	run(f);
	assert_string_equal(outcome(f), " open kill-worker = opening");
}

/* If the spare cell died, another is taken or made, and no client is told. */
TEST(test_spare_dies)
{
	struct fixture *f = *state;

	for (int i = 0; i < 2; i++) {
		drop_cell(f);
		make_cell(f);
		make_spare(f);
		f->need = CELL_CALLED;
		settle(f);
		fake_process_end(f->worker);
		run(f);
		if (i == 0) {
			answer(f);
		} else { /* the spawner finds the spare cell dead */
			fake_spawner_fail(f->spawner, fake_spawner_asked(f->spawner), -ESRCH,
				TEXT_LITERAL("assign it"));
			run(f);
		}
		assert_string_equal(outcome(f), " open kill-files = opening");
		answer(f);
		say_ready(f, f->worker);
		say_ready(f, f->files);
		assert_string_equal(outcome(f), " = open");
	}
}

/* If spare cells die when they are taken, the workspace gets its own after some tries. */
TEST(test_spares_are_not_tried_for_ever)
{
	struct fixture *f = *state;
	struct spare_cells_view view;
	size_t made = CELL_SPARE_TRIES + 1;

	spare_cells_limit(f->spares, made);
	open_cell(f);
	f->need = CELL_KEPT;
	cell_rest(f->cell);
	run(f);
	for (size_t i = 0; i < made; i++) {
		pass(f, 5);
		answer(f);
	}
	f->log[0] = '\0';
	f->need = CELL_CALLED;
	settle(f);
	for (size_t i = 0; i < CELL_SPARE_TRIES; i++) {
		struct fake_asked *asked = fake_spawner_asked(f->spawner);

		assert_int_equal(asked->type, SPAWNER_ASSIGN);
		fake_spawner_fail(f->spawner, asked, -ESRCH, TEXT_LITERAL("assign it"));
		run(f);
	}
	spare_cells_look(f->spares, &view);
	assert_int_equal(view.ready, 1);
	assert_int_equal(view.used, CELL_SPARE_TRIES);
	assert_int_equal(view.lost, CELL_SPARE_TRIES);
	assert_int_equal(fake_spawner_asked(f->spawner)->type, SPAWNER_OPEN);
	answer(f);
	say_ready(f, f->worker);
	say_ready(f, f->files);
	/* No client was told. The next opening tries a spare cell again. */
	assert_string_equal(f->log, "");
	assert_int_equal(f->counts.lost, 0);
	assert_int_equal(cell_status(f->cell), CELL_STATUS_OPEN);
	assert_int_equal(f->cell->wasted, 0);
}

/* A spare cell without a network goes to no workspace with one, and the other way round. */
TEST(test_spare_of_another_network)
{
	static const struct spawner_open none = {.tenant = "a"}, none_of_b = {.tenant = "b"},
					 egress = {.tenant = "a", .proxy_port = 3129};
	static const struct {
		const struct spawner_open *made_for, *wanted;
		bool fits;
	} rows[] = {{&none, &none_of_b, true}, {&none, &egress, false}, {&egress, &egress, true},
		{&egress, &none, false}};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct process_link *links[SPAWNER_OPENED_FDS] = {NULL};
		uint64_t group;

		drop_cell(f);
		make_cell(f);
		spare_cells_limit(f->spares, 1);
		spare_cells_begin(f->spares, rows[i].made_for);
		pass(f, 5);
		answer(f);
		assert_int_equal(
			spare_cells_take(f->spares, rows[i].wanted, &group, links), rows[i].fits);
		for (size_t j = 0; j < SPAWNER_OPENED_FDS; j++)
			process_link_free(links[j]);
	}
}
