// SPDX-License-Identifier: Apache-2.0
/* copy_archive: writes the archive on stdin to stdout as `cloister export` passes it on.
 * copy_archive list: prints what the client's reader finds in it, an entry a line. */
#include "client/tar/archive_copy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int on_begin(void *context, const struct tar_entry *entry)
{
	(void)context;
	printf("%c %" PRIu64 " %s %s\n", entry->type, entry->size, entry->path,
		entry->type == TAR_HARD_LINK || entry->type == TAR_SYMLINK ? entry->link : "");
	return 0;
}

static int on_content(void *context, struct text data)
{
	(void)context;
	(void)data;
	return 0;
}

static int on_end(void *context)
{
	(void)context;
	return 0;
}

static int list(struct text archive)
{
	const struct tar_reader_owner owner = {on_begin, on_content, on_end, NULL, NULL};
	struct tar_reader *reader;
	int r = tar_reader_new(&owner, &reader);

	if (r == 0)
		r = tar_reader_feed(reader, archive);
	return r == 0 && tar_reader_at_end(reader) ? 0 : 1;
}

static int copy(struct text archive)
{
	struct archive_copy copy = {.max_bytes = UINT64_MAX, .max_entries = UINT64_MAX};
	struct text out;

	if (archive_copy_begin(&copy) < 0 || archive_copy_feed(&copy, archive) < 0 ||
		!archive_copy_is_complete(&copy) || archive_copy_end(&copy) < 0)
		return 1;
	out = byte_queue_peek(&copy.out);
	return fwrite(out.data, 1, out.len, stdout) == out.len && fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	static char bytes[1 << 20];
	struct text archive = {bytes, fread(bytes, 1, sizeof(bytes), stdin)};

	return argc > 1 && strcmp(argv[1], "list") == 0 ? list(archive) : copy(archive);
}
