/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Compiled system call filters (worker/filters/), as spawner, worker and files process install
 * them. */

#include <linux/filter.h>
#include <stddef.h>

/** Puts the calling process and all that it starts under the filter of @n instructions at
 * @program, for good. Needs no_new_privs. 0 or -errno. seccomp(2) */
int filter_install(const struct sock_filter *program, size_t n);
