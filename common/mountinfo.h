/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What is mounted where, as /proc/PID/mountinfo says. proc_pid_mountinfo(5). */

#include "common/text.h"

#include <limits.h>

/* A path that does not fit, as that of a directory may be, is empty. */
struct mountinfo_entry {
	char root[PATH_MAX];  /* in its file system */
	char point[PATH_MAX]; /* where it is seen from the reader's root */
	struct text type;     /* of the file system; borrowed from the text */
};

/** The whole of a file in /proc: 0 and a text whose data the caller frees, or -errno; -EMSGSIZE
 * past a few MiB. */
int mountinfo_read(const char *path, struct text *ret);

/** Takes lines off @text up to the next that has a type, which is in @ret. False at the end. */
bool mountinfo_next(struct text *text, struct mountinfo_entry *ret);
