/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The threads that make calls on shared descriptors, and what they share with shared_fd.c. One
 * mutex guards the queues; nobody makes a call on a shared descriptor with it held.
 */

#include "common/wake_cost.h"
#include "supervisor/base/shared_fd_sum.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct shared_fd_calls;

/* The default capacity of a pipe: the most that is written at once. */
#define SHARED_FD_PIPE 65536

enum op { OP_READ, OP_WRITE, OP_CLOSE };

enum state {
	STATE_IDLE,
	STATE_QUEUED,  /* in its tenant's queue */
	STATE_RUNNING, /* a thread makes the call */
	STATE_DONE,    /* in the list of those whose owners are to be told */
	STATE_CLOSED,  /* in its tenant's list of what the loop is to free */
};

struct buffer {
	SLIST_ENTRY(buffer) link; /* while it is free */
	char data[];              /* SHARED_FD_MOST bytes */
};

TAILQ_HEAD(shared_list, shared_fd);

struct shared_fd {
	struct shared_fd_threads *threads;
	struct shared_fd_sum *sum;
	const struct shared_fd_calls *calls; /* NULL: it has no owner any more, and is closed */
	void *context;
	int fd;
	enum op op;
	enum state state; /* under the mutex, as all that follows to the next blank line */
	TAILQ_ENTRY(shared_fd) link;
	bool closing;          /* while it runs: the owner has gone, and the thread closes it */
	struct buffer *buffer; /* while it is read to, and until the owner takes it */
	ssize_t result;
	size_t pipe_size;

	/* Set by the loop while no thread has it. */
	size_t len;
	char *written;              /* a copy, while it is written */
	TAILQ_ENTRY(shared_fd) due; /* in the list of what has not come back */
	int64_t since;              /* when that began, as clock_now() */
	bool told;                  /* the owner, that it is held */
};

struct shared_fd_threads {
	LIST_ENTRY(shared_fd_threads) link; /* of those that have a thread or a descriptor */
	/* under the mutex, to the next blank line */
	pthread_cond_t work;
	struct shared_list queue, closed;
	SLIST_HEAD(, buffer) buffers;
	struct wake_cost_sum cost;
	unsigned n_threads, n_waiting;
	bool end; /* the threads that wait are to end */

	struct shared_list later;
	unsigned n_buffers, n_later;
	size_t n_fds, n_closing;
	int64_t used; /* when something was begun last */
	bool gone;    /* the tenant is */
};

extern pthread_mutex_t shared_fd_mutex;
extern struct shared_list shared_fds_done; /* under the mutex */
extern int shared_fds_wake_fd;             /* an eventfd(2) for the loop */

/** The body of a thread of the tenant @context, a struct shared_fd_threads. */
void *shared_fd_thread(void *context);

/** Returns which of @events, POLLHUP and POLLERR occur within @ms. */
short shared_fd_poll_for(const struct shared_fd *shared, short events, int ms);

/** Gives the buffer of @shared, if it has one, back to its tenant. Call it with the mutex held. */
void shared_fd_put_buffer(struct shared_fd *shared);
