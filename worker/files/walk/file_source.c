// SPDX-License-Identifier: Apache-2.0
/* Runs in the files process. The file may change while it is read. */
#include "worker/files/walk/file_source.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <stdint.h>
#include <sys/stat.h>

int file_source_read(struct file_source *source)
{
	struct stat st;
	size_t size;

	if (fstat(source->fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size > LIMIT_CONTENT_BYTES)
		return -EFBIG;
	size = (size_t)st.st_size;
	source->content = malloc(size + 1);
	if (!source->content)
		return -ENOMEM;
	while (source->len <= size) {
		ssize_t n = pread(source->fd, source->content + source->len, size + 1 - source->len,
			(off_t)source->len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		source->len += (size_t)n;
	}
	return -EAGAIN;
}

void file_source_done(struct file_source *source)
{
	close_fd(&source->fd);
	free(source->content);
	*source = FILE_SOURCE_NONE;
}
