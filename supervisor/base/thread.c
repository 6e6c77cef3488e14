// SPDX-License-Identifier: Apache-2.0
#include "supervisor/base/thread.h"

#include <signal.h>
#include <time.h>

#define STACK_BYTES (256UL * 1024)

int thread_start(void *(*run)(void *context), void *context, pthread_t *ret)
{
	sigset_t all, old;
	pthread_attr_t small;
	int r = pthread_attr_init(&small);

	if (r != 0)
		return -r;
	pthread_attr_setstacksize(&small, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(ret, &small, run, context);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&small);
	return -r;
}

bool thread_join(pthread_t thread, int64_t ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	return pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) == 0;
}

void thread_condition_init(pthread_cond_t *condition)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &monotonic);
	pthread_condattr_destroy(&monotonic);
}
