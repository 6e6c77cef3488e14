/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How cloister's programs find and execute each other. */

#define PROGRAM_FDS_MAX 10

/**
 * Opens the program @name with O_PATH: from the directory of the running executable, otherwise from
 * the installed libexec directory. PATH is never used. Returns 0 or -errno.
 */
int program_open(const char *name, int *ret_fd);

/**
 * Makes @fds[i] descriptor i for each of the @n_fds (-1: /dev/null), closes all others and executes
 * @program_fd with @argv and an empty environment. Returns only on failure, with -errno. The caller
 * is a fresh child: it reports the error on a descriptor above PROGRAM_FDS_MAX and exits.
 * execveat(2), close_range(2).
 */
int program_execute(int program_fd, char *const argv[], const int *fds, int n_fds);
