/* links: cloister-spawner-core */
// SPDX-License-Identifier: Apache-2.0
/* How many files processes of a tenant, and of all, start at once in existing cells, and that those
 * of new cells need no place among them. A helper is a child that does nothing, as one that a
 * worker has frozen. */
#include "worker/spawner/cell/cell_starts.h"

#include "common/wire/wire_spawner.h"
#include "tests/lib/unit.h"

#include <sys/prctl.h>

/* Begins a start that is held up. */
static int begin(struct cell_starts *starts, const char *tenant, const char **ret_reason)
{
	struct cell_start *start;
	int report[2], r = cell_start_new(starts, tenant, &start, ret_reason);
	pid_t helper;

	if (r < 0)
		return r;
	assert_int_equal(*start->files, 0);
	assert_int_equal(pipe(report), 0);
	helper = fork();
	assert_true(helper >= 0);
	if (helper == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	close(report[1]);
	cell_starts_add(starts, start, helper, report[0]);
	return 0;
}

static void assert_full(struct cell_starts *starts, const char *tenant, const char *why)
{
	const char *reason = NULL;

	assert_int_equal(begin(starts, tenant, &reason), -SPAWNER_NOT_NOW);
	assert_non_null(strstr(reason, why));
	assert_non_null(strstr(reason, "try again"));
}

static void assert_room(struct cell_starts *starts, const char *tenant)
{
	const char *reason;

	assert_int_equal(begin(starts, tenant, &reason), 0);
}

/* Gives up @start, and reaps its helper. */
static void end(struct cell_starts *starts, struct cell_start *start)
{
	pid_t helper = start->helper, files;

	assert_int_equal(cell_start_end(start, -ETIMEDOUT), -ETIMEDOUT);
	assert_int_equal(waitpid(helper, NULL, 0), helper);
	assert_true(cell_starts_reaped(starts, helper, &files));
	assert_int_equal(files, 0);
}

static void end_all(struct cell_starts *starts)
{
	while (!LIST_EMPTY(&starts->list))
		end(starts, LIST_FIRST(&starts->list));
}

static void fill(struct cell_starts *starts, const char *tenant)
{
	for (int i = 0; i < LIMIT_FILES_STARTS_OF_TENANT; i++)
		assert_room(starts, tenant);
}

TEST(test_a_tenant_has_its_share)
{
	struct cell_starts starts;

	cell_starts_init(&starts);
	fill(&starts, "one");
	assert_full(&starts, "one", "of the tenant");
	assert_room(&starts, "two");
	/* Without a configuration there is one tenant, which has no name. */
	fill(&starts, "");
	assert_full(&starts, "", "of the tenant");
	end_all(&starts);
	assert_room(&starts, "one");
	end_all(&starts);
}

/* One that was given up keeps its place until its helper is reaped. */
TEST(test_a_place_is_free_when_nothing_is_left)
{
	struct cell_starts starts;
	struct cell_start *start;
	pid_t helper, files;

	cell_starts_init(&starts);
	fill(&starts, "one");
	start = LIST_FIRST(&starts.list);
	helper = start->helper;
	assert_int_equal(cell_start_end(start, -ETIMEDOUT), -ETIMEDOUT);
	assert_full(&starts, "one", "of the tenant");
	assert_int_equal(waitpid(helper, NULL, 0), helper);
	assert_true(cell_starts_reaped(&starts, helper, &files));
	assert_room(&starts, "one");
	assert_full(&starts, "one", "of the tenant");
	end_all(&starts);
}

/* Returns how many the tenant can begin. */
static int begin_all(struct cell_starts *starts, const char *tenant)
{
	const char *reason;
	int n = 0;

	while (begin(starts, tenant, &reason) == 0)
		n++;
	return n;
}

/* Tenants that hold as many as they can, all held up, leave places to a later one. */
TEST(test_tenants_leave_places)
{
	struct cell_starts starts;
	struct cell_start *start;
	pid_t helper, files;
	char tenant[16];

	cell_starts_init(&starts);
	for (int i = 0; i < 2 * LIMIT_FILES_STARTS / LIMIT_FILES_STARTS_OF_TENANT; i++) {
		snprintf(tenant, sizeof(tenant), "tenant%d", i);
		assert_in_range(begin_all(&starts, tenant), 1, LIMIT_FILES_STARTS_OF_TENANT);
	}
	assert_room(&starts, "another");
	/* Those that are killed and still exist count for their tenant alone. */
	LIST_FOREACH (start, &starts.list, entry)
		if (strcmp(start->tenant, "tenant0") == 0)
			assert_int_equal(cell_start_end(start, -ETIMEDOUT), -ETIMEDOUT);
	assert_full(&starts, "tenant0", "of the tenant");
	assert_true(begin_all(&starts, "more") > 1);
	LIST_FOREACH (start, &starts.list, entry)
		if (start->report >= 0)
			assert_int_equal(cell_start_end(start, -ETIMEDOUT), -ETIMEDOUT);
	while ((helper = waitpid(-1, NULL, 0)) > 0)
		assert_true(cell_starts_reaped(&starts, helper, &files));
	assert_true(LIST_EMPTY(&starts.list));
}

TEST(test_new_cells_need_no_place)
{
	struct cell_starts starts;
	char tenant[16];

	cell_starts_init(&starts);
	for (int i = 0; i < LIMIT_FILES_STARTS - 1; i++) {
		snprintf(tenant, sizeof(tenant), "tenant%d", i);
		assert_room(&starts, tenant);
	}
	assert_full(&starts, "another", "too many files processes are starting");
	assert_room(&starts, NULL);
	end(&starts, LIST_FIRST(&starts.list));
	/* Nor do they take one. */
	for (int i = 0; i < LIMIT_FILES_STARTS_OF_TENANT; i++)
		assert_room(&starts, NULL);
	for (int i = 0; i < LIMIT_FILES_STARTS_OF_TENANT; i++)
		end(&starts, LIST_FIRST(&starts.list));
	end(&starts, LIST_FIRST(&starts.list));
	assert_room(&starts, NULL);
	assert_room(&starts, "another");
	assert_full(&starts, "another", "too many files processes are starting");
	end_all(&starts);
}
