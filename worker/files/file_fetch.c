// SPDX-License-Identifier: Apache-2.0
/* Runs in the files process. The tenant may change, cut or remove the file meanwhile. */
#include "worker/files/file_fetch.h"

#include "common/cleanup.h"
#include "worker/files/file_node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define CHUNK_BYTES (32 * 1024)

/* Tells of the open file. */
static int tell_fetched_node(const struct root *root, int fd, const struct stat *st,
	const char *path, bool attributes, struct reply *reply)
{
	_cleanup_free_ struct node_texts *texts = calloc(1, sizeof(*texts));
	struct files_node node;

	if (!texts)
		return -ENOMEM;
	node = file_node(root, st, text_from(path), texts);
	if (attributes)
		file_node_attributes(&node, fd, st, texts);
	return reply_node(reply, &node);
}

void file_fetch_begin(const struct root *root, const struct files_ask *request, uint64_t call,
	struct file_fetch *ret, struct reply *reply)
{
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *path = NULL;
	struct stat st;
	enum tool_error error = root_open_file(root, request->path, &st, &fd, &path);

	*ret = (struct file_fetch){.fd = -1};
	if (error == TOOL_OK &&
		tell_fetched_node(root, fd, &st, path, request->attributes, reply) < 0)
		error = TOOL_EXECUTION_ERROR;
	if (error != TOOL_OK) {
		reply_path_error(reply, root, request->path, error);
		return;
	}
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	*ret = (struct file_fetch){.call = call,
		.fd = TAKE_FD(fd),
		.offset = request->offset,
		.left = request->length,
		.path = TAKE_PTR(path)};
}

bool file_fetch_more(struct file_fetch *fetch, uint64_t bytes, struct reply *reply)
{
	char buffer[CHUNK_BYTES];
	ssize_t n = 1;

	while (bytes > 0 && fetch->left > 0) {
		uint64_t want = bytes < fetch->left ? bytes : fetch->left;

		if (want > sizeof(buffer))
			want = sizeof(buffer);
		n = pread(fetch->fd, buffer, want, (off_t)fetch->offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || reply_data(reply, buffer, (size_t)n) < 0)
			break;
		fetch->offset += (uint64_t)n;
		fetch->left -= (uint64_t)n;
		fetch->sent += (uint64_t)n;
		bytes -= (uint64_t)n;
	}
	if (n < 0)
		reply_error(reply, tool_error_from_errno(errno), "%s", tool_errno_sentence(errno));
	else if (n == 0 || fetch->left == 0)
		reply_end(reply,
			&(struct files_end){.path = text_from(fetch->path), .size = fetch->sent});
	return n <= 0 || fetch->left == 0;
}

void file_fetch_end(struct file_fetch *fetch)
{
	close_fd(&fetch->fd);
	free(TAKE_PTR(fetch->path));
}
