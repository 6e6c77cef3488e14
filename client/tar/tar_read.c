// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the client, on bytes from a hostile workspace. Every length is checked before it is used.
 * The reader keeps at most one header and one extended header in memory.
 */
#include "client/tar/tar.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX (UINT64_C(1) << 62)

enum state {
	IN_HEADER,
	IN_EXTENDED, /* content of an extended header, or of GNU's long name */
	IN_CONTENT,
	AT_END, /* further bytes are ignored */
};

/* Values that extended headers gave for the next entry. */
struct extended {
	bool has_path, has_link, has_size, has_mtime;
	uint64_t size;
	struct timespec mtime;
	char path[PATH_MAX], link[PATH_MAX];
};

struct tar_reader {
	struct tar_reader_owner owner;
	enum state state;
	unsigned char block[TAR_BLOCK];
	size_t filled;  /* bytes in block */
	uint64_t left;  /* bytes of the content still to come */
	size_t padding; /* bytes after the content */
	char extended_type;
	char meta[LIMIT_TAR_EXTENDED_BYTES + 1];
	size_t meta_len;
	/* an extended header for the whole archive, which is not needed and too long to keep */
	bool meta_skipped;
	struct extended extended;
	struct tar_entry entry;
};

int tar_reader_new(const struct tar_reader_owner *owner, struct tar_reader **ret_reader)
{
	struct tar_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return -ENOMEM;
	reader->owner = *owner;
	*ret_reader = reader;
	return 0;
}

void tar_reader_free(struct tar_reader *reader)
{
	free(reader);
}

bool tar_reader_at_end(const struct tar_reader *reader)
{
	return reader->state == AT_END;
}

/* Reads a number in octal, or in GNU's form for large ones: big-endian after 0x80. */
static int get_number(const unsigned char *field, size_t size, uint64_t *ret)
{
	uint64_t value = 0;
	size_t i = 0;

	if (field[0] == 0x80) {
		for (i = 1; i < size; i++) {
			if (value > NUMBER_MAX >> 8)
				return -EBADMSG;
			value = value << 8 | field[i];
		}
		*ret = value;
		return 0;
	}
	while (i < size && field[i] == ' ')
		i++;
	for (; i < size && field[i] >= '0' && field[i] <= '7'; i++)
		value = value << 3 | (uint64_t)(field[i] - '0');
	if (i < size && field[i] != ' ' && field[i] != '\0')
		return -EBADMSG;
	*ret = value;
	return 0;
}

static bool checksum_is_right(const unsigned char *block)
{
	uint64_t wanted;
	unsigned sum = 0;

	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += i >= 148 && i < 156 ? ' ' : block[i];
	return get_number(block + 148, 8, &wanted) == 0 && wanted == sum;
}

static bool is_zero(const unsigned char *block)
{
	return block[0] == 0 && memcmp(block, block + 1, TAR_BLOCK - 1) == 0;
}

/* Copies text of at most @size bytes, up to a NUL. Returns 0 or -E2BIG. */
static int copy_name(char ret[PATH_MAX], const void *text, size_t size)
{
	size_t len = strnlen(text, size);

	if (len >= PATH_MAX)
		return -E2BIG;
	memcpy(ret, text, len);
	ret[len] = '\0';
	return 0;
}

/* Reads a decimal in a pax record. */
static int get_decimal(const char *text, uint64_t *ret)
{
	uint64_t value = 0;

	if (*text < '0' || *text > '9')
		return -EBADMSG;
	for (; *text >= '0' && *text <= '9'; text++) {
		if (value > NUMBER_MAX / 10)
			return -EBADMSG;
		value = value * 10 + (uint64_t)(*text - '0');
	}
	*ret = value;
	return 0;
}

/* Reads a time such as "1700000000.123", which may be negative. */
static int get_time(const char *text, struct timespec *ret)
{
	bool negative = *text == '-';
	const char *fraction;
	uint64_t seconds;
	long nanoseconds = 0;

	if (get_decimal(text + negative, &seconds) < 0 || seconds > INT64_MAX / 2)
		return -EBADMSG;
	fraction = strchr(text, '.');
	for (long unit = 100000000; fraction && unit > 0; unit /= 10) {
		fraction++;
		if (*fraction < '0' || *fraction > '9')
			break;
		nanoseconds += unit * (*fraction - '0');
	}
	*ret = (struct timespec){(time_t)seconds, nanoseconds};
	if (!negative)
		return 0;
	ret->tv_sec = -(time_t)seconds - (nanoseconds > 0);
	ret->tv_nsec = nanoseconds > 0 ? 1000000000L - nanoseconds : 0;
	return 0;
}

