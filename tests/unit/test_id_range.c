/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* Finding cloisterd's subordinate ids, as subuid(5) and subgid(5) describe. */
#include "supervisor/host/id_range.h"
#include "supervisor/workspace/managed/workspace_owner.h"
#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"

#include <pwd.h>

static struct id_range range;

/* In both files @ is our name and # our uid. */
static void put(const struct scratch *scratch, const char *file, const char *lines)
{
	const struct passwd *entry = getpwuid(geteuid());
	char text[1024] = "", uid[16];
	size_t len = 0;

	snprintf(uid, sizeof(uid), "%u", geteuid());
	for (; *lines; lines++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%.*s",
			*lines == '@' || *lines == '#' ? 64 : 1,
			*lines == '@'   ? entry->pw_name
			: *lines == '#' ? uid
					: lines);
	scratch_text(scratch, file, text);
}

static int find(const char *subuid, const char *subgid)
{
	struct scratch scratch = scratch_new();
	int r;

	put(&scratch, "subuid", subuid);
	put(&scratch, "subgid", subgid);
	r = id_range_find(scratch.path, &range);
	scratch_done(&scratch);
	return r;
}

static void check(unsigned uid, unsigned gid, unsigned count)
{
	assert_int_equal(range.uid_first, uid);
	assert_int_equal(range.gid_first, gid);
	assert_int_equal(range.count, count);
}

TEST(test_ours_by_name_and_by_number)
{
	assert_int_equal(find("someone:1000000:9999\n@:2000000:10\n", "@:3000000:10\n"), 0);
	check(2000000, 3000000, 10);
	assert_int_equal(find("#:2000000:10\n", "x:1:1\n#:3000000:10"), 0);
	check(2000000, 3000000, 10);
}

TEST(test_the_largest_as_far_as_both_reach)
{
	assert_int_equal(find("@:2000000:10\n@:4000000:500\n#:5000000:20\n", "@:3000000:300\n"), 0);
	check(4000000, 3000000, 300);
	assert_int_equal(find("@:2000000:1000000\n", "@:2000000:1000000\n"), 0);
	check(2000000, 2000000, LIMIT_IDS);
}

TEST(test_none)
{
	assert_int_equal(find("", ""), -ENOENT);
	assert_int_equal(find("@:2000000:10\n", ""), -ENOENT);
	assert_int_equal(find("@2:2000000:10\nx@:1000000:5\n", "@:2000000:10\n"), -ENOENT);
	assert_int_equal(id_range_find("/no/such/directory", &range), -ENOENT);
	/* The file has no lines. */
	assert_int_equal(
		find("@:-5:10\n@:2000000\n@:2000000:\n@::10\n@\n\n", "@:2000000:10\n"), -ENOENT);
	assert_int_equal(find("@:2000000:ten\n@:0x20:10\n@: 20:10\n", "@:1:10\n"), -ENOENT);
}

TEST(test_neither_root_nor_us_nor_what_is_no_id)
{
	assert_int_equal(find("@:0:10\n", "@:2000000:10\n"), -EINVAL);
	assert_int_equal(find("@:2000000:0\n", "@:2000000:10\n"), -EINVAL);
	assert_int_equal(find("@:4294967290:10\n", "@:2000000:10\n"), -EINVAL);
	assert_int_equal(find("@:2000000:18446744073709551615\n", "@:2000000:10\n"), -ENOENT);
	assert_int_equal(find("@:#:10\n", "@:2000000:10\n"), -EINVAL);
	/* A usable range is found among unusable ones. */
	assert_int_equal(find("@:0:1000\n@:2000000:10\n", "@:2000000:10\n"), 0);
	check(2000000, 2000000, 10);
}

TEST(test_files_that_others_can_write_count_for_nothing)
{
	struct scratch scratch = scratch_new();

	scratch_text(&scratch, "subuid", "root:2000000:10\n");
	scratch_text(&scratch, "subgid", "root:2000000:10\n");
	assert_int_equal(fchmodat(scratch.fd, "subuid", 0666, 0), 0);
	assert_int_equal(id_range_find(scratch.path, &range), -EPERM);
	scratch_done(&scratch);
}

TEST(test_without_a_range_in_use_everything_is_as_it_was)
{
	struct refusal refusal = {0};

	assert_null(id_range());
	assert_int_equal(
		workspace_owner_check(&(struct workspace_root){.fd = -1}, NULL, NULL, &refusal),
		TOOL_OK);
	assert_int_equal(refusal.error, TOOL_OK);
}
