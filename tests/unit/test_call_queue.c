/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/*
 * Scheduling: shares stay within the bound that call_queue.h promises for random weights, limits,
 * lengths and arrivals; no flow starves, no slot idles while a call could run, and entries can be
 * removed at any place.
 */
#include "supervisor/schedule/call_queue.h"
#include "tests/lib/unit.h"

#define FLOWS      6
#define WORKSPACES 3 /* of each flow */
#define PLACES     4000

struct world {
	struct call_queue queue;
	struct queue_flow flows[FLOWS];
	struct workspace_queue workspaces[FLOWS][WORKSPACES];
	uint64_t now;
	struct job {
		struct queue_entry entry;
		uint64_t takes;
		int flow;
		bool runs;
		LIST_ENTRY(job) among_running;
	} jobs[PLACES];
	LIST_HEAD(, job) running;
	size_t n_jobs;
	double got[FLOWS]; /* running time of calls that have ended */
	size_t ended[FLOWS];
};

static uint32_t seed;

/* Marsaglia's xorshift: the same numbers on every machine. */
static uint32_t any(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed % below;
}

static struct world *new_world(size_t limit, uint64_t now)
{
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	call_queue_init(&world->queue, limit);
	world->now = now;
	for (int i = 0; i < FLOWS; i++) {
		queue_flow_set(&world->queue, &world->flows[i], 100, SIZE_MAX, now);
		for (int j = 0; j < WORKSPACES; j++) {
			workspace_queue_init(&world->workspaces[i][j], &world->flows[i]);
			workspace_queue_set(&world->queue, &world->workspaces[i][j], true, SIZE_MAX,
				world->now);
		}
	}
	return world;
}

static struct job *add(struct world *world, int flow, int workspace, uint64_t takes)
{
	struct job *job = &world->jobs[world->n_jobs++];

	assert_true(world->n_jobs <= PLACES);
	*job = (struct job){.takes = takes, .flow = flow};
	call_queue_add(&world->queue, &job->entry, &world->workspaces[flow][workspace], world->now);
	return job;
}

static struct job *next(struct world *world)
{
	struct queue_entry *entry = call_queue_next(&world->queue, world->now);
	struct job *job = (struct job *)entry;

	if (job) {
		job->runs = true;
		LIST_INSERT_HEAD(&world->running, job, among_running);
	}
	return job;
}

static void end(struct world *world, struct job *job)
{
	call_queue_remove(&world->queue, &job->entry, world->now);
	job->runs = false;
	LIST_REMOVE(job, among_running);
	world->got[job->flow] += (double)job->takes;
	world->ended[job->flow]++;
}

/* Advances time to the end of the first running call. Returns NULL if none runs. */
static struct job *run_on(struct world *world)
{
	struct job *first = NULL, *job;
	uint64_t ends = 0;

	LIST_FOREACH (job, &world->running, among_running) {
		uint64_t at = job->entry.since_us + job->takes;

		if (!first || at < ends || (at == ends && job < first)) {
			first = job;
			ends = at;
		}
	}
	if (first) {
		world->now = ends;
		end(world, first);
	}
	return first;
}

static void check_counts(const struct world *world)
{
	size_t running = 0;

	for (int i = 0; i < FLOWS; i++) {
		size_t of_workspaces = 0, waiting = 0;

		for (int j = 0; j < WORKSPACES; j++) {
			const struct workspace_queue *workspace = &world->workspaces[i][j];

			assert_true(workspace->n_running <= workspace->limit);
			of_workspaces += workspace->n_running;
			waiting += workspace->n_waiting;
		}
		assert_int_equal(of_workspaces, world->flows[i].n_running);
		assert_int_equal(waiting, world->flows[i].n_waiting);
		assert_true(world->flows[i].n_running <= world->flows[i].limit);
		running += of_workspaces;
	}
	assert_int_equal(running, world->queue.n_running);
	assert_true(running <= world->queue.limit);
}

static double with_running(const struct world *world, int flow)
{
	double got = world->got[flow];
	const struct job *job;

	LIST_FOREACH (job, &world->running, among_running)
		if (job->flow == flow)
			got += (double)(world->now - job->entry.since_us);
	return got;
}

/*
 * All flows always have calls waiting: at every moment any two are within the bound of each other.
 */
