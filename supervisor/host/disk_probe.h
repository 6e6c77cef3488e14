/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the kernel limits what each managed workspace takes on disk: the file system of the state
 * directory enforces users' quotas, and every id of the disk classes has the limits of its class.
 * quotactl(2): a process may ask for its own user's, so in system mode a child takes each id.
 */

#include <stdbool.h>

struct disk_classes;
struct id_range;

/**
 * Looks, before lock-down, at the file system of @state_dir, or of the nearest directory above it
 * that exists. @range are the ids of system mode; NULL: user mode, where our own user's quota is
 * meant.
 */
void disk_probe(
	const char *state_dir, const struct disk_classes *classes, const struct id_range *range);

/** Returns what disk_probe() found; false without it. */
bool disk_probe_holds(void);

/** Returns what to do where it does not hold. Static storage. */
const char *disk_probe_remedy(void);
