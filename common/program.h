/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where cloister's programs find each other, and how one becomes another.
 */

#define PROGRAM_FDS_MAX 8

/**
 * Opens the program @name for execution: beside the running executable, otherwise in the installed
 * libexec directory. Never looks at PATH. 0 and an O_PATH descriptor, or -errno.
 */
int program_open(const char *name, int *ret_fd);

/**
 * Makes @fds[i] the descriptor i for each of the @n_fds (-1: /dev/null), closes all others and
 * executes @program_fd with
 * @argv and an empty environment. Returns -errno only when that fails: the caller, a fresh child,
 * reports it on a descriptor that it has put above the numbers given (PROGRAM_FDS_MAX) and exits.
 * execveat(2), close_range(2).
 */
int program_execute(int program_fd, char *const argv[], const int *fds, int n_fds);
