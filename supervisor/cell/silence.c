// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Reads one file of /proc, which it opened before it was confined. */
#include "supervisor/cell/silence.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void silence_open(struct silence *silence, pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	*silence = (struct silence){.stat = open(path, O_RDONLY | O_CLOEXEC)};
}

void silence_close(struct silence *silence)
{
	close_fd(&silence->stat);
}

void silence_end(struct silence *silence)
{
	silence->ms = silence->all_ms = 0;
}

bool silence_read(const char *stat, bool *ret_would_run, uint64_t *ret_cpu_ms)
{
	const char *name_end = strrchr(stat, ')');
	long ticks = sysconf(_SC_CLK_TCK);
	uint64_t user, system;
	char state;

	/* The state; ten fields from the parent to the page faults; the CPU time. */
	if (!name_end || sscanf(name_end + 1,
				 " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64 " %" SCNu64,
				 &state, &user, &system) != 3)
		return false;
	*ret_would_run = state == 'R';
	*ret_cpu_ms = (user + system) * 1000 / (uint64_t)(ticks > 0 ? ticks : 100);
	return true;
}

void silence_look(struct silence *silence, unsigned passed_ms)
{
	bool would_run = false;
	uint64_t cpu_ms = 0, used_ms = passed_ms;
	char stat[512];
	ssize_t n = silence->stat < 0 ? -1 : pread(silence->stat, stat, sizeof(stat) - 1, 0);

	stat[n > 0 ? n : 0] = 0;
	if (silence_read(stat, &would_run, &cpu_ms)) {
		if (would_run && cpu_ms - silence->cpu_ms < passed_ms)
			used_ms = cpu_ms - silence->cpu_ms;
		silence->cpu_ms = cpu_ms;
	}
	silence->ms += (unsigned)used_ms;
	silence->all_ms += passed_ms;
}
