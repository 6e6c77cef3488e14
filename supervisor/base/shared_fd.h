/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Descriptors of cloisterd's that a tenant's processes share: pipes. read(2), write(2) and close(2)
 * take the pipe's mutex and wait for it even with O_NONBLOCK. Another process may hold the mutex
 * for as long as it likes: write(2) copies from the writer's memory with the mutex held, and a page
 * fault of that copy may wait for a file system, or for a sibling that gets no CPU. Threads make
 * these calls, for each tenant its own. The loop only polls: poll(2) and epoll_ctl(2) take no
 * mutex.
 *
 * A tenant has one thread while its processes write, and none when it is idle. A thread whose call
 * does not return is replaced, within bounds. Only calls of the same tenant wait for it.
 */

#include "common/text.h"
#include "supervisor/base/shared_fd_sum.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct event_base;
struct shared_fd;
struct shared_fd_threads;
struct watch;

/* The most that is read at once: four times the default capacity of a pipe. */
#define SHARED_FD_MOST (4UL * 65536)

/* Called from the loop. */
struct shared_fd_calls {
	/* The call has ended. */
	void (*done)(void *context);
	/*
	 * The call has not ended within LIMIT_SHARED_FD_HELD_MS. Called once for each call on the
	 * descriptor at most. The owner may close it.
	 */
	void (*held)(void *context);
};

/** Call it before anything is begun, and after lock-down. Returns 0 or -errno. */
int shared_fds_start(struct event_base *base);

/** Ends the threads that wait for nothing. Nothing may be begun any more. */
void shared_fds_stop(void);

/** Whether a call on a descriptor of any tenant was begun and has not ended, or its owner is to be
 * told. */
bool shared_fds_are_busy(void);

/** Returns the threads of a tenant, none of which runs yet, or NULL. */
struct shared_fd_threads *shared_fd_threads_new(void);

/** The tenant is gone. Its descriptors may still be there. NULL is allowed. */
void shared_fd_threads_free(struct shared_fd_threads *threads);

/**
 * Takes @fd, which does not block, also on failure. @sum is that of its workspace; NULL: it has
 * none. Returns 0, -ENOMEM, or -EMFILE if too many of the tenant's descriptors could not be closed
 * yet.
 */
int shared_fd_new(struct shared_fd_threads *threads, struct shared_fd_sum *sum, int fd,
	const struct shared_fd_calls *calls, void *context, struct shared_fd **ret);

/** Whether a read or a write was begun and has not ended. No other may be begun then. */
bool shared_fd_is_busy(const struct shared_fd *shared);

/**
 * Returns the result of the call that ended last: a number of bytes, 0 at the end of input, or
 * -errno.
 */
ssize_t shared_fd_result(const struct shared_fd *shared);

/**
 * Begins to read at most @max bytes, of which SHARED_FD_MOST are possible. A process that fills the
 * pipe is waited for a moment, so that its flood comes in few large reads.
 */
void shared_fd_read(struct shared_fd *shared, size_t max);

/**
 * Takes the bytes of the read that ended last, as many as its result. Another read may then begin.
 * Return them with shared_fd_give_back(): a tenant has few such buffers, and its reads wait for
 * one.
 */
char *shared_fd_take(struct shared_fd *shared);
void shared_fd_give_back(struct shared_fd_threads *threads, char *data);

/** Begins to write the beginning of @text, which is copied. Returns 0 or -ENOMEM. */
int shared_fd_write(struct shared_fd *shared, struct text text);

/** Returns the capacity of the pipe as of the last read, or 0. F_GETPIPE_SZ of fcntl(2) */
size_t shared_fd_pipe_size(const struct shared_fd *shared);

/** Returns poll(2)'s events that have occurred of @events, POLLHUP and POLLERR. */
short shared_fd_poll(const struct shared_fd *shared, short events);

/** For the loop to watch by shared_fd_want(). Borrowed. */
int shared_fd_number(const struct shared_fd *shared);

/**
 * Sets the events that @watch, which is of @shared, waits for. This call may be expensive, too:
 * waiters of other processes may hold the lock of the list while they wake each other.
 */
void shared_fd_want(struct shared_fd *shared, struct watch *watch, unsigned wanted);

/**
 * A call on another descriptor that the workspace's processes share cost @ns of CPU time, as
 * wake_cost_stop() says.
 */
void shared_fd_sum_charge(struct shared_fd_threads *threads, struct shared_fd_sum *sum, int64_t ns);

/** The same for a call of another thread on @shared. */
void shared_fd_charge(struct shared_fd *shared, int64_t ns);

/**
 * Closes and frees it; its owner is not called any more. With @now it is closed at once, because a
 * process waits for that; otherwise a little later, with others. The loop must not watch it any
 * more. NULL is allowed.
 */
void shared_fd_close(struct shared_fd *shared, bool now);

/** The same for a descriptor that is only to be closed, a little later. */
void shared_fd_close_only(struct shared_fd_threads *threads, struct shared_fd_sum *sum, int fd);
