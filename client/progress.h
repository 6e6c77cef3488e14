/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One line on stderr, if that is a terminal, about what takes long; gone before anything else is
 * written. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct progress {
	bool enabled, shown;
	bool in_line;       /* what was written last did not end a line: it is not written over */
	int64_t timeout_ms; /* 0: not known */
	uint64_t bytes;
	struct timespec began, drawn;
};

/** Begins now. @timeout_ms 0: not known. Shows nothing where stderr is no terminal, or one that
 * can do nothing, or @quiet. */
void progress_begin(struct progress *progress, int64_t timeout_ms, bool quiet);

/** Bytes have moved. */
void progress_count(struct progress *progress, size_t bytes);

/** How long to wait before progress_show() has something to do, for poll(2). */
int progress_wait_ms(const struct progress *progress);

/** Writes the line, or writes it anew, if it is time. */
void progress_show(struct progress *progress);

/** Takes the line away. */
void progress_clear(struct progress *progress);

/** As progress_clear(), and @data is written to @fd next. */
void progress_before_output(struct progress *progress, int fd, const void *data, size_t len);
