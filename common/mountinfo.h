/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The mounts that /proc/PID/mountinfo lists. proc_pid_mountinfo(5). */

#include "common/text.h"

#include <limits.h>

/* A path longer than PATH_MAX, which a directory can have, is stored as "". */
struct mountinfo_entry {
	char root[PATH_MAX];  /* root of the mount in its file system */
	char point[PATH_MAX]; /* mount point, relative to the reader's root */
	struct text type;     /* file system type, borrowed from the text */
};

/**
 * Reads the whole file at @path in /proc into @ret, whose data the caller frees. Returns 0 or
 * -errno; -EMSGSIZE if it is longer than a few MiB.
 */
int mountinfo_read(const char *path, struct text *ret);

/**
 * Takes lines from the beginning of @text up to the next valid entry and stores that in @ret.
 * Returns false at the end.
 */
bool mountinfo_next(struct text *text, struct mountinfo_entry *ret);
