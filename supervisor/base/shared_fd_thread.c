// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The processes at the other ends are hostile: any call that a thread makes here
 * may never return. The threads allocate and free nothing, so that they need no arena of malloc(3).
 */
#include "supervisor/base/shared_fd_thread.h"

#include "common/links.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#define REFILL_MS 1 /* in which a process that floods fills its pipe again */

pthread_mutex_t shared_fd_mutex = PTHREAD_MUTEX_INITIALIZER;
struct shared_list shared_fds_done = TAILQ_HEAD_INITIALIZER(shared_fds_done);
int shared_fds_wake_fd = -1;

/* The mutex is held when these are called, except over the call itself. */

static void tell_loop(struct shared_fd *shared)
{
	const uint64_t one = 1;
	const bool was_empty = TAILQ_EMPTY(&shared_fds_done);

	shared->state = STATE_DONE;
	TAILQ_LINK_TAIL(&shared_fds_done, shared, link);
	if (!was_empty)
		return;
	pthread_mutex_unlock(&shared_fd_mutex); /* which the loop then takes */
	(void)!write(shared_fds_wake_fd, &one, sizeof(one));
	pthread_mutex_lock(&shared_fd_mutex);
}

static void close_now(struct shared_fd *shared)
{
	int64_t cost;

	shared->state = STATE_RUNNING;
	pthread_mutex_unlock(&shared_fd_mutex);
	wake_cost_begin();
	close(shared->fd);
	cost = wake_cost_stop();
	pthread_mutex_lock(&shared_fd_mutex);
	shared_fd_sum_add(&shared->threads->cost, shared->sum, cost);
	shared->state = STATE_CLOSED;
	TAILQ_LINK_TAIL(&shared->threads->closed, shared, link);
}

short shared_fd_poll_for(const struct shared_fd *shared, short events, int ms)
{
	struct pollfd look = {.fd = shared->fd, .events = events};

	return poll(&look, 1, ms) > 0 ? look.revents : 0;
}

/* Reads once, and again for as long as the pipe is full: to wake the loop takes as long. */
static ssize_t read_flood(const struct shared_fd *shared)
{
	size_t len = 0;
	ssize_t n;

	do {
		n = read(shared->fd, shared->buffer->data + len, shared->len - len);
		if (n > 0)
			len += (size_t)n;
	} while (n >= SHARED_FD_PIPE && len < shared->len &&
		 shared_fd_poll_for(shared, POLLIN, REFILL_MS) & POLLIN);
	return len > 0 ? (ssize_t)len : n < 0 ? -errno : 0;
}

static ssize_t make_call(const struct shared_fd *shared, size_t *ret_size)
{
	ssize_t n;
	int size;

	if (shared->op == OP_WRITE) {
		n = write(shared->fd, shared->written, shared->len);
		return n < 0 ? -errno : n;
	}
	n = read_flood(shared);
	size = n > 0 ? fcntl(shared->fd, F_GETPIPE_SZ) : 0;
	if (size > 0)
		*ret_size = (size_t)size;
	return n;
}

void shared_fd_put_buffer(struct shared_fd *shared)
{
	if (shared->buffer)
		SLIST_INSERT_HEAD(&shared->threads->buffers, shared->buffer, link);
	shared->buffer = NULL;
}

static void act_on_shared_fd(struct shared_fd *shared)
{
	size_t size = shared->pipe_size;
	ssize_t result;
	int64_t cost;

	if (shared->op == OP_READ) {
		shared->buffer = SLIST_FIRST(&shared->threads->buffers);
		SLIST_REMOVE_HEAD(&shared->threads->buffers, link);
	}
	shared->state = STATE_RUNNING;
	pthread_mutex_unlock(&shared_fd_mutex);
	wake_cost_begin();
	result = make_call(shared, &size);
	cost = wake_cost_stop();
	pthread_mutex_lock(&shared_fd_mutex);
	shared_fd_sum_add(&shared->threads->cost, shared->sum, cost);
	shared->result = result;
	shared->pipe_size = size;
	if (result <= 0 || shared->closing)
		shared_fd_put_buffer(shared);
	if (shared->closing)
		close_now(shared);
	else
		tell_loop(shared);
}

/* Returns the first that can be done: reading needs a buffer. */
static struct shared_fd *next_shared_fd(struct shared_fd_threads *threads)
{
	struct shared_fd *shared;

	TAILQ_FOREACH (shared, &threads->queue, link)
		if (shared->op != OP_READ || !SLIST_EMPTY(&threads->buffers))
			return shared;
	return NULL;
}

void *shared_fd_thread(void *context)
{
	struct shared_fd_threads *threads = context;

	pthread_mutex_lock(&shared_fd_mutex);
	for (;;) {
		struct shared_fd *shared = next_shared_fd(threads);

		if (!shared && threads->end)
			break;
		if (!shared) {
			threads->n_waiting++;
			pthread_cond_wait(&threads->work, &shared_fd_mutex);
			threads->n_waiting--;
			continue;
		}
		TAILQ_UNLINK(&threads->queue, shared, link);
		if (shared->op == OP_CLOSE)
			close_now(shared);
		else
			act_on_shared_fd(shared);
	}
	threads->n_threads--;
	pthread_mutex_unlock(&shared_fd_mutex);
	return NULL;
}
