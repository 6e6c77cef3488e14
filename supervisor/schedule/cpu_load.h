/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The load of the host's CPUs: the mean number of runnable threads over about CPU_LOAD_MEAN_US. The
 * kernel does not count commands that sleep or wait for a disk. A command that begins is added at
 * once, before the kernel counts it.
 */

#include <stdbool.h>
#include <stdint.h>

#define CPU_LOAD_LOOK_US 10000 /* the shortest time between two readings */
#define CPU_LOAD_MEAN_US 80000

struct cpu_load {
	int fd; /* /proc/loadavg; -1: the load is not known */
	unsigned cpus;
	double mean;
	double average; /* of the last minute, also of threads that wait for a disk: getloadavg(3)
			 */
	uint64_t looked_us;
};

/** Opens /proc/loadavg. If that fails, the load is not known. */
void cpu_load_open(struct cpu_load *load);
void cpu_load_close(struct cpu_load *load);

bool cpu_load_is_known(const struct cpu_load *load);

/**
 * Returns the mean at @now_us. Reads the file first if the last reading is CPU_LOAD_LOOK_US old.
 */
double cpu_load_now(struct cpu_load *load, uint64_t now_us);

/** Count a command that begins, and one that has ended. */
void cpu_load_begun(struct cpu_load *load, uint64_t now_us);
void cpu_load_ended(struct cpu_load *load);

/** Adds a reading of @runnable threads at @now_us to the mean. */
void cpu_load_count(struct cpu_load *load, unsigned runnable, uint64_t now_us);
