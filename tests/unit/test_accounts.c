/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* Finds ids by name: through NSS before lock-down, in the files of a directory after it. */
#include "supervisor/config/accounts.h"
#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"

static struct scratch scratch;
static struct accounts *accounts;

/* The directory that replaces /etc has other names than the host; NSS uses the host's. */
static int set_up(void **state)
{
	(void)state;
	scratch = scratch_new();
	scratch_text(&scratch, "passwd",
		"# a comment\n"
		"broken line\n"
		"root:x:0:0::/root:/bin/sh\n"
		"ann:x:1001:1001::/home/ann:/bin/sh\n"
		"negative:x:-5:1001::/:/bin/sh\n"
		"wordy:x:many:1001::/:/bin/sh\n"
		"+nis:x:77:77::/:/bin/sh\n"
		"last:x:1002:1001::/:/bin/sh");
	scratch_text(&scratch, "group", "team:x:2001:ann,bob\nempty:x:2002:\n");
	return accounts_open(scratch.path, &accounts);
}

static int tear_down(void **state)
{
	(void)state;
	accounts_free(accounts);
	scratch_done(&scratch);
	return 0;
}

FIXTURE(set_up, tear_down)

static int64_t find(enum account_kind kind, const char *name)
{
	uint32_t id;
	int r = accounts_find(accounts, kind, name, &id);

	return r < 0 ? r : (int64_t)id;
}

TEST(test_numbers_are_what_they_are)
{
	for (int locked = 0; locked <= 1; locked++) {
		assert_int_equal(find(ACCOUNT_USER, "0"), 0);
		assert_int_equal(find(ACCOUNT_GROUP, "4294967294"), 4294967294);
		assert_int_equal(find(ACCOUNT_USER, "4294967295"), -ERANGE);
		assert_int_equal(find(ACCOUNT_USER, "99999999999999999999999"), -ERANGE);
		assert_int_equal(find(ACCOUNT_USER, "-1"), -ENOENT);
		assert_int_equal(find(ACCOUNT_USER, "1x"), -ENOENT);
		assert_int_equal(find(ACCOUNT_USER, ""), -ENOENT);
		accounts_lock(accounts);
	}
}

TEST(test_the_files_are_read_after_locking)
{
	assert_int_equal(find(ACCOUNT_USER, "ann"), -ENOENT); /* no such user on this host */
	accounts_lock(accounts);
	assert_int_equal(find(ACCOUNT_USER, "ann"), 1001);
	assert_int_equal(find(ACCOUNT_USER, "last"), 1002);
	assert_int_equal(find(ACCOUNT_GROUP, "team"), 2001);
	assert_int_equal(find(ACCOUNT_GROUP, "empty"), 2002);
	assert_int_equal(find(ACCOUNT_USER, "team"), -ENOENT);
	assert_int_equal(find(ACCOUNT_GROUP, "ann"), -ENOENT);
	assert_int_equal(find(ACCOUNT_USER, "wordy"), -ENOENT);
	assert_int_equal(find(ACCOUNT_USER, "broken line"), -ENOENT);
	assert_int_equal(find(ACCOUNT_USER, "ANN"), -ENOENT);
	/* A file that was replaced, as useradd(8) does, is read again. */
	scratch_text(&scratch, "new", "eve:x:1003:1003::/:/bin/sh\n");
	assert_int_equal(renameat(scratch.fd, "new", scratch.fd, "passwd"), 0);
	assert_int_equal(find(ACCOUNT_USER, "eve"), 1003);
	assert_int_equal(find(ACCOUNT_USER, "ann"), -ENOENT);
	assert_int_equal(unlinkat(scratch.fd, "passwd", 0), 0);
	assert_int_equal(find(ACCOUNT_USER, "ann"), -ENOENT);
}

/* The host has "nobody", the file does not; "root" is in both until it is removed from the file. */
TEST(test_only_what_nss_alone_knew_is_remembered)
{
	int64_t nobody = find(ACCOUNT_USER, "nobody");

	assert_true(nobody > 0);
	assert_int_equal(find(ACCOUNT_USER, "root"), 0);
	accounts_lock(accounts);
	assert_int_equal(find(ACCOUNT_USER, "nobody"), nobody);
	assert_int_equal(find(ACCOUNT_GROUP, "nobody"), -ENOENT);
	/* not looked up before lock-down */
	assert_int_equal(find(ACCOUNT_USER, "daemon"), -ENOENT);
	assert_int_equal(find(ACCOUNT_USER, "root"), 0);
	scratch_text(&scratch, "passwd", "nobody:x:5:5::/:/bin/sh\n");
	assert_int_equal(find(ACCOUNT_USER, "root"), -ENOENT);
	assert_int_equal(find(ACCOUNT_USER, "nobody"), 5);
}

TEST(test_a_group_of_very_many)
{
	_cleanup_free_ char *text = malloc(1 << 20);
	size_t len = (size_t)sprintf(text, "crowd:x:3001:");

	for (int i = 0; i < 50000; i++)
		len += (size_t)sprintf(text + len, "u%d,", i);
	(void)sprintf(text + len, "last\nafter:x:3002:\n");
	scratch_text(&scratch, "group", text);
	accounts_lock(accounts);
	assert_int_equal(find(ACCOUNT_GROUP, "crowd"), 3001);
	assert_int_equal(find(ACCOUNT_GROUP, "after"), 3002);
}
