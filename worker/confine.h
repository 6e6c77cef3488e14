/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The acts of giving up privilege that spawner, worker, files process and command init have in
 * common. Each does one thing to the calling process, returns 0 or -errno, and is irreversible
 * where the kernel lets it be. capabilities(7), prctl(2).
 */

#include <sys/capability.h>

/** SIGKILL for this process when its parent dies, also while it is stopped. Cleared by changes of
 * credentials. */
int confine_die_with_parent(void);

/** PR_SET_NO_NEW_PRIVS. */
int confine_no_new_privs(void);

/** Not dumpable: no ptrace, and /proc/PID belongs to root. Lost at exec: every program says it
 * again. */
int confine_non_dumpable(void);

/** Effective, permitted and inheritable become exactly the @n capabilities at @keep; ambient
 * becomes empty. */
int confine_keep_capabilities(const cap_value_t *keep, int n);

/** Empties the bounding set. Needs CAP_SETPCAP. */
int confine_empty_bounding_set(void);

/** Makes the @n capabilities survive the next exec of an ordinary program: inheritable and ambient.
 */
int confine_pass_on_capabilities(const cap_value_t *capabilities, int n);

/** Whether the other end of @fd is already closed: a parent that died before
 * confine_die_with_parent is seen here. */
int confine_check_connected(int fd);
