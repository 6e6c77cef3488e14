// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Reads one file of /proc, which it opened before it was confined. */
#include "supervisor/schedule/cpu_load.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

void cpu_load_open(struct cpu_load *load)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	*load = (struct cpu_load){
		.fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC),
		.cpus = cpus > 0 ? (unsigned)cpus : 1,
	};
}

void cpu_load_close(struct cpu_load *load)
{
	close_fd(&load->fd);
}

bool cpu_load_is_known(const struct cpu_load *load)
{
	return load->fd >= 0;
}

void cpu_load_count(struct cpu_load *load, unsigned runnable, uint64_t now_us)
{
	uint64_t since_us = now_us - load->looked_us;

	if (since_us >= CPU_LOAD_MEAN_US)
		load->mean = runnable;
	else
		load->mean += (runnable - load->mean) * (double)since_us / CPU_LOAD_MEAN_US;
	load->looked_us = now_us;
}

/* Reads the number of runnable threads without this one: proc_loadavg(5). */
static void look_at_cpu_load(struct cpu_load *load, uint64_t now_us)
{
	char text[128];
	unsigned runnable;
	ssize_t n;

	if (load->fd < 0 || lseek(load->fd, 0, SEEK_SET) < 0)
		return;
	n = read(load->fd, text, sizeof(text) - 1);
	if (n <= 0)
		return;
	text[n] = 0;
	if (sscanf(text, "%lf %*s %*s %u/", &load->average, &runnable) == 2)
		cpu_load_count(load, runnable > 0 ? runnable - 1 : 0, now_us);
}

double cpu_load_now(struct cpu_load *load, uint64_t now_us)
{
	if (now_us - load->looked_us >= CPU_LOAD_LOOK_US)
		look_at_cpu_load(load, now_us);
	return load->mean;
}

void cpu_load_begun(struct cpu_load *load, uint64_t now_us)
{
	if (now_us - load->looked_us >= CPU_LOAD_MEAN_US)
		look_at_cpu_load(load, now_us);
	load->mean += 1;
}

void cpu_load_ended(struct cpu_load *load)
{
	load->mean = load->mean > 1 ? load->mean - 1 : 0;
}
