/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How many threads of the host want a CPU: a mean over about CPU_LOAD_MEAN_US of what the kernel
 * counts as runnable, which commands that sleep or wait for a disk are not. A command that begins
 * counts at once, before the kernel sees it.
 */

#include <stdbool.h>
#include <stdint.h>

#define CPU_LOAD_LOOK_US 10000 /* the least time between two looks */
#define CPU_LOAD_MEAN_US 80000

struct cpu_load {
	int fd; /* /proc/loadavg; -1: the load is not known */
	unsigned cpus;
	double mean;
	uint64_t looked_us;
};

/** Opens what is read later. Where /proc does not say, the load is not known. */
void cpu_load_open(struct cpu_load *load);
void cpu_load_close(struct cpu_load *load);

bool cpu_load_is_known(const struct cpu_load *load);

/** Returns the mean at @now_us, after a look if the last one was long enough ago. */
double cpu_load_now(struct cpu_load *load, uint64_t now_us);

/** A command begins; one has ended. */
void cpu_load_begun(struct cpu_load *load, uint64_t now_us);
void cpu_load_ended(struct cpu_load *load);

/** Adds what was counted at @now_us to the mean. */
void cpu_load_count(struct cpu_load *load, unsigned runnable, uint64_t now_us);
