/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* The directories that cloisterd makes for itself, and the lock of its state. */
#include "supervisor/host/startup.h"

#include "tests/lib/scratch_fixture.h"
#include "tests/lib/unit.h"

/* Returns the path of @name in the scratch directory, valid until the fourth call after it. */
static const char *in_scratch(const char *name)
{
	static char paths[4][sizeof(scratch.path) + 16];
	static unsigned next;

	snprintf(paths[++next % 4], sizeof(paths[0]), "%s/%s", scratch.path, name);
	return paths[next % 4];
}

static bool is_own_directory(const char *name)
{
	struct stat file;

	return stat(in_scratch(name), &file) == 0 && S_ISDIR(file.st_mode) &&
	       (file.st_mode & 0777) == 0700;
}

FIXTURE(scratch_set_up, scratch_tear_down)

TEST(test_directories)
{
	int fd;

	for (int times = 0; times < 2; times++) {
		assert_int_equal(startup_make_directory(in_scratch("a/b"), &fd), 0);
		assert_int_equal(fcntl(fd, F_GETFL) & O_PATH, O_PATH);
		assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
		assert_true(is_own_directory("a") && is_own_directory("a/b"));
		close(fd);
	}
	assert_int_equal(startup_make_parent(in_scratch("x/file")), 0);
	assert_true(is_own_directory("x"));
	assert_int_equal(access(in_scratch("x/file"), F_OK), -1);
	scratch_text(&scratch, "file", "");
	assert_int_equal(startup_make_directory(in_scratch("file"), &fd), -ENOTDIR);
	assert_int_equal(startup_make_directory(in_scratch("file/a"), &fd), -ENOTDIR);
	assert_int_equal(startup_make_parent(""), -EINVAL);
	assert_int_equal(startup_make_directory("", &fd), -EINVAL);
}

TEST(test_the_lock)
{
	_cleanup_close_ int directory = open(scratch.path, O_PATH | O_CLOEXEC), other = -1;
	char wanted[32], found[32] = "";
	long holder = -1;
	int fd, second;

	/* What a former one that was killed has left. */
	scratch_text(&scratch, "lock", "99999999 and more");
	assert_int_equal(startup_lock_state(scratch.path, &fd, &holder), 0);
	assert_int_equal(holder, -1);
	assert_int_equal(startup_lock_state(scratch.path, &second, &holder), -EBUSY);
	assert_int_equal(holder, getpid());
	snprintf(wanted, sizeof(wanted), "%d\n", (int)getpid());
	assert_true(pread(fd, found, sizeof(found) - 1, 0) > 0);
	assert_string_equal(found, wanted);
	assert_true(startup_is_lock(directory, fd));
	scratch_text(&scratch, "lock2", "");
	other = open(in_scratch("lock2"), O_RDWR | O_CLOEXEC);
	assert_false(startup_is_lock(directory, other));
	assert_false(startup_is_lock(directory, directory));
	/* Nobody has written a number yet. */
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(startup_lock_state(scratch.path, &second, &holder), -EBUSY);
	assert_int_equal(holder, 0);
	assert_int_equal(startup_sign_lock(fd), 0);
	assert_int_equal(startup_lock_state(scratch.path, &second, &holder), -EBUSY);
	assert_int_equal(holder, getpid());
	/* Another file has its name. */
	assert_int_equal(rename(in_scratch("lock2"), in_scratch("lock")), 0);
	assert_false(startup_is_lock(directory, fd));
	assert_true(startup_is_lock(directory, other));
	assert_int_equal(startup_lock_state(scratch.path, &second, &holder), 0);
	close(fd);
	close(second);
	assert_int_equal(startup_lock_state(scratch.path, &second, &holder), 0);
	close(second);
	/* A link is not followed, whatever it names. */
	assert_int_equal(rename(in_scratch("lock"), in_scratch("file")), 0);
	assert_int_equal(symlink("file", in_scratch("lock")), 0);
	assert_int_equal(startup_lock_state(scratch.path, &second, &holder), -ELOOP);
	assert_false(startup_is_lock(directory, other));
	assert_int_equal(startup_lock_state(in_scratch("missing"), &second, &holder), -ENOENT);
}
