/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* What cells use, from files as the kernel writes them in a cgroup. */
#include "supervisor/base/clock.h"
#include "supervisor/cell/cell_usage.h"

#include "tests/lib/scratch_fixture.h"
#include "tests/lib/unit.h"

static int64_t moment;

static int64_t read_moment(void)
{
	return moment;
}

static void set_clock(int64_t ns)
{
	moment = ns;
	clock_replace(read_moment);
}

static void says(int64_t cpu, int64_t memory, int64_t io, const struct usage_now *usage)
{
	assert_int_equal(usage->cpu_milli, cpu);
	assert_int_equal(usage->memory_bytes, memory);
	assert_int_equal(usage->io_per_s, io);
}

FIXTURE(scratch_set_up, scratch_tear_down)

TEST(test_rates)
{
	struct cell_look look = {0};

	set_clock(10 * CLOCK_NS_PER_S);
	scratch_text(&scratch, "ws-7/cpu.stat", "usage_usec 1000000\nuser_usec 600000\n");
	scratch_text(&scratch, "ws-7/memory.current", "4096000\n");
	scratch_text(&scratch, "ws-7/io.stat", "8:0 rbytes=1000 wbytes=500 rios=1 wios=1\n");
	cell_look_again(&look, scratch.fd, 7);
	says(-1, 4096000, -1, &look.usage);
	/* Two seconds later it has used half a CPU, and read 2000 bytes. */
	set_clock(12 * CLOCK_NS_PER_S);
	scratch_text(&scratch, "ws-7/cpu.stat", "usage_usec 2000000\nuser_usec 600000\n");
	scratch_text(&scratch, "ws-7/io.stat", "8:0 rbytes=3000 wbytes=500 rios=1 wios=1\n");
	cell_look_again(&look, scratch.fd, 7);
	says(500, 4096000, 1000, &look.usage);
	/* A cell that was made again counts from the beginning. */
	set_clock(13 * CLOCK_NS_PER_S);
	scratch_text(&scratch, "ws-8/cpu.stat", "usage_usec 9000000\n");
	cell_look_again(&look, scratch.fd, 8);
	says(-1, -1, -1, &look.usage);
	/* A mean of hours says nothing of now. */
	set_clock(7213 * CLOCK_NS_PER_S);
	scratch_text(&scratch, "ws-8/cpu.stat", "usage_usec 9900000\n");
	cell_look_again(&look, scratch.fd, 8);
	says(-1, -1, -1, &look.usage);
}

TEST(test_what_is_not_there_is_not_known)
{
	static const char *const wrong[] = {
		"", "usage_usec\n", "usage_usec -1\n", "usage_usec 1x\n"};
	struct cell_look look = {0};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		set_clock((int64_t)(i + 1) * CLOCK_NS_PER_S);
		scratch_text(&scratch, "ws-1/cpu.stat", wrong[i]);
		scratch_text(&scratch, "ws-1/memory.current", wrong[i]);
		cell_look_again(&look, scratch.fd, 1);
		says(-1, -1, -1, &look.usage);
	}
	/* No group, no directory at all. */
	set_clock(9 * CLOCK_NS_PER_S);
	cell_look_again(&look, scratch.fd, 2);
	says(-1, -1, -1, &look.usage);
	cell_look_again(&look, -1, 2);
	says(-1, -1, -1, &look.usage);
}

TEST_WITH(test_a_sum, NULL, NULL)
{
	const struct usage_now one = {5, -1, 7}, other = {6, 100, -1};
	struct usage_now sum = usage_unknown;

	usage_now_add(&sum, &usage_unknown);
	says(-1, -1, -1, &sum);
	usage_now_add(&sum, &one);
	says(5, -1, 7, &sum);
	usage_now_add(&sum, &other);
	says(11, 100, 7, &sum);
}
