/* links: cloister-tar */
// SPDX-License-Identifier: Apache-2.0
/*
 * An archive of any bytes from a hostile workspace. Cutting it into other pieces changes nothing;
 * entries begin and end in turn, and each has as much content as its size says; names end within
 * their arrays.
 *
 * Input: one byte for the length of the pieces, then the archive. If that byte is odd, blocks that
 * say "ustar" get the right checksum, because most mutations would not get past it.
 */
#include "client/tar.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tar_checksums.h"

#include <errno.h>
#include <string.h>

/* A hash of everything that the reader has reported. */
struct told {
	uint64_t hash, left;
	bool in_entry;
	size_t entries;
};

static void add(struct told *told, const void *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		told->hash = (told->hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3;
}

static int on_begin(void *context, const struct tar_entry *entry)
{
	struct told *told = context;
	const int64_t numbers[] = {entry->type, entry->mode, (int64_t)entry->size,
		entry->mtime.tv_sec, entry->mtime.tv_nsec};

	CHECK(!told->in_entry);
	CHECK(memchr(entry->path, '\0', sizeof(entry->path)));
	CHECK(memchr(entry->link, '\0', sizeof(entry->link)));
	CHECK(entry->mtime.tv_nsec >= 0 && entry->mtime.tv_nsec < 1000000000);
	add(told, numbers, sizeof(numbers));
	add(told, entry->path, strlen(entry->path) + 1);
	add(told, entry->link, strlen(entry->link) + 1);
	told->in_entry = true;
	told->left = entry->size;
	told->entries++;
	return 0;
}

static int on_content(void *context, struct text data)
{
	struct told *told = context;

	CHECK(told->in_entry && data.len > 0 && data.len <= told->left);
	add(told, data.data, data.len);
	told->left -= data.len;
	return 0;
}

static int on_end(void *context)
{
	struct told *told = context;

	CHECK(told->in_entry && told->left == 0);
	told->in_entry = false;
	add(told, "end", 3);
	return 0;
}

static int on_comment(void *context, const char *comment)
{
	struct told *told = context;

	CHECK(!told->in_entry);
	add(told, comment, strlen(comment));
	return 0;
}

static struct told read_all(struct text archive, size_t piece)
{
	struct told told = {.hash = 0xcbf29ce484222325};
	struct tar_reader_owner owner = {on_begin, on_content, on_end, on_comment, &told};
	struct tar_reader *reader;
	int64_t end[2] = {0};
	int r = tar_reader_new(&owner, &reader);

	CHECK(r == 0);
	while (r == 0 && archive.len > 0) {
		size_t len = archive.len < piece ? archive.len : piece;

		r = tar_reader_feed(reader, (struct text){archive.data, len});
		archive.data += len;
		archive.len -= len;
	}
	CHECK(r == 0 || r == -EBADMSG || r == -E2BIG);
	end[0] = r;
	end[1] = r == 0 && tar_reader_at_end(reader);
	CHECK(!end[1] || !told.in_entry);
	add(&told, end, sizeof(end));
	tar_reader_free(reader);
	return told;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text rest = fuzz_text(data, size);
	uint8_t how = fuzz_byte(&rest);
	char *archive = malloc(rest.len + 1);
	struct told in_pieces, whole;

	CHECK(archive);
	memcpy(archive, rest.data, rest.len);
	if (how & 1)
		set_checksums(archive, rest.len);
	in_pieces = read_all((struct text){archive, rest.len}, 1 + how);
	whole = read_all((struct text){archive, rest.len}, SIZE_MAX);
	CHECK(in_pieces.entries == whole.entries && in_pieces.hash == whole.hash);
	free(archive);
	return 0;
}
