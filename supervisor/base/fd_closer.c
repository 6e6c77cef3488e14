// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The thread does nothing but close(2) the descriptors whose numbers it reads
 * from a pipe.
 */
#include "supervisor/base/fd_closer.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#define FDS_MAX 253 /* SCM_MAX_FD: the most that one message can carry */

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

static int queue[2] = {-1, -1};

static void *close_all(void *context)
{
	int fd;

	(void)context;
	while (read(queue[0], &fd, sizeof(fd)) == sizeof(fd))
		close(fd);
	return NULL;
}

bool fd_closer_refuse_instead(int fd)
{
	int no = 0;

	return setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no)) == 0;
}

int fd_closer_start(void)
{
	sigset_t all, old;
	pthread_t thread;
	int r;

	if (queue[0] >= 0)
		return 0;
	if (pipe2(queue, O_CLOEXEC) < 0 || fcntl(queue[1], F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	/* The loop's thread handles signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&thread, NULL, close_all, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r != 0) {
		close_fd(&queue[0]);
		close_fd(&queue[1]);
		return -r;
	}
	pthread_detach(thread);
	return 0;
}

ssize_t fd_closer_receive(int fd, const struct iovec *iov)
{
	union {
		char buffer[CMSG_SPACE(sizeof(int) * FDS_MAX)];
		struct cmsghdr align;
	} control;
	struct msghdr message = {
		.msg_iov = (struct iovec *)iov,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		.msg_controllen = sizeof(control.buffer),
	};
	ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	if (n < 0)
		return n;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		/*
		 * The pipe holds 16,384 numbers. If it is full because a close hangs, writing would
		 * stop the loop. The connection is ended instead, and its descriptors stay open
		 * until the process ends.
		 */
		if (write(queue[1], CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0)) < 0) {
			errno = ENOBUFS;
			return -1;
		}
	}
	return n;
}

void fd_closer_close(int fd)
{
	/* If the pipe is full, the descriptor stays open, because the loop must not wait. */
	(void)!write(queue[1], &fd, sizeof(fd));
}
