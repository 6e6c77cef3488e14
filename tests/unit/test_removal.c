/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process id_range */
// SPDX-License-Identifier: Apache-2.0
/* Managed workspaces: cloisterd finishes removals that were interrupted. In system mode: which
 * ids directories must have, and how many workspaces there may be. */
#include "supervisor/workspace/managed/removal.h"

#include "supervisor/config/config.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/managed/managed_quota.h"
#include "supervisor/workspace/managed/workspace_owner.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/id_range.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/workers.h"

#include <sys/syscall.h>
#include <time.h>

static struct fake_service *fake;
static int64_t passed_ns, call_ns; /* beside the kernel's time, and how much more with each call */

/* In the place of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	const long r = syscall(SYS_clock_gettime, clock, ret_now);

	passed_ns += call_ns;
	ret_now->tv_nsec += passed_ns % 1000000000;
	ret_now->tv_sec += passed_ns / 1000000000 + ret_now->tv_nsec / 1000000000;
	ret_now->tv_nsec %= 1000000000;
	return (int)r;
}

static int set_up(void **state)
{
	(void)state;
	fake = fake_service_new("[tenant one]\nusers = 1001\nmanaged = yes\n"
				"workspaces_existing = 3\n"
				"[tenant two]\nusers = 1002\nmanaged = yes\n"
				"[tenant none]\nusers = 1003\n");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fake_workers_answers = (struct fake_answers){0};
	fake_service_free(fake);
	fake_id_range = NULL;
	return 0;
}

FIXTURE(set_up, tear_down)

static void make(const char *path)
{
	char below[256];

	snprintf(below, sizeof(below), "state/%s/", path);
	scratch_parents(&fake->scratch, below);
}

static bool is_there(const char *path)
{
	char below[256];

	snprintf(below, sizeof(below), "state/%s", path);
	return faccessat(fake->scratch.fd, below, F_OK, 0) == 0;
}

/* What deaths have left: of an older version, which marked what it removed; and of this one. */
TEST(test_removals_are_finished)
{
	struct removal *removal;

	make("one/a");
	make("one/.removing-a");
	make("one/.layers-a");
	make("one/b");
	make("one/.rootfs-b");
	make("one/.layers-b");
	make("one/.removing-gone"); /* only the mark is left */
	make("one/.layers-c");      /* c has been given its other name */
	make("one/.rootfs-c");
	make("two/c");
	make("two/.removing-c");
	scratch_text(&fake->scratch, "state/two/c/file", "");
	removal = removal_new(fake->service.workspaces, fake->service.config);
	assert_non_null(removal);
	fake_service_pass(fake, 1);
	assert_false(is_there("one/a"));
	assert_false(is_there("one/.removing-a"));
	assert_false(is_there("one/.layers-a"));
	assert_false(is_there("one/.removing-gone"));
	assert_false(is_there("one/.layers-c"));
	assert_false(is_there("one/.rootfs-c"));
	assert_false(is_there("two/c"));
	assert_false(is_there("two/.removing-c"));
	assert_true(is_there("one/b"));
	assert_true(is_there("one/.rootfs-b"));
	assert_true(is_there("one/.layers-b"));
	/* The spawner is told, and removes homes and files. */
	assert_string_equal(fake_spawner_removed(fake->spawner), "two/c");
	assert_memory_equal(fake_spawner_dropped(fake->spawner), "two/.removed-", 13);
	assert_int_equal(fake->service.config->tenants[1]->usage->removed, 1);
	/* It looks again when a former generation has ended. */
	make("one/.layers-d");
	removal_look_again(removal, fake->service.config);
	fake_service_pass(fake, 1);
	assert_false(is_there("one/.layers-d"));
	removal_look_again(removal, fake->service.config);
	removal_free(removal);
	removal_free(NULL);
}

/* What earlier cloisterds have removed and the spawner has yet to clear. */
TEST(test_what_is_being_cleared_counts_at_the_start)
{
	make("one/a");
	make("one/.removed-1.2.3");
	make("one/.removed-1.2.4");
	fake->service.config->tenants[0]->usage->existing_ms = 0;
	managed_quota_follow(fake->managed_fd, fake->service.config);
	assert_int_equal(fake->service.config->tenants[0]->usage->existing, 1);
	assert_int_equal(fake->service.config->tenants[0]->usage->removed, 2);
}

/* Makes @n managed workspaces of @tenant and removes all others. */
static void make_many(const char *tenant, size_t n)
{
	char path[64];

	for (size_t i = 0; i < 16; i++) {
		snprintf(path, sizeof(path), "%s/%zu", tenant, i);
		if (i < n)
			make(path);
		snprintf(path, sizeof(path), "state/%s/%zu", tenant, i);
		if (i >= n)
			(void)unlinkat(fake->scratch.fd, path, AT_REMOVEDIR);
	}
}

