// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/base/thread.h"

#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#define STACK_BYTES (256UL * 1024)
#define MS_PER_S    1000
#define NS_PER_MS   1000000L

static int begin_thread(void *(*act)(void *context), void *context, pthread_t *ret)
{
	sigset_t all, old;
	pthread_attr_t small;
	int r = pthread_attr_init(&small);

	if (r != 0)
		return -r;
	pthread_attr_setstacksize(&small, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(ret, &small, act, context);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&small);
	return -r;
}

static struct timespec in_ms(int64_t ms)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	time.tv_sec += ms / MS_PER_S;
	time.tv_nsec += ms % MS_PER_S * NS_PER_MS;
	if (time.tv_nsec >= MS_PER_S * NS_PER_MS) {
		time.tv_sec++;
		time.tv_nsec -= MS_PER_S * NS_PER_MS;
	}
	return time;
}

static void *run_named_thread(void *context)
{
	struct thread *thread = context;
	int64_t ms;

	prctl(PR_SET_NAME, thread->name);
	thread_lock(thread);
	for (;;) {
		ms = thread->turn(thread->context);
		if (ms == THREAD_AGAIN)
			continue;
		if (thread->stop)
			break;
		if (ms == THREAD_IDLE)
			pthread_cond_wait(&thread->work, &thread->mutex);
		else
			(void)thread_condition_wait(&thread->work, &thread->mutex, ms);
	}
	thread_unlock(thread);
	return NULL;
}

int thread_start(struct thread *thread)
{
	int r;

	thread_condition_init(&thread->work);
	r = begin_thread(run_named_thread, thread, &thread->id);
	thread->started = r == 0;
	return r;
}

void thread_lock(struct thread *thread)
{
	pthread_mutex_lock(&thread->mutex);
}

void thread_unlock(struct thread *thread)
{
	pthread_mutex_unlock(&thread->mutex);
}

void thread_wake(struct thread *thread)
{
	if (thread->started)
		pthread_cond_signal(&thread->work);
}

bool thread_stop(struct thread *thread, int64_t ms)
{
	struct timespec until = in_ms(ms);

	thread_lock(thread);
	thread->stop = true;
	thread_wake(thread);
	thread_unlock(thread);
	if (thread->started && pthread_clockjoin_np(thread->id, NULL, CLOCK_MONOTONIC, &until) != 0)
		return false;
	/* Its last writes come before the caller's, also for a tool that does not know how it was
	 * joined. */
	thread_lock(thread);
	thread->started = false;
	thread_unlock(thread);
	return true;
}

int thread_detached(void *(*act)(void *context), void *context)
{
	pthread_t thread = 0;
	int r = begin_thread(act, context, &thread);

	if (r == 0)
		pthread_detach(thread);
	return r;
}

void thread_condition_init(pthread_cond_t *condition)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

bool thread_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t ms)
{
	const struct timespec until = in_ms(ms);

	return pthread_cond_timedwait(condition, mutex, &until) == 0;
}
