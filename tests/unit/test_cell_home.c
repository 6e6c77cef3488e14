// SPDX-License-Identifier: Apache-2.0
/* links: cloister-spawner-core */
/* How many former homes of a tenant may wait to be cleared. No home cleaner runs, as while another
 * generation may use the homes. Needs root, for homes of other ids. */
#include "worker/spawner/cell/cell_home.h"

#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"

#define UID 4242 /* of nobody */

static const char config[] = "[tenant a]\nusers = root\nmanaged = yes\nhome = kept\n"
			     "[tenant b]\nusers = root\nmanaged = yes\nhome = kept\n";

static struct scratch scratch;
static struct jobs jobs;
static struct cell_homes homes;
static struct policy *policy;

static int set_up(void **state)
{
	char path[sizeof(scratch.path) + 16];
	FILE *file;
	int managed;

	(void)state;
	scratch = scratch_new();
	if (geteuid() != 0)
		return 0;
	snprintf(path, sizeof(path), "%s/cloister.conf", scratch.path);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_true(fputs(config, file) >= 0 && fclose(file) == 0);
	assert_int_equal(policy_open(path, &policy), 0);
	assert_int_equal(policy_read(policy, false), 0);
	assert_int_equal(mkdirat(scratch.fd, "managed", 0700), 0);
	managed = openat(scratch.fd, "managed", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(managed >= 0);
	jobs_init(&jobs);
	cell_homes_init(&homes, &jobs, managed);
	homes.policy = policy;
	cell_homes_set_beside(&homes, true);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	scratch_done(&scratch);
	return 0;
}

FIXTURE(set_up, tear_down)

/* Opens the home of the workspace @name as a cell of @uid, which then ends. */
static int take(const char *tenant, const char *name, uid_t uid, const char **ret_reason)
{
	struct place place = {0};
	struct live_home *live;
	int tree, r;

	snprintf(place.path, sizeof(place.path), "/managed/%s", name);
	r = cell_homes_take(
		&homes, tenant, &place, true, (struct cell_id){uid, uid}, &tree, &live, ret_reason);
	if (r == 0) {
		assert_true(tree >= 0);
		close(tree);
		cell_homes_holds(live, 0);
	}
	return r;
}

TEST(test_former_homes_are_bounded)
{
	const char *reason = NULL;

	if (geteuid() != 0)
		skip();
	/* Each opening by another id finds the home of a former workspace of that name. */
	for (unsigned i = 0; i <= LIMIT_HOMES_GONE; i++)
		assert_int_equal(take("a", "w", UID + i, &reason), 0);
	assert_int_equal(take("a", "w", UID, &reason), -SPAWNER_NOT_NOW);
	assert_non_null(strstr(reason, "still being cleared: try again"));
	assert_int_equal(take("a", "new", UID, &reason), -SPAWNER_NOT_NOW);
	/* What is there goes on, and so does another tenant. */
	assert_int_equal(take("a", "w", UID + LIMIT_HOMES_GONE, &reason), 0);
	assert_int_equal(take("b", "w", UID, &reason), 0);
	assert_int_equal(take("b", "w", UID + 1, &reason), 0);
	assert_true(sweep_hurries(&homes.sweeps));
}
