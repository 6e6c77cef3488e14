/* links: cloister-supervisor */
/* threads */
// SPDX-License-Identifier: Apache-2.0
/* What is left of disk and memory, and a file system that hangs: fstatfs(2) is ours. */
#include "supervisor/host/headroom.h"

#include "supervisor/host/cgroup.h"
#include "tests/lib/unit.h"

#include <pthread.h>
#include <sys/vfs.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool hangs;
static int asked, error;
static struct statfs answer;

int fstatfs(int fd, struct statfs *ret)
{
	int r;

	(void)fd;
	pthread_mutex_lock(&mutex);
	asked++;
	pthread_cond_broadcast(&changed);
	while (hangs)
		pthread_cond_wait(&changed, &mutex);
	*ret = answer;
	errno = error;
	r = error ? -1 : 0;
	pthread_mutex_unlock(&mutex);
	return r;
}

static void set_hanging(bool value)
{
	pthread_mutex_lock(&mutex);
	hangs = value;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static void wait_until_asked(void)
{
	pthread_mutex_lock(&mutex);
	while (asked == 0)
		pthread_cond_wait(&changed, &mutex);
	pthread_mutex_unlock(&mutex);
}

static struct headroom *started(int fd)
{
	static const struct cgroup none = {.root = -1};
	struct headroom *headroom;

	asked = 0;
	assert_int_equal(headroom_new(fd, &none, &headroom), 0);
	assert_int_equal(headroom_start(headroom), 0);
	return headroom;
}

/* Looks until the file system has answered. */
static struct headroom_view seen(struct headroom *headroom)
{
	struct headroom_view view;

	for (;;) {
		headroom_look(headroom, &view);
		if (view.state_known)
			return view;
		usleep(1000);
	}
}

TEST(test_a_file_system_that_answers)
{
	struct headroom *headroom;
	struct headroom_view view;

	answer = (struct statfs){.f_frsize = 4096,
		.f_bsize = 1,
		.f_blocks = 100,
		.f_bfree = 50,
		.f_bavail = 40,
		.f_files = 10,
		.f_ffree = 3};
	headroom = started(0);
	view = seen(headroom);
	assert_true(view.has_state);
	assert_int_equal(view.state_error, 0);
	assert_int_equal(view.state_free, 40 * 4096);
	assert_int_equal(view.state_size, 100 * 4096);
	assert_int_equal(view.state_files_free, 3);
	assert_true(view.memory_known);
	assert_true(view.memory_free > 0 && view.memory_free <= view.memory_size);
	headroom_free(headroom);

	answer.f_files = answer.f_ffree = 0;
	headroom = started(0);
	assert_int_equal(seen(headroom).state_files_free, UINT64_MAX);
	headroom_free(headroom);
}

TEST(test_a_file_system_with_an_error)
{
	struct headroom *headroom;

	error = EIO;
	headroom = started(0);
	assert_int_equal(seen(headroom).state_error, EIO);
	headroom_free(headroom);
	error = 0;
}

/* Whoever looks gets an answer at once, with how long the file system has been silent. */
TEST(test_a_file_system_that_hangs)
{
	struct headroom *headroom;
	struct headroom_view view;

	set_hanging(true);
	headroom = started(0);
	wait_until_asked();
	headroom_look(headroom, &view);
	assert_true(view.has_state);
	assert_false(view.state_known);
	assert_true(view.memory_known); /* it was looked at before */
	do
		headroom_look(headroom, &view);
	while (view.state_age_ms < 20);
	/* The end waits for the thread for a moment only; its data stays the thread's. */
	headroom_free(headroom);
	headroom_look(headroom, &view);
	assert_false(view.state_known);
	set_hanging(false);
	headroom_free(headroom);
}

TEST(test_without_a_state_directory)
{
	struct headroom *headroom = started(-1);
	struct headroom_view view;

	do
		headroom_look(headroom, &view);
	while (!view.memory_known);
	assert_false(view.has_state);
	headroom_free(headroom);
	assert_int_equal(asked, 0);
}

TEST(test_memory_of_the_host)
{
	static const struct {
		const char *text;
		int r;
		uint64_t left, size;
	} rows[] = {
		{"MemTotal:  2048 kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\nX: 1 kB\n", 0, MIB,
			2 * MIB},
		{"NotMemTotal: 1 kB\nMemAvailable: 1 kB\n", -EBADMSG, 0, 0},
		{"MemTotal: 2048 kB\n", -EBADMSG, 0, 0},
		{"MemTotal: x\nMemAvailable: 1 kB\n", -EBADMSG, 0, 0},
		{"", -EBADMSG, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t left = 0, size = 0;

		assert_int_equal(headroom_of_host(rows[i].text, &left, &size), rows[i].r);
		assert_int_equal(left, rows[i].left);
		assert_int_equal(size, rows[i].size);
	}
}

TEST(test_memory_of_a_group)
{
	static const struct {
		const char *max, *current, *stat;
		int r;
		uint64_t left, size;
	} rows[] = {
		{"max\n", "5\n", "inactive_file 1\n", -ENOENT, 0, 0},
		{"100\n", "60\n", "anon 50\ninactive_file 10\nactive_file 1\n", 0, 50, 100},
		{"100\n", "60\n", "inactive_file 70\n", 0, 100, 100}, /* read at two moments */
		{"100\n", "130\n", "inactive_file 10\n", 0, 0, 100},
		{"100\n", "60\n", "anon 50\n", -EBADMSG, 0, 0},
		{"", "60\n", "inactive_file 1\n", -EBADMSG, 0, 0},
		{"100\n", "", "inactive_file 1\n", -EBADMSG, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t left = 0, size = 0;

		assert_int_equal(
			headroom_of_group(rows[i].max, rows[i].current, rows[i].stat, &left, &size),
			rows[i].r);
		assert_int_equal(left, rows[i].left);
		assert_int_equal(size, rows[i].size);
	}
}
