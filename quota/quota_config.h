/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The part of the configuration that cloister-quota uses. */

#include "common/config/disk_classes.h"

#include <sys/types.h>

struct quota_config {
	struct disk_classes classes;
	const char *classes_file; /* that set them last; for the reading alone */
	char *user;               /* NULL: not set */
	char *state_dir;          /* NULL: not set */
};

/**
 * Reads the configuration at @path and its drop-ins. Prints each mistake in a key that is taken,
 * with its file and line. @root is the owner that all files must have. Returns 0; -EINVAL for
 * mistakes; -EPERM if another owner than @root could change a file; or another -errno.
 */
int quota_config_read(const char *path, uid_t root, struct quota_config *ret);
void quota_config_done(struct quota_config *config);