static void check_shares(size_t limit, uint64_t longest, const uint64_t weights[FLOWS])
{
	struct world *world = new_world(limit, any(1000000));
	double quantum = longest > CALL_QUEUE_QUANTUM_US ? (double)longest : CALL_QUEUE_QUANTUM_US;

	for (int i = 0; i < FLOWS; i++)
		queue_flow_set(&world->queue, &world->flows[i], weights[i], SIZE_MAX, world->now);
	for (int i = 0; i < FLOWS; i++)
		for (int j = 0; j < PLACES / FLOWS; j++)
			add(world, i, (int)any(WORKSPACES), 1 + any((uint32_t)longest));
	for (;;) {
		bool all_wait = true;

		while (next(world))
			;
		check_counts(world);
		for (int i = 0; i < FLOWS; i++)
			all_wait &= world->flows[i].n_waiting > 0;
		if (!all_wait)
			break;
		assert_int_equal(world->queue.n_running, limit);
		for (int i = 1; i < FLOWS; i++) {
			double difference = with_running(world, i) / (double)weights[i] -
					    with_running(world, 0) / (double)weights[0];
			double bound = (double)limit * quantum *
				       (1.0 / (double)weights[i] + 1.0 / (double)weights[0]);

			assert_true(difference <= bound + 1);
			assert_true(-difference <= bound + 1);
		}
		run_on(world);
	}
	free(world);
}

TEST(test_shares_are_within_the_bound)
{
	for (int round = 0; round < 12; round++) {
		uint64_t weights[FLOWS];

		seed = 77 + (uint32_t)round;
		for (int i = 0; i < FLOWS; i++)
			weights[i] = round % 3 == 0 ? 100 : 1 + any(10000);
		check_shares(1 + any(20), round % 2 == 0 ? 5000 : 3000000, weights);
	}
}

/* With calls of one length, the numbers of calls match the weights to within one call. */
TEST(test_equal_calls_are_counted_by_weight)
{
	static const uint64_t weights[FLOWS] = {100, 300, 0, 0, 0, 0};
	struct world *world = new_world(4, 5);

	for (int i = 0; i < 2; i++) {
		queue_flow_set(&world->queue, &world->flows[i], weights[i], SIZE_MAX, world->now);
		for (int j = 0; j < 1000; j++)
			add(world, i, 0, 250000);
	}
	do
		while (next(world))
			;
	while (run_on(world)->flow != 1 || world->ended[1] < 900);
	assert_in_range(world->ended[0], 298, 302);
	free(world);
}

/*
 * Each flow gets half of the time, however long its calls are: three short calls of one for each
 * long call of the other.
 */
TEST(test_long_calls_cost_more_turns)
{
	struct world *world = new_world(2, 5);

	for (int j = 0; j < 300; j++)
		add(world, 0, 0, 3000000);
	for (int j = 0; j < 900; j++)
		add(world, 1, 0, 1000000);
	while (world->ended[1] < 600) {
		while (next(world))
			;
		run_on(world);
	}
	assert_in_range(world->ended[0], 196, 204);
	free(world);
}

/*
 * A tenant that comes to a host filled by another gets the next call, and the other's earlier use
 * is not held against it.
 */
TEST(test_who_was_away_gets_its_share_and_no_more)
{
	struct world *world = new_world(4, 5);
	size_t of_first;

	for (int j = 0; j < 1000; j++)
		add(world, 0, 0, 1000000);
	while (world->ended[0] < 400) {
		while (next(world))
			;
		run_on(world);
	}
	for (int j = 0; j < 1000; j++)
		add(world, 1, 0, 1000000);
	assert_int_equal(next(world)->flow, 1);
	of_first = world->ended[0];
	while (world->ended[1] < 200) {
		while (next(world))
			;
		run_on(world);
	}
	assert_in_range(world->ended[0] - of_first, 190, 210);
	free(world);
}

/* Calls that only sleep fill the soft limit. They hold up no other flow and, while the CPUs have
 * room, not their own flow either. */
TEST(test_the_soft_limit_holds_back_the_same_flow)
{
	struct world *world = new_world(4, 5);

	world->queue.soft_limit = 2;
	for (int j = 0; j < 5; j++)
		add(world, 0, 0, 1000000000);
	assert_false(call_queue_is_held(&world->queue));
	assert_non_null(next(world));
	assert_non_null(next(world));
	assert_true(call_queue_is_held(&world->queue));
	assert_null(next(world));
	add(world, 1, 0, 1000000000);
	add(world, 1, 0, 1000000000);
	assert_int_equal(next(world)->flow, 1);
	assert_null(next(world));
	world->queue.has_room = true;
	assert_non_null(next(world));
	assert_false(call_queue_is_held(&world->queue)); /* the hard limit */
	assert_null(next(world));
	free(world);
}

