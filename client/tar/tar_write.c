// SPDX-License-Identifier: Apache-2.0
/* Runs in the client. */
#include "client/tar/tar.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Offsets and lengths of the header's fields, pax(1). */
enum {
	AT_NAME = 0,
	NAME_SIZE = 100,
	AT_MODE = 100,
	AT_UID = 108,
	AT_GID = 116,
	AT_SIZE = 124,
	AT_MTIME = 136,
	AT_CHECKSUM = 148,
	AT_TYPE = 156,
	AT_LINK = 157,
	AT_MAGIC = 257,
};

#define SIZE_MAX_OCTAL UINT64_C(077777777777)

static void put_octal(unsigned char *block, size_t at, int digits, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%0*" PRIo64, digits, value);
	memcpy(block + at, text, (size_t)digits + 1);
}

static void put_block(unsigned char *block, const struct tar_entry *entry, char type, uint64_t size)
{
	unsigned sum = 0;
	char text[8];

	memset(block, 0, TAR_BLOCK);
	memcpy(block + AT_NAME, entry->path, strnlen(entry->path, NAME_SIZE));
	memcpy(block + AT_LINK, entry->link, strnlen(entry->link, NAME_SIZE));
	put_octal(block, AT_MODE, 7, entry->mode & 0777);
	put_octal(block, AT_UID, 7, 0);
	put_octal(block, AT_GID, 7, 0);
	put_octal(block, AT_SIZE, 11, size <= SIZE_MAX_OCTAL ? size : 0);
	put_octal(block, AT_MTIME, 11,
		entry->mtime.tv_sec > 0 && (uint64_t)entry->mtime.tv_sec <= SIZE_MAX_OCTAL
			? (uint64_t)entry->mtime.tv_sec
			: 0);
	block[AT_TYPE] = (unsigned char)type;
	memcpy(block + AT_MAGIC, "ustar\00000", 8);
	memset(block + AT_CHECKSUM, ' ', 8);
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += block[i];
	snprintf(text, sizeof(text), "%06o", sum);
	memcpy(block + AT_CHECKSUM, text, 7);
}

/* Writes "LENGTH KEY=VALUE\n", where LENGTH counts itself too. Returns the length. */
static size_t put_record(unsigned char *out, const char *key, const char *value)
{
	size_t rest = strlen(key) + strlen(value) + 3, len = rest + 1;
	char number[24];

	while (rest + (size_t)snprintf(number, sizeof(number), "%zu", len) != len)
		len++;
	return (size_t)sprintf((char *)out, "%zu %s=%s\n", len, key, value);
}

size_t tar_comment(const char *comment, unsigned char *buffer)
{
	const struct tar_entry extended = {.mode = 0600, .path = "./pax"};
	size_t len = put_record(buffer + TAR_BLOCK, "comment", comment);

	put_block(buffer, &extended, 'g', len);
	memset(buffer + TAR_BLOCK + len, 0, tar_padding(len));
	return TAR_BLOCK + len + tar_padding(len);
}

size_t tar_header(const struct tar_entry *entry, unsigned char *buffer)
{
	unsigned char *records = buffer + TAR_BLOCK;
	struct tar_entry extended = {.mode = 0600, .path = "./pax"};
	char number[48];
	size_t len = 0;

	if (strlen(entry->path) > NAME_SIZE)
		len += put_record(records + len, "path", entry->path);
	if (strlen(entry->link) > NAME_SIZE)
		len += put_record(records + len, "linkpath", entry->link);
	if (entry->size > SIZE_MAX_OCTAL) {
		snprintf(number, sizeof(number), "%" PRIu64, entry->size);
		len += put_record(records + len, "size", number);
	}
	if (entry->mtime.tv_nsec != 0 || entry->mtime.tv_sec < 0) {
		/*
		 * tv_sec is rounded down and tv_nsec counts up from it: -0.5 is -1 s and 500000000
		 * ns.
		 */
		bool below = entry->mtime.tv_sec < 0 && entry->mtime.tv_nsec > 0;
		int64_t seconds = (int64_t)entry->mtime.tv_sec + below;
		long nanoseconds =
			below ? 1000000000L - entry->mtime.tv_nsec : entry->mtime.tv_nsec;

		snprintf(number, sizeof(number), "%s%" PRId64 ".%09ld",
			below && seconds == 0 ? "-" : "", seconds, nanoseconds);
		len += put_record(records + len, "mtime", number);
	}
	if (len == 0) {
		put_block(buffer, entry, entry->type, entry->size);
		return TAR_BLOCK;
	}
	put_block(buffer, &extended, 'x', len);
	memset(records + len, 0, tar_padding(len));
	len += tar_padding(len);
	put_block(records + len, entry, entry->type, entry->size);
	return TAR_BLOCK + len + TAR_BLOCK;
}
