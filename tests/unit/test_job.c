/* links: cloister-spawner-core */
// SPDX-License-Identifier: Apache-2.0
/* Jobs that children of the spawner do: whose is next, how one ends, and what one that hangs costs.
 */
#include "tests/lib/unit.h"
#include "worker/spawner/job/job.h"

enum { LATE_MS = 10000, END_MS = 60000 };

struct work {
	struct job job; /* first */
	char name;
	int starts; /* it fails so often first */
	int turns;  /* it wants more so often */
	int exits;  /* what its child gives */
};

static struct jobs jobs;
static struct job_queue queue;
static char ended[64];

static const struct setup_step steps[] = {{"die with the spawner", forked_die_with_spawner}};

struct child {
	struct forked forked;
	int exits;
};

/* It hangs, as one that the kernel keeps waiting. */
static int hang(void *context)
{
	const struct child *child = context;

	if (child->exits > 0)
		pause();
	return child->exits;
}

static const struct forked_kind hangs = {"test-job", steps, ARRAY_SIZE(steps), hang};

static struct job_kind kind;

static pid_t start(struct job *job)
{
	struct work *work = (struct work *)job;
	struct child child = {.exits = work->exits};

	if (work->starts-- > 0)
		return kind.is_tried_again ? JOB_WAITS : -EAGAIN;
	return forked_start(&hangs, &child.forked);
}

static bool again(struct job *job, int status)
{
	struct work *work = (struct work *)job;

	(void)status;
	return work->turns-- > 0;
}

static void note(struct job *job, int result)
{
	const struct work *work = (const struct work *)job;

	sprintf(ended + strlen(ended), "%c%d ", work->name, result);
}

static struct job_kind kind = {.at_once = 4,
	.of_tenant = 1,
	.late_ms = LATE_MS,
	.end_ms = END_MS,
	.start = start,
	.again = again,
	.ended = note};

static int set_up(void **state)
{
	(void)state;
	jobs_init(&jobs);
	kind.is_tried_again = false;
	job_queue_init(&queue, &jobs, &kind, NULL);
	ended[0] = '\0';
	return 0;
}

FIXTURE(set_up, NULL)

static void add(struct work *work, char name, const char *tenant, int exits)
{
	*work = (struct work){.name = name, .exits = exits};
	assert_int_equal(job_add(&queue, &work->job, tenant), 0);
}

/* Reaps the child of @work, which is made to end by @signal if that is not 0. */
static void reap(const struct work *work, int signal)
{
	pid_t pid = work->job.pid;
	int status;

	assert_true(pid > 0);
	assert_int_equal(kill(pid, signal), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(jobs_reaped(&jobs, pid, status));
}

/* As if what runs had begun so long ago. */
static void let_time_pass(uint64_t ms)
{
	struct job *job;

	LIST_FOREACH (job, &queue.running, entry)
		job->began_us -= ms * 1000;
}

TEST(test_how_one_ends)
{
	struct work works[4];

	add(&works[0], 'a', "one", 0);
	add(&works[1], 'b', "two", -ENOSPC);
	add(&works[2], 'c', "three", 1);
	add(&works[3], 'd', "four", 1);
	reap(&works[0], 0);
	reap(&works[1], 0);
	reap(&works[2], SIGTERM);
	job_end(&works[3].job, -ETIMEDOUT);
	job_end(&works[3].job, -ENOSPC); /* it is ended already */
	assert_int_equal(job_queue_count(&queue, "four"), 1);
	reap(&works[3], 0);
	assert_string_equal(ended, "a0 b-28 c-5 d-110 ");
	assert_int_equal(job_queue_count(&queue, "four"), 0);
	assert_false(jobs_reaped(&jobs, 1, 0));
	assert_int_equal(jobs_bound(&jobs), -1);
}

TEST(test_turns_and_starts)
{
	struct work a, b, c;

	job_queue_hold(&queue, true);
	add(&a, 'a', "one", 0);
	add(&b, 'b', "one", 0);
	add(&c, 'c', "one", 0);
	a.turns = 1;
	b.starts = 1;
	assert_int_equal(a.job.pid, 0);
	job_cancel(&c.job);
	job_queue_hold(&queue, false);
	reap(&a, 0);
	assert_string_equal(ended, "");
	reap(&a, 0);
	assert_string_equal(ended, "a0 b-11 ");
	assert_int_equal(job_queue_count(&queue, "one"), 0);
	/* One that is given up while it runs is nobody's when it is reaped. */
	add(&a, 'a', "one", 1);
	assert_true(a.job.pid > 0);
	job_cancel(&a.job);
	job_cancel(&a.job);
	assert_int_equal(job_queue_count(&queue, "one"), 0);
	assert_true(waitpid(-1, NULL, 0) > 0);
}

TEST(test_one_that_cannot_start_is_tried_again)
{
	struct work a, b;

	kind.is_tried_again = true;
	job_queue_hold(&queue, true);
	add(&a, 'a', "one", 0);
	add(&b, 'b', "two", 0);
	a.starts = 1;
	job_queue_hold(&queue, false);
	assert_int_equal(a.job.pid, 0);
	assert_int_equal(job_queue_count(&queue, "one"), 1);
	assert_false(jobs_reaped(&jobs, 1, 0)); /* any other child has ended */
	reap(&a, 0);
	reap(&b, 0); /* it has not waited for that */
	assert_string_equal(ended, "a0 b0 ");
}

/* Four tenants keep their children from ending. Their own others wait, those of a fifth do not. */
TEST(test_those_that_hang_cost_their_tenants)
{
	static const char *const tenants[] = {"a", "b", "c", "d", "a", "e"};
	struct work works[ARRAY_SIZE(tenants)];

	for (size_t i = 0; i < ARRAY_SIZE(tenants); i++)
		add(&works[i], tenants[i][0], tenants[i], 1);
	assert_int_equal(works[4].job.pid, 0);
	assert_int_equal(works[5].job.pid, 0);
	assert_in_range(jobs_bound(&jobs), 1, LATE_MS);
	jobs_look(&jobs);
	assert_int_equal(works[5].job.pid, 0);
	let_time_pass(LATE_MS);
	assert_int_equal(jobs_bound(&jobs), 0);
	jobs_look(&jobs);
	assert_int_equal(works[4].job.pid, 0);
	assert_true(works[5].job.pid > 0);
	assert_int_equal(queue.turns.n_running, 1);
	/* They are killed in the end; until they are reaped they count for their tenants. */
	let_time_pass(END_MS - LATE_MS);
	jobs_look(&jobs);
	assert_int_equal(works[4].job.pid, 0);
	for (size_t i = 0; i < 4; i++)
		reap(&works[i], 0);
	reap(&works[4], SIGKILL);
	reap(&works[5], SIGKILL);
	assert_string_equal(ended, "a-110 b-110 c-110 d-110 a-5 e-5 ");
}
