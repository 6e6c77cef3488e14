/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A mount on its way between the spawner and a worker, over a socket that nothing else uses. A
 * worker may have been taken over: who receives takes one descriptor and no more. unix(7)
 */

/** Sends the mount @fd (borrowed), without waiting. Returns 0 or -errno. */
int pass_mount(int socket, int fd);

/**
 * Receives a mount that has been sent already, without waiting. Returns its descriptor; -EAGAIN if
 * none has come; -EPIPE if none comes any more; or another -errno.
 */
int take_mount(int socket);