/* A flow that just had its turn and runs nothing still waits for the flows that have used less. */
TEST(test_the_soft_limit_gives_no_turn_before_its_time)
{
	struct world *world = new_world(4, 5);
	struct job *job;

	world->queue.soft_limit = 1;
	queue_flow_set(&world->queue, &world->flows[1], 50, SIZE_MAX, world->now);
	add(world, 0, 0, 3000);
	assert_int_equal(next(world)->flow, 0);
	job = add(world, 1, 0, 1000);
	add(world, 0, 0, 1000);
	add(world, 1, 0, 1000);
	assert_ptr_equal(next(world), job);
	assert_null(next(world));
	world->now += 500000;
	end(world, job);
	assert_null(next(world)); /* its weight counts the time that it used twice */
	world->now += 450000;
	assert_int_equal(next(world)->flow, 1);
	free(world);
}

TEST(test_the_soft_limit_gives_way_ever_more_slowly)
{
	struct world *world = new_world(10, 5);

	world->queue.soft_limit = 2;
	for (int j = 0; j < 5; j++)
		add(world, 0, 0, 1000000000);
	assert_non_null(next(world));
	assert_non_null(next(world));
	for (uint64_t i = 1; i <= 3; i++) {
		world->now += i * CALL_QUEUE_PATIENCE_US - 1;
		assert_null(next(world));
		world->now += 1;
		assert_non_null(next(world));
		assert_null(next(world));
	}
	free(world);
}

/* Starts 64 calls of flow 0 while the CPUs have room, and then takes the room away. */
static struct world *new_full_world(void)
{
	struct world *world = new_world(256, 5);

	world->queue.soft_limit = 6;
	world->queue.has_room = true;
	for (int j = 0; j < 65; j++)
		add(world, 0, 0, 1000000000);
	for (int j = 0; j < 64; j++)
		assert_non_null(next(world));
	world->queue.has_room = false;
	return world;
}

/* Calls of one flow slept when they began and compute now. They hold up no other flow. */
TEST(test_the_soft_limit_is_shared_by_the_flows)
{
	struct world *world = new_full_world();

	for (int j = 0; j < 5; j++)
		add(world, 1, 0, 1000000000);
	for (int j = 0; j < 3; j++) /* its share of 6 */
		assert_int_equal(next(world)->flow, 1);
	assert_null(next(world));
	world->now += CALL_QUEUE_PATIENCE_US - 1;
	assert_null(next(world));
	world->now += 1;
	assert_int_equal(next(world)->flow, 1);
	world->now += 2 * CALL_QUEUE_PATIENCE_US - 1;
	assert_null(next(world));
	world->now += 1;
	assert_int_equal(next(world)->flow, 1);
	check_counts(world);
	free(world);
}

/* A third flow begins short calls again and again. It holds up no other flow, in whichever
 * order. */
TEST(test_waiting_at_the_soft_limit_is_each_flows_own)
{
	struct world *world = new_full_world();
	struct job *third = NULL;
	uint64_t begun;

	for (int j = 0; j < 4; j++)
		add(world, 1, 0, 1000000000);
	for (int j = 0; j < 3; j++)
		assert_int_equal(next(world)->flow, 1);
	begun = world->now;
	for (;;) {
		struct job *job;

		if (third)
			end(world, third);
		third = add(world, 2, 0, 1000);
		world->now += 100000;
		while ((job = next(world)) && job->flow != 1)
			;
		if (job)
			break;
		/* two of its calls are beyond its share, which three flows divide */
		assert_true(world->now - begun < 3 * CALL_QUEUE_PATIENCE_US);
	}
	free(world);
}

TEST(test_nobody_starves_beside_endless_others)
{
	struct world *world = new_world(2, 5);
	struct job *poor;

	for (int i = 1; i < FLOWS; i++)
		queue_flow_set(&world->queue, &world->flows[i], 10000, SIZE_MAX, world->now);
	queue_flow_set(&world->queue, &world->flows[0], 1, SIZE_MAX, world->now);
	for (int i = 1; i < FLOWS; i++)
		for (int j = 0; j < 700; j++)
			add(world, i, 0, 400000);
	while (world->ended[1] < 100) {
		while (next(world))
			;
		run_on(world);
	}
	poor = add(world, 0, 0, 1000);
	for (int scheduler = 0; !poor->runs; scheduler++) {
		assert_true(scheduler < FLOWS);
		while (next(world))
			;
		run_on(world);
		if (poor->entry.workspace == NULL)
			break;
	}
	free(world);
}

