// SPDX-License-Identifier: Apache-2.0
/* links: cloister-spawner-core */
/* What children of the spawner begin and end with, each tried in a child of its own. */
#include "tests/lib/unit.h"
#include "worker/spawner/job/forked.h"

#define HIGHEST 40

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* In a child: fills the descriptors from 3 on, closes all but @kept, and returns what is wrong. */
static int close_all_but(const int *kept, size_t n)
{
	struct forked forked = {.n_kept = n};

	memcpy(forked.kept, kept, n * sizeof(*kept));
	for (int fd = 3; fd <= HIGHEST; fd++)
		if (dup2(STDERR_FILENO, fd) < 0)
			return -errno;
	if (forked_close_others(&forked) < 0)
		return -EIO;
	for (int fd = 3; fd <= HIGHEST; fd++) {
		bool is_kept = false;

		for (size_t i = 0; i < n; i++)
			is_kept = is_kept || kept[i] == fd;
		if (is_open(fd) != is_kept)
			return -fd;
	}
	return 0;
}

static int result_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return forked_result(status);
}

TEST(test_it_keeps_what_it_needs_and_nothing_else)
{
	static const struct {
		int kept[4];
		size_t n;
	} cases[] = {
		{{0}, 0},
		{{3}, 1},
		{{HIGHEST}, 1},
		{{20, 5}, 2},        /* in no order */
		{{5, 6}, 2},         /* beside each other */
		{{3, HIGHEST}, 2},   /* at the ends */
		{{-1, 9, -1, 7}, 4}, /* some are not there */
		{{8, 8, 30, 8}, 4},  /* one of them twice */
		{{-1, -1, -1, -1}, 4},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		pid_t pid = fork();

		if (pid == 0)
			forked_exit(close_all_but(cases[i].kept, cases[i].n));
		assert_int_equal(result_of(pid), 0);
	}
}

TEST(test_the_spawner_learns_how_it_ended)
{
	static const int told[][2] = {
		{0, 0}, {-ENOSPC, -ENOSPC}, {-254, -254}, {-255, -EIO}, {-ENOTSUP - 1000, -EIO}};
	pid_t pid;

	for (size_t i = 0; i < ARRAY_SIZE(told); i++) {
		pid = fork();
		if (pid == 0)
			forked_exit(told[i][0]);
		assert_int_equal(result_of(pid), told[i][1]);
	}
	pid = fork();
	if (pid == 0) {
		raise(SIGKILL);
		_exit(0);
	}
	assert_int_equal(result_of(pid), -EIO);
}

/* Returns what a child is told whose parent says that it is @spawner. */
static int begin_under(pid_t spawner)
{
	pid_t pid = fork();

	if (pid == 0)
		forked_exit(forked_die_with_spawner(&(struct forked){.spawner = spawner}));
	return result_of(pid);
}

TEST(test_it_does_not_outlive_the_spawner)
{
	int ends[2];
	char byte;
	pid_t pid;

	assert_int_equal(begin_under(getpid()), 0);
	assert_int_equal(begin_under(getpid() + 1), -EPIPE);
	/* A grandchild holds the pipe until it dies, which it does when its parent ends. */
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		pid_t parent = getpid();

		if (fork() == 0) {
			if (forked_die_with_spawner(&(struct forked){.spawner = parent}) == 0 &&
				write(ends[1], "r", 1) == 1)
				pause();
			_exit(0);
		}
		(void)!read(ends[0], &byte, 1);
		_exit(0);
	}
	close(ends[1]);
	assert_int_equal(result_of(pid), 0);
	assert_int_equal(read(ends[0], &byte, 1), 0);
	close(ends[0]);
}
