/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How much memory cloisterd may come to need, as it is configured: the sum of the bounds of all
 * that clients, commands and workspaces can make it hold. What an administrator gives the service,
 * for example MemoryMax= of a unit, is more than that, and the workspaces' memory comes on top.
 */

#include <stdint.h>

struct config;

/** In bytes. */
uint64_t memory_bound(const struct config *config);
