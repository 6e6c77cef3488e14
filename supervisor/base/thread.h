/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Threads beside the event loop, for work that waits for a disk or for a reader. They have a small
 * stack and handle no signals: the loop's thread does.
 *
 * A struct thread is one thread with a queue, which its user keeps. A mutex guards the queue and
 * all else that both threads use, and is never held over a system call that may wait.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct thread {
	const char *name;
	/*
	 * Does one piece of work. Called with the mutex held, which it releases meanwhile. Returns
	 * THREAD_AGAIN if there may be more; THREAD_IDLE to wait for thread_wake(); or for how many
	 * milliseconds to wait for that at most. A thread that is to stop ends in place of waiting.
	 */
	int64_t (*turn)(void *context);
	void *context;
	pthread_mutex_t mutex;
	pthread_cond_t work;
	pthread_t id;
	bool started, stop;
};

enum { THREAD_IDLE = -1, THREAD_AGAIN = 0 };

/* A thread that has not been started; @as is its name in ps(1), of at most 15 bytes. */
#define THREAD(as, act, with)          \
	((struct thread){.name = (as), \
		.turn = (act),         \
		.context = (with),     \
		.mutex = PTHREAD_MUTEX_INITIALIZER})

/** Starts it. Call it after lock-down. Returns 0 or -errno. */
int thread_start(struct thread *thread);

void thread_lock(struct thread *thread);
void thread_unlock(struct thread *thread);

/** Ends its wait. Call it with the mutex held. */
void thread_wake(struct thread *thread);

/**
 * Has it stop when no work is left, and waits for that at most @ms milliseconds. Returns false if
 * it has not ended: it may still use its data.
 */
bool thread_stop(struct thread *thread, int64_t ms);

/** Starts a thread that nobody waits for. Call it after lock-down. Returns 0 or -errno. */
int thread_detached(void *(*act)(void *context), void *context);

/** Makes a condition whose timeouts are times of CLOCK_MONOTONIC. */
void thread_condition_init(pthread_cond_t *condition);

/** Waits for @condition at most @ms milliseconds. Returns false if that time is over. */
bool thread_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t ms);
