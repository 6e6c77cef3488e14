/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For kernels that cannot refuse descriptors on a socket (SO_PASSRIGHTS, before Linux 6.16): what a
 * client passes is received and closed by a thread of its own. Merely closing a descriptor can
 * block for as long as its sender likes (a lingering socket, a FUSE file), and a read(2) that
 * discards them closes them just the same, so the loop must do neither.
 */

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

/** Has the kernel refuse what is passed on the socket @fd, or accepted from it. False: it cannot,
 * and the thread is needed. */
bool fd_closer_refuse_instead(int fd);

/** Starts the thread if it does not run yet. 0 or -errno. */
int fd_closer_start(void);

/** Closes the socket @fd there: what was passed and never received is closed with it. */
void fd_closer_close(int fd);

/** As readv(@fd, @iov, 1), for a socket; descriptors that come with the bytes go to the thread. */
ssize_t fd_closer_receive(int fd, const struct iovec *iov);
