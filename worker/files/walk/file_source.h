/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A whole file in memory, to be compared with the file at a later time: for edits and versions. */

#include "common/text.h"

#include <stddef.h>

struct file_source {
	int fd;
	char *content;
	size_t len;
};

#define FILE_SOURCE_NONE ((struct file_source){.fd = -1})

/**
 * Reads the regular file that source->fd has open, with at most LIMIT_CONTENT_BYTES. Returns 0,
 * -EFBIG for a larger file, -EAGAIN for one that grew meanwhile, or another -errno.
 */
int file_source_read(struct file_source *source);

static inline struct text file_source_text(const struct file_source *source)
{
	return (struct text){source->content, source->len};
}

/** Closes the file and frees its content. */
void file_source_done(struct file_source *source);
