/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The cost of calls on descriptors that one workspace's processes share with cloisterd
 * (common/wake_cost.h).
 */

#include <stdint.h>

struct shared_fd_sum;
struct wake_cost_sum;

/**
 * Returns the sum of what calls on the descriptors of one workspace's processes cost, or NULL.
 * Calls
 * @dear from the loop if the tenant's calls cost too much and these are at fault (wake_cost.h), and
 * begins a new sum.
 */
struct shared_fd_sum *shared_fd_sum_new(void (*dear)(void *context), void *context);

/** @dear is not called any more. Descriptors may still be there. NULL is allowed. */
void shared_fd_sum_free(struct shared_fd_sum *sum);

/* For shared_fd.c and its threads. @sum may be NULL. */

/** Each descriptor has a reference. The last shared_fd_sum_put() frees it. */
struct shared_fd_sum *shared_fd_sum_hold(struct shared_fd_sum *sum);
void shared_fd_sum_put(struct shared_fd_sum *sum);

/** Adds the cost of a call, of any thread, to it and to the sum of its tenant. */
void shared_fd_sum_add(struct wake_cost_sum *of_tenant, struct shared_fd_sum *sum, int64_t ns);

/** Tells its owner if it is at fault; for the loop's thread. */
void shared_fd_sum_look(struct shared_fd_sum *sum);
