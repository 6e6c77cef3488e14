// SPDX-License-Identifier: Apache-2.0
#include "worker/files/git_index.h"

#include "common/array.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/files/small_file.h"

#include <endian.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>

#define HEADER_BYTES 12
#define STAT_BYTES   40 /* of an entry, before the object name */
#define SHA1_BYTES   20
#define SHA256_BYTES 32

#define FLAG_EXTENDED 0x4000
/* mask of the name's length; a longer name has the mask itself as length */
#define NAME_MASK 0x0fff

struct git_index {
	char *bytes;       /* what was read, if the index owns it */
	const char *names; /* that, or made[]: each name with a NUL */
	uint32_t *at;      /* offset of each in names, in the order of bytes */
	size_t count;
	char *made; /* of version 4, whose entries have only the ends of names */
	size_t len, size;
};

void git_index_free(struct git_index *index)
{
	if (!index)
		return;
	free(index->bytes);
	free(index->made);
	free(index->at);
	free(index);
}

static void free_index(struct git_index **index)
{
	git_index_free(*index);
}

/* The bytes still to be read. */
struct reader {
	struct text rest;
	uint32_t version;
	size_t hash_bytes;
};

/* Returns the next @len bytes, or NULL. */
static const char *take(struct reader *reader, size_t len)
{
	const char *taken = reader->rest.data;

	if (reader->rest.len < len)
		return NULL;
	reader->rest.data += len;
	reader->rest.len -= len;
	return taken;
}

static bool take_u32(struct reader *reader, uint32_t *ret)
{
	const char *bytes = take(reader, sizeof(*ret));

	if (!bytes)
		return false;
	memcpy(ret, bytes, sizeof(*ret));
	*ret = be32toh(*ret);
	return true;
}

static bool take_u16(struct reader *reader, uint16_t *ret)
{
	const char *bytes = take(reader, sizeof(*ret));

	if (!bytes)
		return false;
	memcpy(ret, bytes, sizeof(*ret));
	*ret = be16toh(*ret);
	return true;
}

/*
 * Reads a number as version 4 writes it: seven bits a byte, with an offset for each further byte.
 */
static bool take_number(struct reader *reader, size_t *ret)
{
	size_t number = 0;
	const char *byte;

	do {
		byte = take(reader, 1);
		if (!byte || number > LIMIT_PATH_BYTES)
			return false;
		number = (number << 7) + (*byte & 0x7f) + (*byte & 0x80 ? 1 : 0);
	} while (*byte & 0x80);
	*ret = number;
	return true;
}

static const char *last_name(const struct git_index *index)
{
	return index->count > 0 ? index->names + index->at[index->count - 1] : "";
}

/* Puts a name together: the first @kept bytes of the previous one, then @tail. */
static int make_name(struct git_index *index, size_t kept, struct text tail)
{
	size_t len = kept + tail.len, start = index->len;
	int r;

	if (start + len + 1 > LIMIT_GIT_INDEX_BYTES)
		return -ENOTSUP;
	r = array_reserve(&index->made, &index->size, start + len + 1, 1);
	if (r < 0)
		return r;
	index->names = index->made;
	if (kept > 0)
		memcpy(index->made + start, last_name(index), kept);
	memcpy(index->made + start + kept, tail.data, tail.len);
	index->made[start + len] = '\0';
	index->len = start + len + 1;
	return 0;
}

/* Adds the name at @start of names. */
static int add_name(struct git_index *index, size_t start, size_t len)
{
	if (len == 0 || len > LIMIT_PATH_BYTES)
		return -ENOTSUP;
	/*
	 * Names must be sorted for the binary search. The stages of a conflict have the same name.
	 */
	if (index->count > 0 && strcmp(last_name(index), index->names + start) > 0)
		return -ENOTSUP;
	index->at[index->count++] = (uint32_t)start;
	return 0;
}

/*
 * Reads the name of the entry that begins at @entry; @said is the length that it announces. Returns
 * 0 or -errno.
 */
