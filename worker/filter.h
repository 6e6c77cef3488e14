/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Installs the compiled system call filters (worker/filters/). Used by the spawner, the worker and
 * the files process.
 */

#include <linux/filter.h>
#include <stddef.h>

/**
 * Puts the calling process and its later children under the filter of @n instructions at @program.
 * This cannot be undone. Needs no_new_privs. Returns 0 or -errno. seccomp(2)
 */
int filter_install(const struct sock_filter *program, size_t n);

/**
 * As filter_install(), for a filter with SECCOMP_RET_USER_NOTIF. @ret_listener is the descriptor
 * for these calls; -1 if the kernel gives none, and then they fail with ENOSYS. seccomp_unotify(2)
 */
int filter_install_listening(const struct sock_filter *program, size_t n, int *ret_listener);