/* A tenant's number of workspaces has its own limit and, in system mode, a share of the ids. */
TEST(test_how_many_may_exist)
{
	static const struct id_range range = {100000, 100000, 42}; /* 20 ids for managed ones */
	static const struct {
		size_t of_one, of_two; /* how many exist */
		bool system, one_may, two_may;
	} rows[] = {
		{0, 0, false, true, true},
		{2, 0, false, true, true},
		{3, 0, false, false, true},
		{3, 12, false, false, true},
		{0, 9, true, true, true},
		{0, 10, true, true, false}, /* half of the ids are used: 5 for each */
		{2, 8, true, true, false},
		{3, 0, true, false, true},
	};
	const struct config *config = fake->service.config;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const bool may[] = {rows[i].one_may, rows[i].two_may};

		fake_id_range = rows[i].system ? &range : NULL;
		make_many("one", rows[i].of_one);
		make_many("two", rows[i].of_two);
		for (size_t j = 0; j < ARRAY_SIZE(may); j++)
			config->tenants[j]->usage->existing_ms = 0; /* forgets the cached number */
		managed_quota_follow(fake->managed_fd, config);
		for (size_t j = 0; j < ARRAY_SIZE(may); j++) {
			_cleanup_(refusal_done) struct refusal refusal = {0};
			enum tool_error error;

			error = managed_quota_check(fake->managed_fd, config->tenants[j], &refusal);
			if ((error == TOOL_OK) != may[j])
				fail_msg("row %zu, tenant %zu: %s", i, j, tool_error_name(error));
			if (!may[j])
				assert_int_equal(error, TOOL_QUOTA_EXCEEDED);
			assert_int_equal(refusal.message != NULL, !may[j]);
		}
	}
}

/* A tenant at its limit has its workspaces counted, but not so often that others would wait. */
TEST(test_counting_takes_a_part_of_the_time)
{
	const struct tenant *tenant = fake->service.config->tenants[0];
	_cleanup_(refusal_done) struct refusal refusal = {0};

	make_many("one", 3);
	tenant->usage->existing_ms = 0;
	call_ns = 100 * 1000000LL;
	managed_quota_follow(fake->managed_fd, fake->service.config);
	call_ns = 0;
	make_many("one", 2); /* an administrator removes one */
	passed_ns += 1500 * 1000000LL;
	assert_int_equal(
		managed_quota_check(fake->managed_fd, tenant, &refusal), TOOL_QUOTA_EXCEEDED);
	passed_ns += 1500 * 1000000LL;
	assert_int_equal(managed_quota_check(fake->managed_fd, tenant, &refusal), TOOL_OK);
}

/* System mode: which owner a directory must have. */

static uid_t used_id;

static bool is_used(const void *context, uid_t id)
{
	(void)context;
	return id == used_id;
}

TEST(test_whose_a_directory_must_be)
{
	static const struct id_range range = {100000, 200000, 1000};
	static const struct {
		uid_t uid;
		gid_t gid;
		uid_t used;
		const char *why_not; /* NULL: it may be a workspace */
	} rows[] = {
		{100000, 200000, 0, NULL},
		{100999, 200999, 0, NULL},
		{100007, 5, 0, NULL}, /* the group is no workspace's id */
		{101000, 200000, 0, "must belong to an id of cloister's range"},
		{99999, 200000, 0, "must belong to an id of cloister's range"},
		{0, 0, 0, "must belong to an id of cloister's range"},
		{100007, 200007, 100007, "belongs to the id of another workspace"},
		{100007, 200008, 0, "belongs to the group of another workspace"},
	};

	if (geteuid() != 0)
		skip();
	assert_int_equal(mkdirat(fake->scratch.fd, "it's", 0755), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(refusal_done) struct refusal refusal = {0};
		struct workspace_root root = {.path = (char *)"/it's", .ino = 5};
		enum tool_error error;

		assert_int_equal(
			fchownat(fake->scratch.fd, "it's", rows[i].uid, rows[i].gid, 0), 0);
		root.fd = openat(fake->scratch.fd, "it's", O_PATH | O_DIRECTORY | O_CLOEXEC);
		fake_id_range = &range;
		used_id = rows[i].used;
		error = workspace_owner_check(&root, is_used, NULL, &refusal);
		close(root.fd);
		assert_int_equal(error, rows[i].why_not ? TOOL_FORBIDDEN : TOOL_OK);
		assert_int_equal(refusal.message != NULL, rows[i].why_not != NULL);
		if (!refusal.message || !rows[i].why_not)
			continue;
		if (!strstr(refusal.message, rows[i].why_not))
			fail_msg("row %zu: %s", i, refusal.message);
		/* The message says what to do: a command for the shell with a free id. */
		assert_non_null(strstr(refusal.message, ": chown -R 100"));
		assert_non_null(strstr(refusal.message, " '/it'\\''s'"));
	}
	/* In user mode the owner does not matter. */
	fake_id_range = NULL;
	assert_int_equal(workspace_owner_check(&(struct workspace_root){.fd = -1}, is_used, NULL,
				 &(struct refusal){0}),
		TOOL_OK);
}
