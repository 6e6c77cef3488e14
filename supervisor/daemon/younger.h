/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The new cloisterd's side of a take-over (--take-over, elder.h). It asks for the sockets while it
 * may still open files, starts as any other, and serves when the elder one has said which
 * workspaces it still uses. It opens these when the elder one has released them.
 *
 * Each descriptor that is given is checked: the lock is that of the state directory, a socket
 * listens, is a Unix stream socket, and has the name that the configuration wants.
 */

#include <stdbool.h>

struct daemon;
struct younger;

/** Asks, and fills in the sockets of the options. Ends the process if they are not given. */
void younger_ask(struct daemon *daemon);

/** Give what was given, once. */
int younger_take_lock(struct younger *younger);
int younger_take_link(struct younger *younger);
int younger_take_cgroup(struct younger *younger);

/** Whether cloisterd, and not a service manager, has made the sockets. */
bool younger_owns_sockets(const struct younger *younger);

/** The same of the socket of cloister-egress. */
bool younger_owns_egress(const struct younger *younger);

/** Call it before the first look at a workspace: see workspaces_set_elsewhere(). */
void younger_begin(struct younger *younger);

/**
 * Before it listens: has spare cells made, as for the first tenant, because there are none before a
 * workspace is opened, and the clients of the elder one come now. Ends the process if it is told to
 * end meanwhile. NULL is allowed.
 */
void younger_prepare(struct younger *younger);

/**
 * The last step of the start that can fail, after lock-down: sends READY and waits until it may
 * serve. Ends the process if it may not. NULL is allowed.
 */
void younger_serve(struct younger *younger);

/** A third generation is ready: tells the elder one to end now. NULL is allowed. */
void younger_end_former(struct younger *younger);

/**
 * At the end of this process: tells the elder one to end, and waits, for a bounded time, until it
 * has answered its calls. A service manager kills it as soon as this process is gone. NULL is
 * allowed.
 */
void younger_await_former(struct younger *younger);

/** NULL is allowed. */
void younger_free(struct younger *younger);
