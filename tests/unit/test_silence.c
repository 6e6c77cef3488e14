/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
#include "supervisor/cell/silence.h"
#include "tests/lib/unit.h"

#include <sys/mman.h>

/* The state, and CPU time in ticks of user and kernel, as the kernel would tell them. */
static void tells(int fd, char state, unsigned user, unsigned system)
{
	char text[256];
	int n = snprintf(text, sizeof(text),
		"7 (a) R 1) %c 1 7 7 0 -1 4194560 100 0 2 0 %u %u 0 0 20 0 1 0 500 1 2\n", state,
		user, system);

	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, text, (size_t)n, 0), n);
}

TEST(test_what_counts)
{
	unsigned second = (unsigned)sysconf(_SC_CLK_TCK);
	_cleanup_close_ int fd = memfd_create("stat", MFD_CLOEXEC);
	struct silence silence = {.stat = fd};
	static const char waiting[] = {'S', 'D', 'T', 't', 'Z', 'I'};
	unsigned expected = 0;

	/* Who would run and gets nothing, some, or all of the time. */
	tells(fd, 'R', 0, 0);
	silence_look(&silence, 1000);
	assert_int_equal(silence.ms, 0);
	tells(fd, 'R', second / 10, second / 10);
	silence_look(&silence, 1000);
	assert_int_equal(silence.ms, 200);
	tells(fd, 'R', second / 10, 3 * second);
	silence_look(&silence, 1000);
	assert_int_equal(silence.ms, 1200);
	/* Who waits for something else. */
	expected = silence.ms;
	for (size_t i = 0; i < sizeof(waiting); i++) {
		tells(fd, waiting[i], 9 * second, 9 * second);
		silence_look(&silence, 1000);
		expected += 1000;
		assert_int_equal(silence.ms, expected);
	}
	/* What it used while it waited is not counted again. */
	tells(fd, 'R', 9 * second, 9 * second);
	silence_look(&silence, 1000);
	assert_int_equal(silence.ms, expected);
	assert_int_equal(silence.all_ms, (4 + sizeof(waiting)) * 1000);
	silence_end(&silence);
	assert_int_equal(silence.ms, 0);
	assert_int_equal(silence.all_ms, 0);
}

/* Where the kernel tells nothing all time counts. */
TEST(test_nothing_is_told)
{
	static const char *const texts[] = {"", "7", "7 (a", "7 (a)", "7 (a) R",
		"7 (a) R 1 7 7 0 -1 4194560 100 0 2 0 5",
		"7 (a) R 1 7 7 0 -1 4194560 100 0 2 0 x 5"};
	_cleanup_close_ int fd = memfd_create("stat", MFD_CLOEXEC);
	struct silence silence = {.stat = -1};

	silence_look(&silence, 1000);
	assert_int_equal(silence.ms, 1000);
	silence.stat = fd;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, texts[i], strlen(texts[i]), 0), strlen(texts[i]));
		silence_look(&silence, 1000);
		assert_int_equal(silence.ms, (i + 2) * 1000);
	}
}

TEST(test_a_child)
{
	struct silence silence;
	pid_t pid = fork();

	if (pid == 0) {
		for (;;)
			pause();
	}
	silence_open(&silence, pid);
	assert_true(silence.stat >= 0);
	kill(pid, SIGSTOP);
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	silence_look(&silence, 1000);
	assert_int_equal(silence.ms, 1000);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	silence_look(&silence, 1000); /* it is gone */
	assert_int_equal(silence.ms, 2000);
	silence_close(&silence);
	assert_int_equal(silence.stat, -1);
}
