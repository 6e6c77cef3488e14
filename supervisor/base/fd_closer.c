// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The clients of the sockets that are closed here are hostile. close(2) of such
 * a socket waits for what it holds, such as a lingering socket that a client has sent and nobody
 * has received. What exit(2) closes does not: it lingers in the background (socket(7)). So a
 * thread, the starter, begins another one for each socket, which gets a descriptor table of its own
 * with that socket alone, and ends when the starter has closed the socket in cloisterd's table.
 */
#include "supervisor/base/fd_closer.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOK_MS     100 /* while sockets wait for a thread */
#define STACK_BYTES (64 * KIB)

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

/* A socket to close. */
struct doomed {
	int fd;
	uid_t uid;  /* of its client */
	char *last; /* to be sent first; NULL: nothing */
};

/* A thread that closes a socket by its end. */
struct ending {
	struct doomed doomed;
	pid_t thread; /* 0: there is none */
	bool has_table;
	atomic_bool left; /* the thread needs this no more */
	sem_t begun, closed;
};

struct waiting {
	TAILQ_ENTRY(waiting) entry;
	struct doomed doomed;
};

TAILQ_HEAD(waitings, waiting);

static int64_t begin_waiting(void *context);

static struct thread starter = THREAD("fd-closer", begin_waiting, NULL);
static struct waitings queue = TAILQ_HEAD_INITIALIZER(queue); /* under its mutex */

/* The starter's. */
static struct ending endings[LIMIT_FD_CLOSERS];

/* What the socket does not take at once is lost. */
static void send_last(struct doomed *doomed)
{
	if (doomed->last)
		(void)send(doomed->fd, doomed->last, strlen(doomed->last),
			MSG_DONTWAIT | MSG_NOSIGNAL);
	free(TAKE_PTR(doomed->last));
}

static void *end_with(void *context)
{
	struct ending *ending = context;
	unsigned fd = (unsigned)ending->doomed.fd;
	bool has_table;

	ending->thread = gettid();
	ending->has_table = close_range(0, fd - 1, CLOSE_RANGE_UNSHARE) == 0 &&
			    close_range(fd + 1, ~0U, 0) == 0;
	sem_post(&ending->begun);
	while (sem_wait(&ending->closed) < 0)
		;
	send_last(&ending->doomed);
	has_table = ending->has_table;
	atomic_store(&ending->left, true);
	/* For want of memory. This may wait as long as its client likes. */
	if (!has_table)
		close((int)fd);
	return NULL;
}

static void wait_for_semaphore(sem_t *semaphore)
{
	while (sem_wait(semaphore) < 0)
		;
}

/* Returns whether the thread has begun. */
static bool start_fd_closer(struct ending *ending, struct doomed doomed)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int r;

	ending->doomed = doomed;
	atomic_store(&ending->left, false);
	if (sem_init(&ending->begun, 0, 0) < 0 || sem_init(&ending->closed, 0, 0) < 0 ||
		pthread_attr_init(&attributes) != 0)
		return false;
	(void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
	(void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attributes, end_with, ending);
	pthread_attr_destroy(&attributes);
	if (r != 0)
		return false;
	wait_for_semaphore(&ending->begun);
	if (ending->has_table)
		close(doomed.fd); /* not the last */
	sem_post(&ending->closed);
	return true;
}

/* A thread is there until it has closed all. */
static void note_ended(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(endings); i++)
		if (endings[i].thread > 0 && atomic_load(&endings[i].left) &&
			tgkill(getpid(), endings[i].thread, 0) < 0)
			endings[i].thread = 0;
}

/* Returns a free place, or NULL if there is none for the user @uid. */
static struct ending *find_place(uid_t uid)
{
	struct ending *place = NULL;
	unsigned of_user = 0;

	for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
		if (endings[i].thread == 0)
			place = &endings[i];
		else
			of_user += endings[i].doomed.uid == uid;
	}
	return of_user < LIMIT_FD_CLOSERS_USER ? place : NULL;
}

static bool begin_fd_close(struct doomed doomed)
{
	struct ending *place = find_place(doomed.uid);

	return place && start_fd_closer(place, doomed);
}

/* A turn of the starter: sockets for which there is no thread wait. */
static int64_t begin_waiting(void *context)
{
	struct waitings waitings = TAILQ_HEAD_INITIALIZER(waitings);
	struct waiting *waiting, *next;
	bool came;

	(void)context;
	if (TAILQ_EMPTY(&queue))
		return THREAD_IDLE;
	TAILQ_CONCAT(&waitings, &queue, entry);
	thread_unlock(&starter);
	note_ended();
	for (waiting = TAILQ_FIRST(&waitings); waiting; waiting = next) {
		next = TAILQ_NEXT(waiting, entry);
		if (!begin_fd_close(waiting->doomed))
			continue;
		TAILQ_REMOVE(&waitings, waiting, entry);
		free(waiting);
	}
	thread_lock(&starter);
	came = !TAILQ_EMPTY(&queue);
	TAILQ_CONCAT(&waitings, &queue, entry);
	TAILQ_CONCAT(&queue, &waitings, entry);
	if (TAILQ_EMPTY(&queue))
		return THREAD_IDLE;
	return came ? THREAD_AGAIN : LOOK_MS;
}

bool fd_closer_refuse_instead(int fd)
{
	int no = 0;

	return setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no)) == 0;
}

int fd_closer_start(void)
{
	return starter.started ? 0 : thread_start(&starter);
}

ssize_t fd_closer_receive(int fd, const struct iovec *iov)
{
	struct msghdr message = {.msg_iov = (struct iovec *)iov, .msg_iovlen = 1};
	/* Without room for descriptors, this copies the bytes and closes nothing. */
	ssize_t n = recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT);

	if (n > 0 && message.msg_flags & MSG_CTRUNC) {
		errno = EBADMSG;
		return -1;
	}
	/* Nobody else receives from it: these are the same bytes. */
	return n > 0 ? recv(fd, iov->iov_base, (size_t)n, MSG_DONTWAIT) : n;
}

static uid_t user_of(int fd)
{
	struct ucred peer = {.uid = (uid_t)-1};
	socklen_t size = sizeof(peer);

	(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	return peer.uid;
}

/* Without memory the socket stays open, because the loop must not wait. */
static void enqueue(struct doomed doomed)
{
	struct waiting *waiting = malloc(sizeof(*waiting));

	if (!waiting) {
		free(doomed.last);
		return;
	}
	waiting->doomed = doomed;
	thread_lock(&starter);
	TAILQ_INSERT_TAIL(&queue, waiting, entry);
	thread_wake(&starter);
	thread_unlock(&starter);
}

void fd_closer_close(int fd)
{
	/* Its client sees the end at once, also if the socket waits for a thread. */
	(void)shutdown(fd, SHUT_RDWR);
	enqueue((struct doomed){.fd = fd, .uid = user_of(fd)});
}

void fd_closer_end(int fd, char *last)
{
	if (fd_closer_start() == 0) {
		enqueue((struct doomed){.fd = fd, .uid = user_of(fd), .last = last});
		return;
	}
	free(last);
	close(fd);
}
