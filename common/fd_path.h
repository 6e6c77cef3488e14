/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The name of what is open. proc_pid_fd(5). */

/** The canonical path of the open directory @fd, malloc'ed; NULL when it has none or memory is out.
 */
char *fd_path(int fd);
