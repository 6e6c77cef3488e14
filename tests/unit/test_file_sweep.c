/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/* What is measured of a workspace, with and without layers. */
#include "worker/files/file_sweep.h"

#include "tests/lib/files_fixture.h"
#include "tests/lib/unit.h"

static struct fixture *at;
static struct files_end *found; /* shared with the children that sweep */

static int set_up(void **state)
{
	int r = fixture_setup(state);

	at = *state;
	found = mmap(
		NULL, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return r < 0 || found == MAP_FAILED ? -1 : 0;
}

static int tear_down(void **state)
{
	munmap(found, sizeof(*found));
	return fixture_teardown(state);
}

FIXTURE(set_up, tear_down)

/* Sweeps as a job does, in a child. */
static void sweep(void)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		file_sweep(&at->root, &(struct files_sweep){0}, found);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void put_block(int dir, const char *name)
{
	static const char block[65536] = "x";
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
	close(fd);
}

static int make_directory(int dir, const char *name)
{
	int fd;

	assert_int_equal(mkdirat(dir, name, 0755), 0);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static uint64_t blocks_of(uint64_t bytes)
{
	return bytes / 65536;
}

GROUP_FIXTURE(fixture_leave_root, NULL)

TEST(test_a_plain_one)
{
	put_block(at->ws, "one");
	assert_int_equal(linkat(at->ws, "one", at->ws, "two", 0), 0);
	put_block(at->ws, ".cloister-000000000000002a");
	sweep();
	assert_int_equal(blocks_of(found->size), 1);
	assert_false(found->truncated);
	assert_int_equal(found->files_skipped, 0);
}

/* Each layer counts by itself, and what the overlay shows of a template does not. */
TEST(test_layers)
{
	_cleanup_close_ int layers = make_directory(at->base_fd, "layers");
	_cleanup_close_ int lowest = make_directory(layers, "u0");
	_cleanup_close_ int frozen = make_directory(layers, "u3"),
			    top = make_directory(layers, "u5");
	_cleanup_close_ int view = make_directory(layers, "v3");
	_cleanup_close_ int closed = -1;

	put_block(at->ws, "a template's");
	put_block(lowest, "a");
	put_block(frozen, "a");
	put_block(frozen, "b");
	put_block(view, "b");
	put_block(top, "c");
	put_block(at->ws, ".cloister-000000000000002a");
	at->root.layers = layers;
	sweep();
	assert_int_equal(blocks_of(found->size), 4);
	assert_int_equal(found->count, 4);
	assert_int_equal(found->files_searched, 0);
	assert_false(exists_at(at->ws, ".cloister-000000000000002a"));
	assert_false(found->truncated);
	/* What a layer keeps from being measured is told, also where it shows no more. */
	closed = make_directory(frozen, "closed");
	assert_int_equal(fchmod(closed, 0), 0);
	sweep();
	assert_true(found->truncated);
	assert_int_equal(found->files_skipped, 1);
	assert_int_equal(fchmod(closed, 0755), 0);
	assert_int_equal(fchmod(frozen, 0), 0);
	sweep();
	assert_int_equal(blocks_of(found->size), 2);
	assert_int_equal(found->files_skipped, 1);
	assert_int_equal(fchmod(frozen, 0755), 0);
}
