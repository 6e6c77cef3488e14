// SPDX-License-Identifier: Apache-2.0
#include "worker/files/walk/git_index.h"

#include "common/array.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/files/walk/small_file.h"

#include <endian.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>

#define HEADER_BYTES 12
#define STAT_BYTES   40 /* of an entry, before the object name */
#define SHA1_BYTES   20
#define SHA256_BYTES 32
/* The longest entry that is accepted: two words of flags, the name, and what aligns the next. */
#define ENTRY_BYTES (STAT_BYTES + SHA256_BYTES + 4 + LIMIT_PATH_BYTES + 8)

#define FLAG_EXTENDED 0x4000
/* mask of the name's length; a longer name has the mask itself as length */
#define NAME_MASK 0x0fff

struct git_index {
	int fd;            /* what has not been read yet, or -1 */
	char *bytes;       /* room for the whole file */
	size_t size, have; /* of the file, and what has been read of it */
	size_t parsed;     /* up to the end of an entry */
	uint32_t version;
	size_t hash_bytes;
	size_t entries;    /* that the header announces */
	bool over;         /* there is no further entry, or none that can be read */
	const char *names; /* bytes, or made: each name with a NUL */
	uint32_t *at;      /* offset of each in names, in the order of bytes */
	size_t count;
	char *made; /* of version 4, whose entries have only the ends of names */
	size_t made_len, made_size;
};

void git_index_free(struct git_index *index)
{
	if (!index)
		return;
	close_fd(&index->fd);
	free(index->bytes);
	free(index->made);
	free(index->at);
	free(index);
}

static void free_index(struct git_index **index)
{
	git_index_free(*index);
}

/* Returns the next @len bytes of @rest, what is still to be parsed, or NULL. */
static const char *take_index_bytes(struct text *rest, size_t len)
{
	const char *taken = rest->data;

	if (rest->len < len)
		return NULL;
	rest->data += len;
	rest->len -= len;
	return taken;
}

static bool take_u32(struct text *rest, uint32_t *ret)
{
	const char *bytes = take_index_bytes(rest, sizeof(*ret));

	if (!bytes)
		return false;
	memcpy(ret, bytes, sizeof(*ret));
	*ret = be32toh(*ret);
	return true;
}

static bool take_u16(struct text *rest, uint16_t *ret)
{
	const char *bytes = take_index_bytes(rest, sizeof(*ret));

	if (!bytes)
		return false;
	memcpy(ret, bytes, sizeof(*ret));
	*ret = be16toh(*ret);
	return true;
}

/*
 * Reads a number as version 4 writes it: seven bits a byte, with an offset for each further byte.
 */
static bool take_git_index_number(struct text *rest, size_t *ret)
{
	size_t number = 0;
	const char *byte;

	do {
		byte = take_index_bytes(rest, 1);
		if (!byte || number > LIMIT_PATH_BYTES)
			return false;
		number = (number << 7) + (*byte & 0x7f) + (*byte & 0x80 ? 1 : 0);
	} while (*byte & 0x80);
	*ret = number;
	return true;
}

static const char *last_index_name(const struct git_index *index)
{
	return index->count > 0 ? index->names + index->at[index->count - 1] : "";
}

/* Puts a name together: the first @kept bytes of the previous one, then @tail. */
static int make_name(struct git_index *index, size_t kept, struct text tail)
{
	size_t len = kept + tail.len, start = index->made_len;
	int r;

	if (start + len + 1 > LIMIT_GIT_INDEX_BYTES)
		return -ENOTSUP;
	r = array_reserve(&index->made, &index->made_size, start + len + 1, 1);
	if (r < 0)
		return r;
	index->names = index->made;
	if (kept > 0)
		memcpy(index->made + start, last_index_name(index), kept);
	memcpy(index->made + start + kept, tail.data, tail.len);
	index->made[start + len] = '\0';
	index->made_len = start + len + 1;
	return 0;
}

/* Adds the name at @start of names. */
static int add_git_index_name(struct git_index *index, size_t start, size_t len)
{
	if (len == 0 || len > LIMIT_PATH_BYTES)
		return -ENOTSUP;
	/*
	 * Names must be sorted for the binary search. The stages of a conflict have the same name.
	 */
	if (index->count > 0 && strcmp(last_index_name(index), index->names + start) > 0)
		return -ENOTSUP;
	index->at[index->count++] = (uint32_t)start;
	return 0;
}

/*
 * Reads the name of the entry that begins at @entry; @said is the length that it announces. Returns
 * 0 or -errno.
 */
static int read_index_name(
	struct text *rest, struct git_index *index, const char *entry, size_t said)
{
	size_t kept = 0, dropped, used, end, start;
	struct text tail = *rest;
	int r;

	if (index->version == 4) {
		if (!take_git_index_number(rest, &dropped) ||
			dropped > strlen(last_index_name(index)))
			return -ENOTSUP;
		kept = strlen(last_index_name(index)) - dropped;
		tail = *rest;
	}
	tail.len = strnlen(tail.data, tail.len);
	/* One to eight NULs align the next entry; version 4 has just one. */
	used = (size_t)(tail.data - entry) + tail.len;
	end = index->version == 4 ? used + 1 : (used + 8) & ~(size_t)7;
	if (!take_index_bytes(rest, tail.len + (end - used)) || tail.data[tail.len] != '\0' ||
		(said < NAME_MASK && said != kept + tail.len))
		return -ENOTSUP;
	if (index->version < 4)
		return add_git_index_name(index, (size_t)(tail.data - index->names), tail.len);
	start = index->made_len;
	r = make_name(index, kept, tail);
	return r < 0 ? r : add_git_index_name(index, start, kept + tail.len);
}