static int read_name(struct reader *reader, struct git_index *index, const char *entry, size_t said)
{
	size_t kept = 0, dropped, used, end, start;
	struct text tail = reader->rest;
	int r;

	if (reader->version == 4) {
		if (!take_number(reader, &dropped) || dropped > strlen(last_name(index)))
			return -ENOTSUP;
		kept = strlen(last_name(index)) - dropped;
		tail = reader->rest;
	}
	tail.len = strnlen(tail.data, tail.len);
	/* One to eight NULs align the next entry; version 4 has just one. */
	used = (size_t)(tail.data - entry) + tail.len;
	end = reader->version == 4 ? used + 1 : (used + 8) & ~(size_t)7;
	if (!take(reader, tail.len + (end - used)) || tail.data[tail.len] != '\0' ||
		(said < NAME_MASK && said != kept + tail.len))
		return -ENOTSUP;
	if (reader->version < 4)
		return add_name(index, (size_t)(tail.data - index->names), tail.len);
	start = index->len;
	r = make_name(index, kept, tail);
	return r < 0 ? r : add_name(index, start, kept + tail.len);
}

static int read_entry(struct reader *reader, struct git_index *index)
{
	const char *entry = take(reader, STAT_BYTES + reader->hash_bytes);
	uint16_t flags, more;

	if (!entry || !take_u16(reader, &flags))
		return -ENOTSUP;
	if (flags & FLAG_EXTENDED && (reader->version < 3 || !take_u16(reader, &more)))
		return -ENOTSUP;
	return read_name(reader, index, entry, flags & NAME_MASK);
}

/* Like git_index_parse(), for object names of @hash_bytes. */
static int parse(struct text bytes, size_t hash_bytes, struct git_index **ret_index)
{
	_cleanup_(free_index) struct git_index *index = calloc(1, sizeof(*index));
	struct reader reader = {.rest = bytes, .hash_bytes = hash_bytes};
	const char *signature = take(&reader, 4);
	uint32_t count;

	if (!index)
		return -ENOMEM;
	if (!signature || memcmp(signature, "DIRC", 4) != 0 ||
		!take_u32(&reader, &reader.version) || reader.version < 2 || reader.version > 4 ||
		!take_u32(&reader, &count) || count > reader.rest.len / (STAT_BYTES + hash_bytes))
		return -ENOTSUP;
	index->names = bytes.data;
	index->at = reallocarray(NULL, (size_t)count + 1, sizeof(*index->at));
	if (!index->at)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		int r = read_entry(&reader, index);

		if (r < 0)
			return r;
	}
	if (reader.rest.len < hash_bytes)
		return -ENOTSUP;
	/* A split index does not hold all names: the others are in a shared index. */
	if (reader.rest.len >= 4 + hash_bytes && memcmp(reader.rest.data, "link", 4) == 0)
		return -ENOTSUP;
	*ret_index = TAKE_PTR(index);
	return 0;
}

int git_index_parse(struct text bytes, struct git_index **ret_index)
{
	int r = parse(bytes, SHA1_BYTES, ret_index);

	return r == -ENOTSUP ? parse(bytes, SHA256_BYTES, ret_index) : r;
}

int git_index_read(int git_dir, struct git_index **ret_index)
{
	_cleanup_free_ char *bytes = NULL;
	size_t len;
	int r = small_file_read(
		git_dir, "index", HEADER_BYTES, LIMIT_GIT_INDEX_BYTES, &bytes, &len);

	*ret_index = NULL;
	if (r < 0 || !bytes)
		return r;
	r = git_index_parse((struct text){bytes, len}, ret_index);
	if (r == 0)
		(*ret_index)->bytes = TAKE_PTR(bytes);
	return r == -ENOTSUP ? 0 : r;
}

/*
 * Compares @path and a slash with @name like strcmp(3), but returns 0 if @name only continues after
 * them.
 */
static int compare_below(struct text path, const char *name)
{
	size_t len = strnlen(name, path.len);
	int r = memcmp(path.data, name, len);

	if (r != 0)
		return r;
	return len < path.len ? 1 : '/' - (unsigned char)name[len];
}

static int compare_name(struct text path, const char *name)
{
	size_t len = strnlen(name, path.len);
	int r = memcmp(path.data, name, len);

	if (r != 0)
		return r;
	return len < path.len ? 1 : -(name[len] != '\0');
}

static bool find(const struct git_index *index, struct text path,
	int (*compare)(struct text path, const char *name))
{
	size_t low = 0, high = index->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int r = compare(path, index->names + index->at[middle]);

		if (r == 0)
			return true;
		if (r < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return false;
}

bool git_index_tracks(const struct git_index *index, struct text path)
{
	return path.len > 0 &&
	       (find(index, path, compare_name) || find(index, path, compare_below));
}
