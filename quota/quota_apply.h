/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Gives the ids of disk classes their limits on one file system. */

#include "common/config/disk_classes.h"
#include "common/subordinate_ids.h"

#include <stdbool.h>

struct quota_counts {
	uint32_t ids;     /* of all classes */
	uint32_t changed; /* that had other limits before; also ids of no class that had some */
};

/**
 * Compares the limits of every id of @range that managed workspaces may have with what @classes
 * give it on the file system of @fd, and sets those that differ; with @look only counts them. An id
 * of no class gets none. All ids of @classes must be in @range. Returns 0, or -errno with
 * what was counted until then.
 */
int quota_apply(int fd, const struct disk_classes *classes, const struct id_range *range, bool look,
	struct quota_counts *ret);
