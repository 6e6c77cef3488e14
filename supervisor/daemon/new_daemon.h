/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The new cloisterd's side of a take-over (--take-over, old_daemon.h). It asks for the sockets
 * while it may still open files, starts as any other, and serves when the old daemon has said which
 * workspaces it still uses. It opens these when the old daemon has released them.
 *
 * Each descriptor that is given is checked: the lock is that of the state directory, a socket
 * listens, is a Unix stream socket, and has the name that the configuration wants.
 */

#include <stdbool.h>

struct daemon;
struct new_daemon;

/** Asks, and fills in the sockets of the options. Ends the process if they are not given. */
void new_daemon_ask(struct daemon *daemon);

/** Give what was given, once. */
int new_daemon_take_lock(struct new_daemon *new_daemon);
int new_daemon_take_link(struct new_daemon *new_daemon);
int new_daemon_take_cgroup(struct new_daemon *new_daemon);

/** Whether cloisterd, and not a service manager, has made the sockets. */
bool new_daemon_owns_sockets(const struct new_daemon *new_daemon);

/** The same of the socket of cloister-egress. */
bool new_daemon_owns_egress(const struct new_daemon *new_daemon);

/** Call it before the first look at a workspace: see workspaces_set_elsewhere(). */
void new_daemon_begin(struct new_daemon *new_daemon);

/**
 * Before it listens: has spare cells made, as for the first tenant, because there are none before a
 * workspace is opened, and the clients of the old daemon come now. Ends the process if it is told
 * to end meanwhile. NULL is allowed.
 */
void new_daemon_prepare(struct new_daemon *new_daemon);

/**
 * The last step of the start that can fail, after lock-down: sends READY and waits until it may
 * serve. Ends the process if it may not. NULL is allowed.
 */
void new_daemon_serve(struct new_daemon *new_daemon);

/** A third generation is ready: tells the old daemon to end now. NULL is allowed. */
void new_daemon_end_former(struct new_daemon *new_daemon);

/**
 * At the end of this process: tells the old daemon to end, and waits, for a bounded time, until it
 * has answered its calls. A service manager kills it as soon as this process is gone. NULL is
 * allowed.
 */
void new_daemon_await_former(struct new_daemon *new_daemon);

/** NULL is allowed. */
void new_daemon_free(struct new_daemon *new_daemon);