static int read_entry(struct text *rest, struct git_index *index)
{
	const char *entry = take_index_bytes(rest, STAT_BYTES + index->hash_bytes);
	uint16_t flags, more;

	if (!entry || !take_u16(rest, &flags))
		return -ENOTSUP;
	if (flags & FLAG_EXTENDED && (index->version < 3 || !take_u16(rest, &more)))
		return -ENOTSUP;
	return read_index_name(rest, index, entry, flags & NAME_MASK);
}

/* A split index does not hold all names: the others are in a shared index. */
static bool ends_as_it_should(const struct git_index *index)
{
	const size_t rest = index->size - index->parsed;
	const char *next = index->bytes + index->parsed;

	return rest >= index->hash_bytes &&
	       !(index->have - index->parsed >= 4 && rest >= 4 + index->hash_bytes &&
		       memcmp(next, "link", 4) == 0);
}

/* Parses the entries that are read whole. Returns 0 or -errno; -ENOTSUP is a fault. */
static int parse_index_entries(struct git_index *index)
{
	while (index->count < index->entries &&
		(index->have == index->size || index->have - index->parsed >= ENTRY_BYTES)) {
		struct text rest = {index->bytes + index->parsed, index->have - index->parsed};
		int r = read_entry(&rest, index);

		if (r < 0)
			return r;
		index->parsed = index->have - rest.len;
	}
	if (index->count < index->entries)
		return 0;
	index->over = true;
	return ends_as_it_should(index) ? 0 : -ENOTSUP;
}

static void read_piece(struct git_index *index)
{
	const size_t left = index->size - index->have;
	const size_t wanted = left < LIMIT_GIT_INDEX_PIECE ? left : LIMIT_GIT_INDEX_PIECE;
	const size_t n = small_file_next(index->fd, index->bytes + index->have, wanted);

	index->have += n;
	if (n < wanted) /* it is cut off, or ends */
		index->size = index->have;
	if (index->have == index->size)
		close_fd(&index->fd);
}

/* Parses the beginning, with object names of @hash_bytes. Returns 0 or -errno. */
static int begin_git_index(struct git_index *index, size_t hash_bytes)
{
	struct text rest = {index->bytes, index->have};
	const char *signature = take_index_bytes(&rest, 4);
	uint32_t entries;

	if (!signature || memcmp(signature, "DIRC", 4) != 0 || !take_u32(&rest, &index->version) ||
		index->version < 2 || index->version > 4 || !take_u32(&rest, &entries) ||
		entries > index->size / (STAT_BYTES + hash_bytes))
		return -ENOTSUP;
	free(index->at);
	index->at = reallocarray(NULL, (size_t)entries + 1, sizeof(*index->at));
	if (!index->at)
		return -ENOMEM;
	index->names = index->bytes;
	index->hash_bytes = hash_bytes;
	index->entries = entries;
	index->parsed = HEADER_BYTES;
	index->count = index->made_len = 0;
	index->over = false;
	return parse_index_entries(index);
}

int git_index_from(int fd, size_t size, struct git_index **ret_index)
{
	_cleanup_(free_index) struct git_index *index = calloc(1, sizeof(*index));
	int r;

	*ret_index = NULL;
	if (!index) {
		close_fd(&fd);
		return -ENOMEM;
	}
	index->fd = fd;
	index->size = size;
	index->bytes = malloc(size + 1);
	if (!index->bytes)
		return -ENOMEM;
	read_piece(index);
	/* The length of object names is told nowhere: it is the one by which entries make sense. */
	r = begin_git_index(index, SHA1_BYTES);
	if (r == -ENOTSUP)
		r = begin_git_index(index, SHA256_BYTES);
	if (r == 0)
		*ret_index = TAKE_PTR(index);
	return r == -ENOTSUP ? 0 : r;
}

int git_index_open(int git_dir, struct git_index **ret_index)
{
	size_t size;
	int fd = small_file_open(git_dir, "index", HEADER_BYTES, LIMIT_GIT_INDEX_BYTES, &size);

	*ret_index = NULL;
	return fd < 0 ? 0 : git_index_from(fd, size, ret_index);
}

/*
 * Compares @path and a slash with @name like strcmp(3), but returns 0 if @name only continues after
 * them. A name that ends there is a directory of a sparse index: none of its files was in the tree
 * when git wrote the index.
 */
static int compare_below(struct text path, const char *name)
{
	size_t len = strnlen(name, path.len);
	int r = memcmp(path.data, name, len);

	if (r != 0)
		return r;
	if (len < path.len)
		return 1;
	return name[len] == '/' ? name[len + 1] == '\0' : '/' - (unsigned char)name[len];
}

static int compare_name(struct text path, const char *name)
{
	size_t len = strnlen(name, path.len);
	int r = memcmp(path.data, name, len);

	if (r != 0)
		return r;
	return len < path.len ? 1 : -(name[len] != '\0');
}

static bool find_in_git_index(const struct git_index *index, struct text path,
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

int git_index_tracks(struct git_index *index, struct text path)
{
	if (path.len == 0)
		return 0;
	/* Every name that can answer comes before the first that is past @path and a slash. */
	while (!index->over &&
		(index->count == 0 || compare_below(path, last_index_name(index)) > 0)) {
		int r;

		read_piece(index);
		r = parse_index_entries(index);
		if (r == -ENOTSUP)
			index->over = true;
		else if (r < 0)
			return r;
	}
	return find_in_git_index(index, path, compare_name) ||
	       find_in_git_index(index, path, compare_below);
}
