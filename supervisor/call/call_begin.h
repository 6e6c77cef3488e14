/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How a call's request reaches its process, with the pipes of a command. */

struct call;

/**
 * Keeps the input that comes for a command, also while it waits in a queue. Returns 0 or -ENOMEM.
 */
int call_make_input(struct call *call);

/**
 * Sends a command to its worker. With a @gate, which it takes, the command waits there; -1: there
 * is none. Returns 0 or -errno.
 */
int call_begin_command(struct call *call, int gate);

/** From now on the command, which has idle_timeout_ms, is silent until it writes or reads. */
void call_watch_silence(struct call *call);

/** Sends a file call to its files process. Returns 0 or -errno. */
int call_begin_files(struct call *call);
