// SPDX-License-Identifier: Apache-2.0
/* links: cloister-spawner-core */
/*
 * What copies that hang cost: their tenants, and nobody else. Copiers are stopped before they do
 * anything. Needs root, for mounts.
 */
#include "worker/spawner/job/copies.h"

#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"
#include "worker/spawner/cell/cell_make.h"

#include <pthread.h>

enum { HANGING = LIMIT_COPIES / LIMIT_COPIES_OF_TENANT }; /* tenants */

static struct scratch scratch;
static struct jobs jobs;
static struct copies copies;
static struct cell_ids ids;
static struct policy *policy;
static struct cell_maker maker = {.ids = &ids, .copies = &copies};
static bool hangs;
static int told, timed_out;
static uint64_t told_last;

static void hang_if_told(void)
{
	if (hangs)
		raise(SIGSTOP);
}

static void tell(void *context, uint64_t number, int result)
{
	(void)context;
	told++;
	timed_out += result == -ETIMEDOUT;
	told_last = result == 0 ? number : 0;
}

static int set_up(void **state)
{
	char path[sizeof(scratch.path) + 32];
	FILE *file;

	(void)state;
	if (geteuid() != 0)
		return 0;
	scratch = scratch_new();
	snprintf(path, sizeof(path), "%s/cloister.conf", scratch.path);
	file = fopen(path, "we");
	assert_non_null(file);
	for (int i = 0; i <= HANGING; i++)
		fprintf(file, "[tenant t%d]\nusers = root\nmanaged = yes\n", i);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(policy_open(path, &policy), 0);
	assert_int_equal(policy_read(policy, false), 0);
	maker.policy = policy;
	assert_int_equal(mkdirat(scratch.fd, "source", 0700), 0);
	assert_int_equal(mkdirat(scratch.fd, "state", 0700), 0);
	assert_int_equal(mkdirat(scratch.fd, "state/managed", 0700), 0);
	assert_int_equal(mkdirat(scratch.fd, "state/templates", 0700), 0);
	cell_ids_init(&ids, (struct cell_id){0, 0},
		openat(scratch.fd, "state/managed", O_PATH | O_DIRECTORY | O_CLOEXEC));
	jobs_init(&jobs);
	copies_init(&copies, &jobs, tell, NULL);
	return pthread_atfork(NULL, NULL, hang_if_told);
}

static int tear_down(void **state)
{
	(void)state;
	if (geteuid() == 0)
		scratch_done(&scratch);
	return 0;
}

FIXTURE(set_up, tear_down)

/* The tenant @t asks for a copy of the directory "source". */
static void ask(int t, int number)
{
	_cleanup_close_ int source = openat(scratch.fd, "source", O_PATH | O_DIRECTORY);
	static struct place place;
	char tenant[16], target[16], path[64];
	const char *step = "";

	snprintf(tenant, sizeof(tenant), "t%d", t);
	snprintf(target, sizeof(target), "new%d", number);
	snprintf(path, sizeof(path), "state/templates/%s", tenant);
	(void)mkdirat(scratch.fd, path, 0700);
	snprintf(path, sizeof(path), "state/templates/%s/%s", tenant, target);
	assert_int_equal(mkdirat(scratch.fd, path, 0700), 0);
	place_init(&place);
	place_look_again(&place, source, "", false);
	assert_int_equal(place.error, 0);
	assert_int_equal(copies_import(&maker, (uint64_t)(100 * t + number),
				 &(struct spawner_copy){.tenant = text_from(tenant),
					 .target = text_from(target),
					 .max_bytes = UINT64_MAX,
					 .max_files = UINT64_MAX},
				 &place, &step),
		0);
	place_done(&place);
}

static void reap(pid_t pid)
{
	int status;

	pid = waitpid(pid, &status, 0);
	assert_true(pid > 0);
	assert_true(jobs_reaped(&jobs, pid, status));
}

static void let_time_pass(uint64_t ms)
{
	struct job *job;

	LIST_FOREACH (job, &copies.copying.running, entry)
		job->began_us -= ms * 1000;
	jobs_look(&jobs);
}

TEST(test_copies_that_hang)
{
	size_t n;

	if (geteuid() != 0)
		skip();
	hangs = true;
	for (int i = 0; i < LIMIT_COPIES; i++)
		ask(i / LIMIT_COPIES_OF_TENANT, i);
	n = copies.copying.turns.n_running;
	assert_in_range(n, HANGING, LIMIT_COPIES - 1);
	/* Another tenant's begins at once. */
	hangs = false;
	ask(HANGING, 1);
	assert_int_equal(copies.copying.turns.n_running, n + 1);
	reap(LIST_FIRST(&copies.copying.running)->pid);
	assert_int_equal(told_last, 100 * HANGING + 1);
	/* Those of the others that wait begin when the first are late, and all that hang end. */
	hangs = true;
	let_time_pass(LIMIT_COPY_LATE_MS);
	assert_int_equal(copies.copying.turns.n_waiting, 0);
	let_time_pass(LIMIT_COPY_MS);
	let_time_pass(0);
	while (!LIST_EMPTY(&copies.copying.running))
		reap(-1);
	assert_int_equal(timed_out, LIMIT_COPIES);
	assert_int_equal(told, LIMIT_COPIES + 1);
}
