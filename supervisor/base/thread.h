/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Threads beside the event loop, for work that waits for a disk or for a reader. They have a small
 * stack and handle no signals: the loop's thread does.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/** Starts a thread. Call it after lock-down. Returns 0 or -errno. */
int thread_start(void *(*run)(void *context), void *context, pthread_t *ret);

/** Waits at most @ms milliseconds for its end. Returns false if it has not ended. */
bool thread_join(pthread_t thread, int64_t ms);

/** Makes a condition whose timeouts are times of CLOCK_MONOTONIC. */
void thread_condition_init(pthread_cond_t *condition);
