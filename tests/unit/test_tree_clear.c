// SPDX-License-Identifier: Apache-2.0
/* links: cloister-spawner-core */
/* Removing a tree that is hostile: deep, closed, or with a directory that cannot be removed. */
#include "worker/tree_clear.h"

#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"

#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>

static struct scratch scratch;

static int set_up(void **state)
{
	(void)state;
	scratch = scratch_new();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	scratch_done(&scratch);
	return 0;
}

FIXTURE(set_up, tear_down)

/* How many entries the scratch directory has. */
static size_t count(void)
{
	int fd = openat(scratch.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fdopendir(fd);
	size_t n = 0;

	assert_non_null(directory);
	for (const struct dirent *entry; (entry = readdir(directory));)
		n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	closedir(directory);
	return n;
}

/* As a child of the spawner does. */
static int clear(uint64_t *ret_removed)
{
	_cleanup_close_ int fd = openat(scratch.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int own_fds = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return tree_clear(fd, own_fds, ret_removed);
}

/*
 * In the place of the C library's: when "last" has turned out to be a directory, a link to the file
 * outside gets its name.
 */
static const char *target;

int unlinkat(int parent, const char *name, int flags)
{
	const int r = (int)syscall(SYS_unlinkat, parent, name, flags), error = errno;

	if (target && r < 0 && flags == 0 && strcmp(name, "last") == 0) {
		assert_int_equal(renameat(parent, name, parent, "other"), 0);
		assert_int_equal(symlinkat(target, parent, name), 0);
		target = NULL;
	}
	errno = error;
	return r;
}

/* Makes @depth directories in each other, each with a file. */
static void make_chain(const char *name, unsigned depth)
{
	int at = openat(scratch.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (unsigned i = 0; i < depth; i++) {
		int next;

		assert_int_equal(mkdirat(at, name, 0700), 0);
		next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(at);
		at = next;
		close(openat(at, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	}
	close(at);
}

TEST(test_a_tree_that_is_deeper_than_it_goes)
{
	uint64_t removed;

	make_chain("a", 3 * LIMIT_CLEAR_DEPTH);
	make_chain("b", LIMIT_CLEAR_DEPTH + 1);
	assert_int_equal(clear(&removed), 0);
	assert_int_equal(removed, 2 * (4 * LIMIT_CLEAR_DEPTH + 1));
	assert_int_equal(count(), 0);
}

TEST(test_what_its_owner_has_closed)
{
	uint64_t removed;

	scratch_text(&scratch, "closed/in/file", "");
	assert_int_equal(fchmodat(scratch.fd, "closed/in", 0, 0), 0);
	assert_int_equal(fchmodat(scratch.fd, "closed", 0, 0), 0);
	assert_int_equal(clear(&removed), 0);
	assert_int_equal(removed, 3);
}

TEST(test_a_link_in_the_place_of_a_directory)
{
	struct scratch outside = scratch_new();
	char path[sizeof(outside.path) + 8];
	int at = openat(scratch.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat stat_buf;
	uint64_t removed;

	scratch_text(&outside, "file", "");
	snprintf(path, sizeof(path), "%s/file", outside.path);
	assert_int_equal(chmod(path, 0644), 0);
	for (unsigned depth = 1; depth < LIMIT_CLEAR_DEPTH; depth++) {
		int next;

		assert_int_equal(mkdirat(at, "d", 0700), 0);
		next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(at);
		at = next;
	}
	assert_int_equal(mkdirat(at, "last", 0700), 0);
	close(at);
	target = path;
	assert_int_equal(clear(&removed), 0);
	assert_null(target);
	assert_int_equal(stat(path, &stat_buf), 0);
	assert_int_equal(stat_buf.st_mode & 0777, 0644);
	scratch_done(&outside);
}

/* In a mount namespace of its own: a mount point cannot be removed, as a directory cannot be moved
 * for which a full disk has no room. Returns what is wrong, or 77 where there are no such
 * namespaces. */
static int clear_around_a_mount_point(void)
{
	uint64_t removed;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return 77;
	if (chdir(scratch.path) < 0 || mount("m/point", "m/point", NULL, MS_BIND, NULL) < 0)
		return 1;
	if (clear(&removed) != -EBUSY || removed != 40)
		return 2;
	if (count() != 1 || faccessat(scratch.fd, "m/point", F_OK, 0) < 0)
		return 3;
	return 0;
}

TEST(test_one_that_cannot_be_removed_keeps_no_other)
{
	char name[16];
	int status;
	pid_t pid;

	scratch_text(&scratch, "m/file", "");
	assert_int_equal(mkdirat(scratch.fd, "m/point", 0700), 0);
	/* Wherever it is in the order in which they are read. */
	for (int i = 0; i < 39; i++) {
		snprintf(name, sizeof(name), "other%d", i);
		scratch_text(&scratch, name, "");
	}
	pid = fork();
	if (pid == 0)
		_exit(clear_around_a_mount_point());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}
