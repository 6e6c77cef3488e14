/* links: cloister-quota-core */
/* fakes: disk_quota */
// SPDX-License-Identifier: Apache-2.0
/* Which ids cloister-quota gives which limits, and what it takes from the configuration. */
#include "quota/quota_apply.h"
#include "quota/quota_config.h"
#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/disk_quota.h"

#define FIRST 200000 /* of a range of 40: managed workspaces have 200020 to 200039 */

static const struct id_range range = {FIRST, FIRST, 40};
static struct disk_classes classes;

static int set_up(void **state)
{
	(void)state;
	fake_disk = (struct fake_disk){.fails_at = 0};
	classes = (struct disk_classes){.count = 0};
	assert_null(disk_classes_add_line(&classes, "a:1M:20:3 b:1025K:30:4"));
	return 0;
}

FIXTURE(set_up, NULL)

static void check(uid_t uid, uint64_t bytes, uint64_t files)
{
	struct disk_quota quota;

	disk_quota_get(-1, uid, &quota);
	assert_int_equal(quota.limit_bytes, bytes);
	assert_int_equal(quota.limit_files, files);
}

static struct quota_counts apply(bool look)
{
	struct quota_counts counts;

	assert_int_equal(quota_apply(-1, &classes, &range, look, &counts), 0);
	return counts;
}

TEST(test_each_id_gets_its_class)
{
	struct quota_counts counts;

	fake_disk.quotas[0] = (struct fake_quota){FIRST + 20, {.bytes = 4096, .files = 1}};
	counts = apply(false);
	assert_int_equal(counts.ids, 7);
	assert_int_equal(counts.changed, 7);
	for (unsigned i = 0; i < 40; i++)
		if (i < 20 || i > 26)
			check(FIRST + i, 0, 0);
		else
			check(FIRST + i, i < 23 ? 1 * MIB : 1025 * KIB, i < 23 ? 20 : 30);
}

/* What is right is not written, and few questions are asked. */
TEST(test_again)
{
	apply(false);
	fake_disk.asked = fake_disk.set = 0;
	assert_int_equal(apply(false).changed, 0);
	assert_int_equal(fake_disk.set, 0);
	assert_in_range(fake_disk.asked, 1, 9);
	/* The same without a walk. */
	fake_disk.cannot_walk = true;
	assert_int_equal(apply(false).changed, 0);
	assert_int_equal(fake_disk.set, 0);
}

TEST(test_what_differs)
{
	apply(false);
	disk_quota_set(-1, FIRST + 21, &(struct disk_quota){0});
	disk_quota_set(
		-1, FIRST + 22, &(struct disk_quota){.limit_bytes = 2 * MIB, .limit_files = 20});
	disk_quota_set(
		-1, FIRST + 30, &(struct disk_quota){.limit_bytes = 2 * MIB}); /* of no class */
	disk_quota_set(-1, FIRST + 3, &(struct disk_quota){.limit_bytes = 2 * MIB}); /* not ours */
	disk_quota_set(-1, FIRST + 40, &(struct disk_quota){.limit_bytes = 2 * MIB});
	fake_disk.set = 0;
	assert_int_equal(apply(true).changed, 3);
	assert_int_equal(fake_disk.set, 0);
	assert_int_equal(apply(false).changed, 3);
	assert_int_equal(fake_disk.set, 3);
	check(FIRST + 21, 1 * MIB, 20);
	check(FIRST + 22, 1 * MIB, 20);
	check(FIRST + 30, 0, 0);
	check(FIRST + 3, 2 * MIB, 0);
	check(FIRST + 40, 2 * MIB, 0);
}

TEST(test_a_file_system_that_fails)
{
	struct quota_counts counts;

	fake_disk.fails_at = 3;
	assert_int_equal(quota_apply(-1, &classes, &range, false, &counts), -EIO);
	assert_int_equal(fake_disk.set, 2);
}

static int read_text(const char *text, const char *drop_in, uid_t root, struct quota_config *ret)
{
	struct scratch scratch = scratch_new();
	_cleanup_free_ char *path = NULL;
	int r;

	assert_true(asprintf(&path, "%s/c.conf", scratch.path) > 0);
	scratch_text(&scratch, "c.conf", text);
	if (drop_in)
		scratch_text(&scratch, "c.conf.d/x.conf", drop_in);
	r = quota_config_read(path, root, ret);
	scratch_done(&scratch);
	return r;
}

TEST_WITH(test_the_configuration, NULL, NULL)
{
	static const char good[] =
		"[cloister]\nuser = u\nstate_dir = /s\ndisk_classes = a:1M:20:3\n"
		"\tb:1M:20:3\n[tenant t]\nuser = x\ndisk_classes = wrong\n";
	struct quota_config config;

	assert_int_equal(read_text(good, NULL, geteuid(), &config), 0);
	assert_int_equal(config.classes.count, 2);
	assert_string_equal(config.user, "u");
	assert_string_equal(config.state_dir, "/s");
	quota_config_done(&config);
	assert_int_equal(
		read_text(good, "[cloister]\ndisk_classes = c:1M:20:3\n", geteuid(), &config), 0);
	assert_int_equal(config.classes.count, 1);
	assert_string_equal(config.classes.items[0].name, "c");
	quota_config_done(&config);
	assert_int_equal(
		read_text("[cloister]\ndisk_classes = a:1M\n", NULL, geteuid(), &config), -EINVAL);
	/* Somebody else than root could change it. */
	assert_int_equal(read_text(good, NULL, geteuid() + 1, &config), -EPERM);
}
