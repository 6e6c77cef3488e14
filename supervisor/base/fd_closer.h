/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Refuses the descriptors that clients, workers and files processes send, on kernels before Linux
 * 6.16, which cannot do so (SO_PASSRIGHTS). Closing a received descriptor can block for as long as
 * its sender likes (a lingering socket, a FUSE file), and so can closing the socket on which it was
 * sent. cloisterd therefore receives no descriptors, and threads close such sockets, a bounded
 * number for each user. No user's sockets wait for another's. The same threads close sockets of
 * which closing takes long for another reason (fd_closer_end()).
 */

#include "common/cleanup.h"
#include "common/wire/channel.h"

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

/**
 * Makes the kernel refuse descriptors sent to the socket @fd or to sockets accepted from it.
 * Returns false if the kernel cannot: then the thread is needed.
 */
bool fd_closer_refuse_instead(int fd);

/** Starts the thread if it does not run yet. Returns 0 or -errno. */
int fd_closer_start(void);

/**
 * Closes the socket @fd in a thread: that also closes descriptors that were sent and not received.
 */
void fd_closer_close(int fd);

/**
 * The same for a socket whose peer makes each system call expensive (common/wake_cost.h). The loop
 * makes no call; the thread first sends @last, which is malloc'ed and taken, or NULL. If there is
 * no thread, closes it here and now.
 */
void fd_closer_end(int fd, char *last);

/**
 * Like readv(@fd, @iov, 1), for a socket. Fails with EBADMSG if descriptors come with the bytes,
 * and leaves them there.
 */
ssize_t fd_closer_receive(int fd, const struct iovec *iov);

/** Like channel_init(), for a hostile peer of the socket @in. Returns 0 or -errno. */
static inline int hostile_channel_init(struct channel *channel, int in, int out)
{
	channel_init(channel, in, out, 0);
	if (fd_closer_refuse_instead(in))
		return 0;
	channel->receive = fd_closer_receive;
	return fd_closer_start();
}

/** Like channel_done(), for such a channel. */
static inline void hostile_channel_done(struct channel *channel)
{
	if (channel->receive && channel->in >= 0) {
		if (channel->out == channel->in)
			channel->out = -1;
		fd_closer_close(TAKE_FD(channel->in));
	}
	channel_done(channel);
}
