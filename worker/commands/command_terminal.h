/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The terminal of a command, in the devpts of its workspace. The worker opens both ends, and keeps
 * them until the command's init is reaped: while the worker holds the slave, the master never hangs
 * up, so only the command's end ends the session. pty(7), ioctl_tty(2).
 */

#include "common/wire/wire_commands.h"
#include "worker/commands/command_relay.h"

struct terminal {
	int master;
	int slave;   /* becomes the command's stdin, stdout and stderr */
	int signals; /* signalfd(2): its reader's own SIGCHLD and SIGTERM */
};

#define TERMINAL_NONE ((struct terminal){-1, -1, -1})

/** Opens a terminal of this size. Returns 0, or -errno: -ENOSPC if the workspace has too many. */
int terminal_open(const struct command_terminal *size, struct terminal *ret);

/**
 * Stores the state that the command's init needs to copy between the terminal and the pipes @in and
 * @out, which do not block from now on. All stay the caller's. Returns 0 or -errno.
 */
int terminal_relay(const struct terminal *terminal, int in, int out, struct relay_ends *ret);

/** Sets its size; the kernel tells its foreground process group (SIGWINCH) of a change. */
void terminal_resize(const struct terminal *terminal, const struct command_terminal *size);

/** Closes both ends: the terminal hangs up for other commands that have it open. */
void terminal_close(struct terminal *terminal);
