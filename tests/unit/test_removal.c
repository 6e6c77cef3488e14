/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process id_range */
// SPDX-License-Identifier: Apache-2.0
/* Managed workspaces: cloisterd goes on with removals that were interrupted. In system mode: which
 * ids directories must have, and how many workspaces there may be. */
#include "supervisor/workspace/removal.h"

#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/managed_quota.h"
#include "supervisor/workspace/workspace_owner.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/id_range.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/workers.h"

static struct fake_service *fake;

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

TEST(test_removals_are_finished)
{
	struct removal *removal;

	make("one/a");
	make("one/.removing-a");
	make("one/b");
	make("one/kept");
	make("one/.removing-b");
	make("one/.removing-gone"); /* only the mark is left */
	make("two/c");
	make("two/.removing-c");
	make("none/d");
	make("none/.removing-d"); /* in a tenant without managed workspaces */
	scratch_text(&fake->scratch, "state/one/b/file", "which is not removed");
	removal = removal_new(fake->service.base, fake->service.workspaces, fake->service.config);
	assert_non_null(removal);
	fake_service_run(fake);
	fake_service_run(fake);
	assert_false(is_there("one/a"));
	assert_false(is_there("one/.removing-a"));
	assert_false(is_there("one/.removing-gone"));
	assert_false(is_there("two/c"));
	assert_false(is_there("two/.removing-c"));
	assert_true(is_there("one/kept"));
	/* A directory that is not empty keeps its mark, and the next cloisterd tries again. */
	assert_true(is_there("one/b"));
	assert_true(is_there("one/.removing-b"));
	assert_true(is_there("none/.removing-d"));
	/* The spawner is told of the last removed workspace, and removes its home. */
	assert_string_equal(fake_spawner_removed(fake->spawner), "two/c");
	assert_int_equal(fake->service.config->tenants[0]->usage->workspaces, 0);
	removal_free(removal);
}

/* Until its removal is over, the workspace cannot be opened. */
TEST(test_what_is_being_removed)
{
	static const struct fake_exchange busy = {REQUEST("1", "workspace.open",
							  "{\"workspace\":\"a\"}"),
						  ERROR("1", "-32000", NAMED("BUSY"))},
					  made = {REQUEST("1", "workspace.open",
							  "{\"workspace\":\"a\"}"),
						  RESULT("1", "{*}")};
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, 1001, 1001);
	struct removal *removal;

	make("one/a");
	make("one/.removing-a");
	fake->spawner_waits = true;
	removal = removal_new(fake->service.base, fake->service.workspaces, fake->service.config);
	fake_client_talk(&client, &busy, 1);
	fake->spawner_waits = false;
	fake_service_run(fake);
	fake_client_talk(&client, &made, 1);
	assert_false(is_there("one/.removing-a"));
	fake_client_close(&client);
	removal_free(removal);
	removal_free(NULL);
}

TEST(test_a_removal_that_cannot_be)
{
	struct removal *removal;

	make("one/a");
	make("one/.removing-a");
	make("two/c");
	make("two/.removing-c");
	fake_spawner_refuse(fake->spawner, -EIO);
	removal = removal_new(fake->service.base, fake->service.workspaces, fake->service.config);
	fake_service_run(fake);
	assert_true(is_there("one/.removing-a"));
	assert_true(is_there("two/.removing-c"));
	removal_free(removal);
}

/* A client's removal ends, and a workspace of its name is made, before its turn comes. */
TEST(test_what_is_not_marked_any_more)
{
	struct removal *removal;

	make("one/a");
	make("one/.removing-a");
	removal = removal_new(fake->service.base, fake->service.workspaces, fake->service.config);
	assert_int_equal(unlinkat(fake->scratch.fd, "state/one/.removing-a", AT_REMOVEDIR), 0);
	fake_service_run(fake);
	assert_true(is_there("one/a"));
	/* It looks again when a former generation has ended. */
	make("one/.removing-a");
	removal_look_again(removal, fake->service.config);
	fake_service_run(fake);
	assert_false(is_there("one/a"));
	assert_false(is_there("one/.removing-a"));
	removal_free(removal);
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