TEST(test_a_workspace_at_its_limit_holds_up_no_other)
{
	struct world *world = new_world(10, 5);
	struct job *jobs[4], *other;

	workspace_queue_set(&world->queue, &world->workspaces[0][0], true, 2, world->now);
	for (size_t i = 0; i < 4; i++)
		jobs[i] = add(world, 0, 0, 1000);
	other = add(world, 0, 1, 1000);
	assert_ptr_equal(next(world), jobs[0]);
	assert_ptr_equal(next(world), jobs[1]);
	assert_ptr_equal(next(world), other);
	assert_null(next(world));
	end(world, jobs[1]);
	assert_ptr_equal(next(world), jobs[2]);
	workspace_queue_set(&world->queue, &world->workspaces[0][0], false, 2, world->now);
	end(world, jobs[0]);
	assert_null(next(world));
	workspace_queue_set(&world->queue, &world->workspaces[0][0], true, 2, world->now);
	assert_ptr_equal(next(world), jobs[3]);
	check_counts(world);
	free(world);
}

/* Calls that never end take all places but the kept ones, and each of the others gets one of these.
 */
TEST(test_places_are_kept_for_flows_that_run_nothing)
{
	struct world *world = new_world(10, 5);
	struct job *job;

	world->queue.kept = 2;
	for (size_t i = 0; i < 10; i++)
		add(world, 0, 0, 1000);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(next(world)->flow, 0);
	assert_null(next(world));
	for (int flow = 1; flow <= 3; flow++) {
		job = add(world, flow, 0, 1000);
		assert_ptr_equal(next(world), flow <= 2 ? job : NULL);
		add(world, flow, 0, 1000);
		assert_null(next(world));
	}
	/* The next place that comes free is that of the flow that has none. */
	end(world, &world->jobs[0]);
	assert_ptr_equal(next(world), job);
	check_counts(world);
	free(world);
}

TEST(test_entries_leave_from_anywhere)
{
	struct world *world = new_world(1, 5);
	struct job *jobs[5];

	for (size_t i = 0; i < 5; i++)
		jobs[i] = add(world, 0, 0, 1000);
	assert_ptr_equal(next(world), jobs[0]);
	call_queue_remove(&world->queue, &jobs[2]->entry, world->now);
	/* has been removed already */
	call_queue_remove(&world->queue, &jobs[2]->entry, world->now);
	call_queue_remove(&world->queue, &jobs[1]->entry, world->now);
	assert_null(next(world));
	end(world, jobs[0]);
	assert_ptr_equal(next(world), jobs[3]);
	call_queue_remove(&world->queue, &jobs[4]->entry, world->now);
	end(world, jobs[3]);
	assert_null(next(world));
	check_counts(world);
	assert_true(LIST_EMPTY(&world->queue.flows));
	free(world);
}

/*
 * A tenant is removed and configured again while its calls wait and run: they go on as the new
 * one's.
 */
TEST(test_a_workspace_moves_with_all_that_is_in_it)
{
	struct world *world = new_world(2, 5);
	struct job *first, *second, *third;

	first = add(world, 0, 0, 1000000);
	second = add(world, 0, 0, 1000);
	third = add(world, 0, 0, 1000);
	assert_ptr_equal(next(world), first);
	workspace_queue_move(&world->queue, &world->workspaces[0][0], &world->flows[1], world->now);
	assert_int_equal(world->flows[0].n_running + world->flows[0].n_waiting, 0);
	assert_int_equal(world->flows[1].n_running, 1);
	assert_int_equal(world->flows[1].n_waiting, 2);
	queue_flow_set(&world->queue, &world->flows[1], 100, 1, world->now);
	memset(&world->flows[0], 0x5a, sizeof(world->flows[0])); /* freed with its tenant */
	assert_null(next(world));
	end(world, first);
	assert_ptr_equal(next(world), second);
	end(world, second);
	assert_ptr_equal(next(world), third);
	free(world);
}

/*
 * Random arrivals, ends, limits, weights, closings and moves: every call that can run runs, and the
 * counts are right.
 */
