/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A recursive listing for a reader who is shown few entries: those nearest to the directory come
 * first, and where there are too many, the largest directories are collapsed to one entry with the
 * number of what is in them. Runs in the files process.
 */

#include "worker/files/walk/tree_walk.h"

struct glob_set;
struct reply;

struct survey_end {
	struct walk_end walked;
	uint64_t count; /* entries sent */
	bool gone;      /* nobody reads them */
};

/**
 * Sends at most @max_entries entries below the directory @fd that match @pattern, whose paths are
 * matched behind their first @base bytes. @walk is a walk of it without a visitor. Returns 0 or
 * -errno.
 */
int file_survey(const struct walk *walk, int fd, struct glob_set *pattern, size_t base,
	size_t max_entries, struct reply *reply, struct survey_end *ret_end);
