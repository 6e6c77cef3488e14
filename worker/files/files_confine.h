/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Restricts the files process and its jobs by Landlock and by a system call filter. */

/**
 * Restricts the files process by Landlock: it can write only beneath @root, create only directories
 * and regular files, and execute nothing. Needs no_new_privs. Returns 0 or -errno.
 */
int files_ruleset_enforce(int root);

/**
 * Installs the system call filter (worker/filters/files.c), which kills on any other call. Returns
 * 0 or -errno.
 */
int files_filter_install(void);
