/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Measures how long a process that owes an answer has been silent by its own fault. Time in which
 * it is runnable and gets no CPU is not counted, because a busy host is no reason to kill it.
 * proc_pid_stat(5)
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct silence {
	int stat;        /* /proc/PID/stat; -1: all time counts */
	uint64_t cpu_ms; /* CPU time that it had used at the last look */
	unsigned ms;     /* that count */
	unsigned all_ms; /* also counts time without CPU */
};

/** Begins to watch @pid, a child. Opens a file of /proc, so it is called before lock-down. */
void silence_open(struct silence *silence, pid_t pid);

void silence_close(struct silence *silence);

/** It has answered, or owes nothing. */
void silence_end(struct silence *silence);

/**
 * Counts the @passed_ms since the last look, or only the used CPU time if the process is runnable.
 */
void silence_look(struct silence *silence, unsigned passed_ms);

/**
 * Reads @stat, the text of /proc/PID/stat. Returns false if the text is truncated. The name in it
 * may have any characters.
 */
bool silence_read(const char *stat, bool *ret_would_run, uint64_t *ret_cpu_ms);
