/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Measures what system calls cost on a descriptor whose other end belongs to a hostile process. A
 * call that wakes the other end walks the list of all waiters there, with interrupts disabled. Any
 * process can put a million epoll(7) watches on one end; then send(2), read(2), shutdown(2) and
 * close(2) of the other end take 300 ms of CPU time each. poll(2), blocked threads and SIGIO are
 * other ways to wait.
 *
 * The time is CPU time of the thread, so that a busy machine ends no peer. Reading that clock is a
 * system call, which costs more than many a call that is measured. It is therefore read only every
 * LIMIT_WAKE_FRESH_US, and after a call that took long by CLOCK_MONOTONIC, which costs little. The
 * difference, less all other time since the first reading, is a lower bound of the call's CPU time,
 * at most LIMIT_WAKE_FRESH_US below it. clock_gettime(2)
 */

#include <stdbool.h>
#include <stdint.h>

/* Of one peer. Zeroed: it has cost nothing. */
struct wake_cost {
	uint8_t n_dear; /* calls in a row that cost more than LIMIT_WAKE_COST_US */
};

/*
 * For peers that decide which calls wake them (a pipe that is not full, a TCP socket with
 * SO_RCVLOWAT), so that a cheap call proves nothing.
 */
struct wake_cost_sum {
	int64_t since, ns; /* since: by CLOCK_MONOTONIC; 0: no call was expensive yet */
};

/** A call that may wake the peer begins, or a few such calls. Calls do not nest. */
void wake_cost_begin(void);

/**
 * They have ended. With @woke they have certainly woken the peer: a cheap call then begins a new
 * row. Returns whether the peer has cost too much: LIMIT_WAKES_DEAR calls in a row. One call alone
 * proves nothing, because the kernel may reclaim memory in it, or a hypervisor may stop the
 * machine.
 */
bool wake_cost_end(struct wake_cost *cost, bool woke);

/**
 * The same for a sum: returns the CPU time of the calls if it was too much for one, otherwise 0.
 */
int64_t wake_cost_stop(void);

/** Adds the cost of one call. Returns whether it is too much for LIMIT_WAKES_DEAR_MS. */
bool wake_cost_add(struct wake_cost_sum *sum, int64_t ns);

/**
 * Adds what one call has cost to the sums @of_tenant and @of_workspace. Returns whether the
 * workspace is at fault: the tenant has cost too much, and the workspace a part of it
 * (LIMIT_WAKES_DEAR_OWN_US).
 */
bool wake_cost_add_both(
	struct wake_cost_sum *of_tenant, struct wake_cost_sum *of_workspace, int64_t ns);

/** For tests: uses @wall and @cpu in place of the kernel's clocks; NULL restores them. */
void wake_cost_replace_clocks(int64_t (*wall)(void), int64_t (*cpu)(void));
