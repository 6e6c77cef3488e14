/* links: cloister-tar */
// SPDX-License-Identifier: Apache-2.0
/*
 * An archive of any bytes from a hostile workspace. Cutting it into other pieces changes nothing;
 * entries begin and end in turn, and each has as much content as its size says; names end within
 * their arrays. What export makes of it has the same headers for a reader that knows nothing of
 * types, and takes every size for one of content.
 *
 * Input: one byte for the length of the pieces, then the archive. If that byte is odd, blocks that
 * say "ustar" get the right checksum, because most mutations would not get past it.
 */
#include "client/complain.h"
#include "client/tar/archive_copy.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tar_checksums.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void complain(const char *format, ...)
{
	(void)format;
}

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

/* Walks through @archive, which export has written. Returns the number of its entries. */
static size_t walk(struct text archive)
{
	static const char zero[TAR_BLOCK];
	size_t entries = 0, steps;

	for (; archive.len >= TAR_BLOCK; archive.data += steps, archive.len -= steps) {
		const char *block = archive.data;
		char type = block[156];
		uint64_t size = strtoull(block + 124, NULL, 8);

		if (memcmp(block, zero, TAR_BLOCK) == 0)
			break;
		CHECK(memcmp(block + 257, "ustar\00000", 8) == 0 && strchr("x0125", type));
		CHECK(size == 0 || type == 'x' || type == TAR_FILE);
		CHECK(block[0] != '/' || type == 'x');
		entries += type != 'x';
		steps = TAR_BLOCK + (size_t)size + tar_padding(size);
		CHECK(steps <= archive.len);
	}
	CHECK(archive.len == (size_t)2 * TAR_BLOCK);
	return entries;
}

static void check_copy(struct text archive)
{
	struct archive_copy copy = {.max_bytes = UINT32_MAX, .max_entries = UINT32_MAX};
	struct text out;

	CHECK(archive_copy_begin(&copy) == 0);
	if (archive_copy_feed(&copy, archive) == 0 && archive_copy_is_complete(&copy)) {
		CHECK(archive_copy_end(&copy) == 0);
		out = byte_queue_peek(&copy.out);
		CHECK(walk(out) == read_all(out, SIZE_MAX).entries);
	}
	archive_copy_done(&copy);
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
	check_copy((struct text){archive, rest.len});
	free(archive);
	return 0;
}
