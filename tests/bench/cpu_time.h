/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The processor time of a process with all that it has started: user and system time of each thread
 * that lives, as the scheduler counts it (nanoseconds, proc(5), schedstat). What ended in the
 * meantime is not counted, so measure calls that end no process.
 */

#include "tests/bench/bench.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/types.h>

#define CPU_TIME_FILE 8192 /* bytes read of a file: more than a thousand children */

static inline size_t cpu_time_read(const char *path, char *buffer, size_t size)
{
	FILE *file = fopen(path, "re");
	size_t len = file ? fread(buffer, 1, size - 1, file) : 0;

	if (file)
		fclose(file);
	buffer[len] = '\0';
	return len;
}

static inline double cpu_time_of_tree_us(pid_t pid);

static inline double cpu_time_of_thread_us(pid_t pid, const char *thread)
{
	char path[128], text[CPU_TIME_FILE], *at = text, *end;
	double us;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", (int)pid, thread);
	if (cpu_time_read(path, text, sizeof(text)) == 0)
		return 0;
	us = strtod(text, NULL) / 1e3;
	snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int)pid, thread);
	cpu_time_read(path, text, sizeof(text));
	for (long child; (child = strtol(at, &end, 10)) > 0; at = end)
		us += cpu_time_of_tree_us((pid_t)child);
	return us;
}

/* Returns the time of the process @pid and its descendants in microseconds. */
static inline double cpu_time_of_tree_us(pid_t pid)
{
	char path[64];
	struct dirent *thread;
	double us = 0;
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	threads = opendir(path);
	while (threads && (thread = readdir(threads)))
		if (thread->d_name[0] != '.')
			us += cpu_time_of_thread_us(pid, thread->d_name);
	if (threads)
		closedir(threads);
	return us;
}

/* Returns the time of this process in microseconds. */
static inline double cpu_time_own_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}
