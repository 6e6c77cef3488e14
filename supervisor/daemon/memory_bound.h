/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The most memory that cloisterd may need with its configuration: the sum of all bounds of memory
 * for clients, commands and workspaces. A limit for the service, such as MemoryMax= of its unit,
 * must be larger, and the workspaces' own memory comes on top.
 */

#include <stdint.h>

struct config;

/** Returns the bound in bytes. */
uint64_t memory_bound(const struct config *config);
