// SPDX-License-Identifier: Apache-2.0
/* Runs in the client, on bytes that are not trusted. Every entry is decoded and encoded again. */
#include "client/tar/archive_copy.h"

#include "client/cmd/command.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAMED_MAX 100 /* entries that are named: an archive must not fill the terminal */

static int add_archive_data(struct archive_copy *copy, const void *data, size_t len)
{
	int r = byte_queue_append(&copy->out, data, len);

	if (r < 0)
		complain("out of memory");
	return r;
}

/* Whether @path stays below the directory that it begins at, by its letters alone. */
static bool descends(const char *path)
{
	if (path[0] == '/' || path[0] == '\0')
		return false;
	while (*path) {
		size_t len = strcspn(path, "/");

		if (len == 2 && strncmp(path, "..", len) == 0)
			return false;
		path += len;
		path += strspn(path, "/");
	}
	return true;
}

static int refuse_archive_entry(const struct tar_entry *entry, const char *why)
{
	_cleanup_free_ char *shown = terminal_text(entry->path);

	complain("%s: %s", shown ? shown : "?", why);
	return -EPERM;
}

static bool is_root(const struct tar_entry *entry)
{
	return entry->type == TAR_DIRECTORY &&
	       (strcmp(entry->path, "./") == 0 || strcmp(entry->path, ".") == 0);
}

/* Counts @entry. Returns 0, or -EFBIG past a limit. */
static int count_archive_entry(struct archive_copy *copy, const struct tar_entry *entry)
{
	copy->entries += !is_root(entry);
	if (copy->entries > copy->max_entries) {
		complain("there are more than %" PRIu64 " files; raise the limit with --max-files",
			copy->max_entries);
		return -EFBIG;
	}
	if (entry->size > copy->max_bytes - copy->bytes) {
		complain("the files have more than %" PRIu64
			 " bytes; raise the limit with --max-size",
			copy->max_bytes);
		return -EFBIG;
	}
	copy->bytes += entry->size;
	return 0;
}

static int leave_out(struct archive_copy *copy, const struct tar_entry *entry)
{
	_cleanup_free_ char *shown = terminal_text(entry->path);

	copy->skipping = true;
	copy->entries--;
	if (copy->left_out++ < NAMED_MAX)
		complain("%s: a FIFO, a device or another special file; left out",
			shown ? shown : "?");
	return 0;
}

static int begin_archive_entry(void *context, const struct tar_entry *entry)
{
	static unsigned char header[TAR_HEADER_MAX];
	struct archive_copy *copy = context;
	bool link = entry->type == TAR_HARD_LINK || entry->type == TAR_SYMLINK;
	int r = count_archive_entry(copy, entry);

	copy->skipping = false;
	if (r < 0)
		return r;
	if (!descends(entry->path))
		return refuse_archive_entry(entry,
			"a name that leads out of the workspace; nothing of it is "
			"taken");
	if (entry->type == TAR_HARD_LINK && !descends(entry->link))
		return refuse_archive_entry(entry,
			"a hard link to what is outside of the workspace; nothing of "
			"the archive is taken");
	if (!link && entry->type != TAR_FILE && entry->type != TAR_DIRECTORY)
		return copy->whole ? refuse_archive_entry(entry,
					     "no regular file, directory or link; nothing "
					     "of the archive is taken")
				   : leave_out(copy, entry);
	if (is_root(entry))
		copy->root = *entry;
	copy->files += entry->type == TAR_FILE;
	copy->padding = tar_padding(entry->size);
	return add_archive_data(copy, header, tar_header(entry, header));
}

static int content(void *context, struct text data)
{
	struct archive_copy *copy = context;

	return copy->skipping ? 0 : add_archive_data(copy, data.data, data.len);
}

static int end_archive_entry(void *context)
{
	static const unsigned char zero[TAR_BLOCK];
	struct archive_copy *copy = context;

	return copy->skipping ? 0 : add_archive_data(copy, zero, copy->padding);
}

static int comment(void *context, const char *text)
{
	struct archive_copy *copy = context;

	return copy->comment ? copy->comment(copy->context, text) : 0;
}

int archive_copy_begin(struct archive_copy *copy)
{
	const struct tar_reader_owner owner = {
		begin_archive_entry, content, end_archive_entry, comment, copy};
	int r = tar_reader_new(&owner, &copy->reader);

	copy->root = (struct tar_entry){.type = TAR_DIRECTORY, .mode = 0700, .path = "./"};
	if (r < 0)
		complain("out of memory");
	return r;
}

int archive_copy_feed(struct archive_copy *copy, struct text data)
{
	int r = tar_reader_feed(copy->reader, data);

	if (r == -E2BIG)
		complain("the archive has a name that is too long");
	else if (r == -EBADMSG)
		complain("this is no tar archive, or a damaged one");
	return r;
}

int archive_copy_comment(struct archive_copy *copy, const char *text)
{
	static unsigned char blocks[TAR_HEADER_MAX];

	return add_archive_data(copy, blocks, tar_comment(text, blocks));
}

int archive_copy_root(struct archive_copy *copy)
{
	static unsigned char header[TAR_HEADER_MAX];

	return add_archive_data(copy, header, tar_header(&copy->root, header));
}

int archive_copy_end(struct archive_copy *copy)
{
	static const unsigned char zero[2 * TAR_BLOCK];

	return add_archive_data(copy, zero, sizeof(zero));
}

bool archive_copy_is_complete(const struct archive_copy *copy)
{
	return tar_reader_at_end(copy->reader);
}

void archive_copy_done(struct archive_copy *copy)
{
	tar_reader_free(TAKE_PTR(copy->reader));
	byte_queue_free(&copy->out);
}
