/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether a command waits for input that never comes: at least one thread waits to read a terminal,
 * which only the command itself can have made, or a standard input that cannot be read; and every
 * other thread of all its processes waits too, without a time limit, for something that only this
 * command can bring about. So a command that sleeps, computes or serves a socket with a time limit
 * does not wait for input. The evidence is /proc/PID/task/TID/syscall. proc_pid_syscall(5).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The state of the processes below an init at one look. */
struct input_wait {
	bool waits;
	uint64_t ticks;   /* CPU time of all of them */
	uint64_t threads; /* how many there were */
};

/**
 * Looks at all descendants of @init, which are many for no command that waits: beyond
 * LIMIT_INPUT_WAIT_PROCESSES in the workspace it does not look.
 */
struct input_wait input_wait_look(pid_t init);

/** Whether nothing has happened between two looks, and both found that the command waits. */
static inline bool input_wait_is_certain(
	const struct input_wait *before, const struct input_wait *now)
{
	return before->waits && now->waits && before->ticks == now->ticks &&
	       before->threads == now->threads;
}
