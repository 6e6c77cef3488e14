/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The most memory that cloisterd may need with its configuration: the sum of all bounds on what
 * clients, commands and workspaces can make it hold. A limit for the service, such as MemoryMax= of
 * its unit, must be larger, and the workspaces' own memory comes on top.
 */

#include <stdint.h>

struct config;

/** Returns the bound in bytes. */
uint64_t memory_bound(const struct config *config);
