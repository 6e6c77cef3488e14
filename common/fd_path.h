/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The path of an open descriptor. proc_pid_fd(5). */

/**
 * Returns the canonical path of the open directory @fd, malloc'ed, or NULL if it has none or memory
 * is out.
 */
char *fd_path(int fd);