static void random_step(struct world *world)
{
	int flow = (int)any(FLOWS), workspace = (int)any(WORKSPACES);
	struct workspace_queue *moved = &world->workspaces[flow][workspace];
	struct job *job = world->n_jobs > 0 ? &world->jobs[any((uint32_t)world->n_jobs)] : NULL;

	world->now += any(50000);
	switch (any(8)) {
	case 0:
		workspace_queue_set(&world->queue, moved, any(3) > 0, any(5), world->now);
		break;
	case 1:
		queue_flow_set(
			&world->queue, &world->flows[flow], 1 + any(10000), any(9), world->now);
		break;
	case 2:
		world->queue.limit = any(12);
		break;
	case 3:
	case 4:
		if (job && job->entry.workspace)
			call_queue_remove(&world->queue, &job->entry, world->now);
		break;
	default:
		if (world->n_jobs < PLACES)
			add(world, flow, workspace, 1000);
	}
}

static bool could_begin(const struct world *world, int flow)
{
	if (world->flows[flow].n_running >= world->flows[flow].limit ||
		world->queue.n_running >= world->queue.limit)
		return false;
	for (int j = 0; j < WORKSPACES; j++) {
		const struct workspace_queue *workspace = &world->workspaces[flow][j];

		if (workspace->open && workspace->n_waiting > 0 &&
			workspace->n_running < workspace->limit)
			return true;
	}
	return false;
}

TEST(test_nothing_idles_that_could_run)
{
	struct world *world = new_world(4, 5);

	seed = 4242;
	for (int step = 0; step < 30000; step++) {
		struct queue_entry *entry;

		random_step(world);
		while ((entry = call_queue_next(&world->queue, world->now)))
			assert_true(entry->running);
		for (int i = 0; i < FLOWS; i++)
			assert_false(could_begin(world, i));
		if (world->n_jobs == PLACES)
			for (size_t i = world->n_jobs = 0; i < PLACES; i++)
				call_queue_remove(&world->queue, &world->jobs[i].entry, world->now);
	}
	for (size_t i = 0; i < PLACES; i++)
		call_queue_remove(&world->queue, &world->jobs[i].entry, world->now);
	check_counts(world);
	assert_int_equal(world->queue.n_running, 0);
	assert_true(LIST_EMPTY(&world->queue.flows));
	free(world);
}

/*
 * Years of use cause no overflow: all used values are lowered together, also those of absent flows.
 */
TEST(test_what_is_used_is_lowered_together)
{
	struct world *world = new_world(1, 5);
	uint64_t month = UINT64_C(30) * 24 * 3600 * 1000000;

	queue_flow_set(&world->queue, &world->flows[0], 1, SIZE_MAX, world->now);
	queue_flow_set(&world->queue, &world->flows[1], 1, SIZE_MAX, world->now);
	for (int i = 0; i < 1500; i++) {
		struct job *job;

		add(world, 0, 0, month);
		job = next(world);
		assert_non_null(job);
		world->now += month;
		end(world, job);
		assert_true(world->flows[0].used >= 0);
	}
	assert_true(world->queue.epoch > 5);
	/* The absent flow shares turns with the other from now on. */
	for (int i = 0; i < 200; i++) {
		add(world, 0, 0, 1000000);
		add(world, 1, 0, 1000000);
	}
	world->ended[0] = world->ended[1] = 0;
	while (world->ended[0] < 100) {
		while (next(world))
			;
		run_on(world);
	}
	assert_in_range(world->ended[1], 98, 103);
	free(world);
}

TEST(test_the_wait_is_computed_from_what_ran)
{
	struct world *world = new_world(2, 5);
	struct job *job;

	assert_int_equal(queue_flow_wait_us(&world->queue, &world->flows[0]), 0);
	job = add(world, 0, 0, 400000);
	assert_ptr_equal(next(world), job);
	run_on(world);
	for (int i = 0; i < 10; i++)
		add(world, 0, 0, 400000);
	next(world);
	next(world);
	/* Eight calls wait, two run at once, for 0.4 s each. */
	assert_int_equal(queue_flow_wait_us(&world->queue, &world->flows[0]), 1600000);
	/* For a tenant without calls so far, the estimate comes from the calls of others. */
	add(world, 1, 0, 1);
	assert_int_equal(queue_flow_wait_us(&world->queue, &world->flows[1]), 400000);
	free(world);
}
