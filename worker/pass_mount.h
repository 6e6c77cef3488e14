/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A mount on its way between the spawner and a worker, over a socket that nothing else uses. A
 * worker may have been taken over and send anything. recvmsg(2) closes descriptors for which the
 * receiver has no room, and close(2) of a received descriptor may wait for the sender's file
 * system. So the spawner receives only from its own children. unix(7)
 */

/** Sends the mount @fd (borrowed), without waiting. Returns 0 or -errno. */
int pass_mount(int socket, int fd);

/**
 * Receives a mount that has been sent already, without waiting. Returns its descriptor; -EAGAIN if
 * none has come; -EPIPE if none comes any more; or another -errno.
 */
int take_mount(int socket);

/**
 * Returns a duplicate of the mount that the first message on @socket carries, without waiting, and
 * leaves the message there; or -EBADMSG if it carries anything else; or another -errno.
 */
int peek_mount(int socket);
