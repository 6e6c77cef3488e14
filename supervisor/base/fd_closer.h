/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Closes the descriptors that clients send, on kernels before Linux 6.16, which cannot refuse them
 * on a socket (SO_PASSRIGHTS). Closing a descriptor can block for as long as its sender likes (a
 * lingering socket, a FUSE file), and a read(2) that discards descriptors closes them too.
 * cloisterd therefore receives them and closes them in a thread of their own, never in the loop.
 */

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
 * Closes the socket @fd in the thread: that also closes descriptors that were sent and not
 * received.
 */
void fd_closer_close(int fd);

/**
 * Like readv(@fd, @iov, 1), for a socket. Descriptors that come with the bytes go to the thread.
 */
ssize_t fd_closer_receive(int fd, const struct iovec *iov);
