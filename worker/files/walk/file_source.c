// SPDX-License-Identifier: Apache-2.0
/* Runs in the files process. The file may change while it is read. */
#include "worker/files/walk/file_source.h"

#include "common/cleanup.h"
#include "common/io.h"
#include "common/limits.h"

#include <errno.h>
#include <stdint.h>
#include <sys/stat.h>

int file_source_read(struct file_source *source)
{
	struct stat st;
	size_t size;
	ssize_t n;

	if (fstat(source->fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size > LIMIT_CONTENT_BYTES)
		return -EFBIG;
	size = (size_t)st.st_size;
	source->content = malloc(size + 1);
	if (!source->content)
		return -ENOMEM;
	n = io_read(source->fd, source->content, size + 1, 0);
	if (n < 0)
		return (int)n;
	source->len = (size_t)n;
	return source->len <= size ? 0 : -EAGAIN;
}

void file_source_done(struct file_source *source)
{
	close_fd(&source->fd);
	free(source->content);
	*source = FILE_SOURCE_NONE;
}
