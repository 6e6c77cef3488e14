/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The ways to give up privilege that the spawner, the worker and the files process share. Each
 * function does one thing to the calling process, returns 0 or -errno, and cannot be undone where
 * the kernel provides for that. capabilities(7), prctl(2).
 */

#include <sys/capability.h>

/**
 * The kernel sends this process SIGKILL when its parent dies, also while it is stopped. A change of
 * credentials clears this.
 */
int confine_die_with_parent(void);

/** Sets PR_SET_NO_NEW_PRIVS. */
int confine_no_new_privs(void);

/**
 * Makes this process non-dumpable: it cannot be traced, and its /proc/PID belongs to root. An exec
 * clears this, so every program calls it again.
 */
int confine_non_dumpable(void);

/**
 * Sets the effective, permitted and inheritable capabilities to exactly the @n at @keep, and
 * empties the ambient set.
 */
int confine_keep_capabilities(const cap_value_t *keep, int n);

/** Empties the bounding set. Needs CAP_SETPCAP. */
int confine_empty_bounding_set(void);

/**
 * Makes the @n capabilities survive the next exec of an ordinary program, as inheritable and
 * ambient ones.
 */
int confine_pass_on_capabilities(const cap_value_t *capabilities, int n);

/**
 * Fails if the other end of @fd is already closed. Detects a parent that died before
 * confine_die_with_parent().
 */
int confine_check_connected(int fd);
