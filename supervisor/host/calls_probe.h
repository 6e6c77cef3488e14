/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tests whether cloister may make the system calls that every workspace needs. An old kernel lacks
 * some, and a container's system call filter refuses some.
 */

#include <stdbool.h>

/**
 * Tries each call in a child, so that it has no effect here. Call it before lock-down and before
 * other threads start.
 */
bool calls_probe(void);

/**
 * After calls_probe() has returned false: says which calls are missing or refused, and what to do.
 * Static storage.
 */
const char *calls_remedy(void);