/* Takes one NUL-terminated "KEY=VALUE". The value may hold NULs, which no name may. */
static int take_record(struct tar_reader *reader, const char *key, const char *value, size_t len)
{
	struct extended *extended = &reader->extended;

	if (strcmp(key, "path") == 0 || strcmp(key, "linkpath") == 0) {
		bool is_path = key[0] == 'p';

		if (memchr(value, '\0', len))
			return -EBADMSG;
		*(is_path ? &extended->has_path : &extended->has_link) = true;
		return copy_name(is_path ? extended->path : extended->link, value, len) < 0
			       ? -EBADMSG
			       : 0;
	}
	if (strcmp(key, "size") == 0) {
		extended->has_size = true;
		return get_decimal(value, &extended->size);
	}
	if (strcmp(key, "mtime") == 0) {
		extended->has_mtime = true;
		return get_time(value, &extended->mtime);
	}
	/* The archived content of a sparse file differs from the file's. */
	return strncmp(key, "GNU.sparse.", 11) == 0 ? -EBADMSG : 0;
}

/* Takes a record about the whole archive. */
static int take_comment(struct tar_reader *reader, const char *key, const char *value, size_t len)
{
	if (strcmp(key, "comment") != 0 || memchr(value, '\0', len))
		return 0;
	return reader->owner.comment(reader->owner.context, value);
}

/* Calls @take for each record in @text, which it changes. */
static int take_records(struct tar_reader *reader, char *text, size_t size,
	int (*take)(struct tar_reader *reader, const char *key, const char *value, size_t len))
{
	while (size > 0) {
		char *equals, *end;
		uint64_t len;
		size_t head;
		int r;

		if (get_decimal(text, &len) < 0 || len > size || len < 5 || text[len - 1] != '\n')
			return -EBADMSG;
		head = strspn(text, "0123456789");
		end = text + len - 1;
		*end = '\0';
		equals = text[head] == ' ' ? memchr(text + head, '=', len - head) : NULL;
		if (!equals)
			return -EBADMSG;
		*equals = '\0';
		r = take(reader, text + head + 1, equals + 1, (size_t)(end - equals - 1));
		if (r < 0)
			return r;
		text += len;
		size -= len;
	}
	return 0;
}

static int end_extended(struct tar_reader *reader)
{
	struct extended *extended = &reader->extended;

	reader->state = IN_HEADER;
	reader->meta[reader->meta_len] = '\0';
	switch (reader->extended_type) {
	case 'x':
		return take_records(reader, reader->meta, reader->meta_len, take_record);
	case 'L':
		extended->has_path = true;
		return copy_name(extended->path, reader->meta, reader->meta_len);
	case 'K':
		extended->has_link = true;
		return copy_name(extended->link, reader->meta, reader->meta_len);
	default: /* 'g', for the whole archive: nothing else in it is needed */
		return reader->owner.comment && !reader->meta_skipped
			       ? take_records(reader, reader->meta, reader->meta_len, take_comment)
			       : 0;
	}
}

/* Takes the ustar name and prefix, or the name in an extended header. */
static int take_names(struct tar_reader *reader)
{
	const unsigned char *block = reader->block;
	struct tar_entry *entry = &reader->entry;
	size_t prefix =
		memcmp(block + 257, "ustar\0", 6) == 0 ? strnlen((char *)block + 345, 155) : 0;
	size_t name = strnlen((const char *)block, 100);

	if (reader->extended.has_path) {
		memcpy(entry->path, reader->extended.path, strlen(reader->extended.path) + 1);
	} else {
		memcpy(entry->path, block + 345, prefix);
		if (prefix > 0)
			entry->path[prefix++] = '/';
		memcpy(entry->path + prefix, block, name);
		entry->path[prefix + name] = '\0';
	}
	if (reader->extended.has_link)
		memcpy(entry->link, reader->extended.link, strlen(reader->extended.link) + 1);
	else
		(void)copy_name(entry->link, block + 157, 100);
	return 0;
}

