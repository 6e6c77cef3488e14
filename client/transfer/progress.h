/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A progress line on stderr, if that is a terminal, for work that takes long. It is removed before
 * other output.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct progress {
	bool enabled, shown;
	/* the last output did not end a line, so no progress is drawn over it */
	bool in_line;
	int64_t timeout_ms; /* 0: not known */
	uint64_t bytes;
	struct timespec began, drawn;
};

/**
 * Starts the clock. @timeout_ms is 0 if not known. Shows nothing if stderr is not a terminal, or
 * not a capable one, or if @quiet.
 */
void progress_begin(struct progress *progress, int64_t timeout_ms, bool quiet);

/** Counts bytes that were transferred. */
void progress_count(struct progress *progress, size_t bytes);

/** Returns how long poll(2) may wait before progress_show() is due. */
int progress_wait_ms(const struct progress *progress);

/** Draws or redraws the line, if it is due. */
void progress_show(struct progress *progress);

/** Removes the line. */
void progress_clear(struct progress *progress);

/** Like progress_clear(); @data is written to @fd next. */
void progress_before_output(struct progress *progress, int fd, const void *data, size_t len);
