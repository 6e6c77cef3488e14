// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The group ws-N and its files are the kernel's; the worker can make groups
 * below it and cannot rename it. cgroups(7).
 */
#include "supervisor/cell/cell_usage.h"

#include "common/cgroup_file.h"
#include "common/cleanup.h"
#include "supervisor/base/clock.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

/* Between looks that are further apart a mean says nothing about now. */
#define RATE_MAX_NS (60 * CLOCK_NS_PER_S)

static int64_t read_cpu(int group)
{
	char buffer[CGROUP_FILE_BYTES];
	struct text text;
	uint64_t value;

	if (cgroup_read(group, "cpu.stat", buffer, &text) < 0 ||
		cgroup_key(text, "usage_usec", &value) < 0)
		return -1;
	return (int64_t)value;
}

static int64_t read_memory(int group)
{
	uint64_t value;

	return cgroup_read_number(group, "memory.current", &value) < 0 ? -1 : (int64_t)value;
}

static int64_t read_io(int group)
{
	char buffer[CGROUP_FILE_BYTES];
	uint64_t bytes, written;
	struct text text;

	if (cgroup_read(group, "io.stat", buffer, &text) < 0 ||
		cgroup_io_total(text, &bytes, &written) < 0)
		return -1;
	return (int64_t)(bytes + written);
}

/* How much @after is more than @before in each second of @ns; -1 if that is unknown. */
static int64_t rate(int64_t before, int64_t after, int64_t ns)
{
	if (before < 0 || after < before || ns < CLOCK_NS_PER_MS || ns > RATE_MAX_NS)
		return -1;
	return (int64_t)((double)(after - before) * (double)CLOCK_NS_PER_S / (double)ns);
}

void cell_look_again(struct cell_look *look, int cgroups, uint64_t group)
{
	struct cell_look now = {
		.group = group,
		.at = clock_now(),
		.cpu_us = -1,
		.io_bytes = -1,
		.usage = usage_unknown,
	};
	_cleanup_close_ int fd = -1;
	char name[32];

	snprintf(name, sizeof(name), "ws-%" PRIu64, group);
	fd = openat(cgroups, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0) {
		now.cpu_us = read_cpu(fd);
		now.io_bytes = read_io(fd);
		now.usage.memory_bytes = read_memory(fd);
	}
	if (look->at > 0 && look->group == group) {
		int64_t cpu = rate(look->cpu_us, now.cpu_us, now.at - look->at);

		now.usage.cpu_milli = cpu < 0 ? -1 : cpu / 1000;
		now.usage.io_per_s = rate(look->io_bytes, now.io_bytes, now.at - look->at);
	}
	*look = now;
}
