// SPDX-License-Identifier: Apache-2.0
/* Runs in the files process. The tenant may rename or write anything meanwhile. */
#include "worker/files/file_write_set.h"

#include "common/cleanup.h"
#include "worker/files/file_attributes.h"
#include "worker/files/file_exchange.h"
#include "worker/files/file_settle.h"
#include "worker/files/file_write_state.h"

enum tool_error file_write_prepare(struct file_write *staged, bool absent, int parent,
	const char *name, const struct stat *like)
{
	struct stat old;
	int r = 0;

	if (staged->error != TOOL_OK)
		return staged->error;
	file_write_fail_place(staged, file_write_examine(&staged->place, &old));
	if (staged->error == TOOL_OK && absent && old.st_mode != 0)
		file_write_fail(staged, TOOL_STALE_FILE,
			"the file exists; change it by \"*** Update File\", or give another path");
	if (staged->error != TOOL_OK)
		return staged->error;
	if (like && old.st_mode == 0)
		r = file_attributes_keep(staged->fd, parent, name, like);
	if (r == 0)
		r = file_write_ready(staged, &old);
	if (r == 0 && old.st_mode != 0)
		r = file_write_name(staged);
	if (r < 0)
		file_write_fail_errno(staged, -r);
	staged->prepared = true;
	staged->durable = false; /* the directory is written by file_write_sync() */
	return staged->error;
}

/* Where files cannot exchange their names the old content is written anew. */
static int write_old(const struct file_write *staged, struct text content)
{
	const struct files_write request = {
		.path = {staged->path, staged->path_len}, .size = staged->old_content.len};
	struct file_write *again;
	enum tool_error error;

	if (file_write_begin(staged->root, &request, staged->call, &again) < 0)
		return -ENOMEM;
	file_write_expect(again, staged->fd, content);
	file_write_append(again, staged->old_content.data, staged->old_content.len);
	error = file_write_publish(again);
	file_write_free(again);
	if (error == TOOL_OK)
		return 0;
	return error == TOOL_STALE_FILE ? -ERROR_CHANGED : -EIO;
}

int file_write_revert(struct file_write *staged, struct text content)
{
	const struct file_take take = {.call = staged->call,
		.parent = staged->place.parent,
		.marks = staged->marks,
		.temporary = staged->temporary,
		.name = staged->place.name,
		.fd = staged->fd,
		.content = content};
	const struct file_exchange back = {.call = staged->call,
		.parent = staged->place.parent,
		.marks = staged->marks,
		.temporary = staged->temporary,
		.name = staged->place.name,
		.new_fd = staged->old_fd,
		.old_fd = staged->fd,
		.old_content = content};
	bool left = false;
	int r;

	if (staged->created) {
		r = file_take(&take);
		left = r == 0;
	} else if (staged->named) {
		r = file_exchange(&back, &left);
		left |= r < 0;
	} else {
		r = write_old(staged, content);
	}
	staged->named = left;
	staged->published = r < 0;
	return r;
}

int file_write_sync(const struct file_write *staged)
{
	return file_settle_directory(staged->place.parent);
}