/*
 * Links, devices, directories and FIFOs have no content. Readers of archives differ in what they
 * make of one whose header gives a size: some skip that many bytes, others take them for headers.
 */
static bool has_content(char type)
{
	return type < TAR_HARD_LINK || type > '6';
}

static int begin_entry(struct tar_reader *reader, uint64_t size)
{
	struct tar_entry *entry = &reader->entry;
	uint64_t mode, mtime;
	int r;

	if (get_number(reader->block + 100, 8, &mode) < 0)
		return -EBADMSG;
	/* A time before 1970 is negative, and only an extended header can hold it. */
	if (get_number(reader->block + 136, 12, &mtime) < 0)
		mtime = 0;
	take_names(reader);
	entry->type = reader->block[156] == '\0' || reader->block[156] == '7'
			      ? TAR_FILE
			      : (char)reader->block[156];
	/* Old archives mark a directory by a trailing slash only. */
	if (entry->type == TAR_FILE && entry->path[0] != '\0' &&
		entry->path[strlen(entry->path) - 1] == '/')
		entry->type = TAR_DIRECTORY;
	if (size > 0 && !has_content(entry->type))
		return -EBADMSG;
	entry->mode = (mode_t)mode;
	entry->size = size;
	entry->mtime = reader->extended.has_mtime ? reader->extended.mtime
						  : (struct timespec){(time_t)mtime, 0};
	reader->extended.has_path = reader->extended.has_link = false;
	reader->extended.has_size = reader->extended.has_mtime = false;
	r = reader->owner.begin(reader->owner.context, entry);
	if (r < 0)
		return r;
	reader->state = IN_CONTENT;
	return size == 0 ? reader->owner.end(reader->owner.context) : 0;
}

static int take_header(struct tar_reader *reader)
{
	const unsigned char *block = reader->block;
	uint64_t size;

	reader->filled = 0;
	if (is_zero(block)) {
		reader->state = AT_END;
		return 0;
	}
	if (!checksum_is_right(block) || get_number(block + 124, 12, &size) < 0)
		return -EBADMSG;
	if (memchr("xgLK", block[156], 4)) {
		reader->extended_type = (char)block[156];
		reader->meta_len = 0;
		/* A header for the whole archive may be longer than the buffer: it is skipped. */
		reader->meta_skipped = size > LIMIT_TAR_EXTENDED_BYTES;
		if (reader->meta_skipped && block[156] != 'g')
			return -E2BIG;
		reader->state = IN_EXTENDED;
	} else if (reader->extended.has_size) {
		size = reader->extended.size;
	}
	reader->left = size;
	reader->padding = tar_padding(size);
	if (reader->state == IN_EXTENDED)
		return size == 0 ? end_extended(reader) : 0;
	return begin_entry(reader, size);
}

/* Takes the part of @part that belongs to the content, and handles the content's end. */
static int take_content(struct tar_reader *reader, struct text part)
{
	bool is_extended = reader->state == IN_EXTENDED;
	int r = 0;

	if (!is_extended) {
		r = reader->owner.content(reader->owner.context, part);
	} else if (!reader->meta_skipped) {
		memcpy(reader->meta + reader->meta_len, part.data, part.len);
		reader->meta_len += part.len;
	}
	reader->left -= part.len;
	if (r < 0 || reader->left > 0)
		return r;
	return is_extended ? end_extended(reader) : reader->owner.end(reader->owner.context);
}

int tar_reader_feed(struct tar_reader *reader, struct text data)
{
	int r = 0;

	while (r == 0 && data.len > 0 && reader->state != AT_END) {
		size_t n;

		if (reader->left > 0) {
			n = data.len < reader->left ? data.len : (size_t)reader->left;
			r = take_content(reader, (struct text){data.data, n});
		} else if (reader->padding > 0) {
			n = data.len < reader->padding ? data.len : reader->padding;
			reader->padding -= n;
			/* the next block is a header */
		} else {
			reader->state = IN_HEADER;
			n = TAR_BLOCK - reader->filled;
			n = data.len < n ? data.len : n;
			memcpy(reader->block + reader->filled, data.data, n);
			reader->filled += n;
			if (reader->filled == TAR_BLOCK)
				r = take_header(reader);
		}
		data.data += n;
		data.len -= n;
	}
	return r;
}
