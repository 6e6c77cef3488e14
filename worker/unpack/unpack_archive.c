// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-unpack. The archive is hostile, and so is what libarchive makes of it: every
 * entry goes to unpack_tree.c, which believes none of it.
 */
#include "worker/unpack/unpack_archive.h"

#include "common/cleanup.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define WHITEOUT      ".wh."
#define WHITEOUT_META ".wh..wh."
#define OPAQUE        ".wh..wh..opq"

/* one of a compression, and the one that reads; an archive in many is refused */
#define FILTERS_MOST 2
/* what an entry without content may take of the stream: its header and long names */
#define HEADER_BYTES (4 * KIB)

void unpack_source_init(struct unpack_source *source, int fd)
{
	source->fd = fd;
	source->read = 0;
	sha256_init(&source->sha256);
}

static ssize_t read_source(struct unpack_source *source)
{
	ssize_t n = pread(source->fd, source->buffer, sizeof(source->buffer), (off_t)source->read);

	if (n < 0)
		return -errno;
	sha256_update(&source->sha256, (size_t)n, source->buffer);
	source->read += (uint64_t)n;
	return n;
}

int unpack_source_end(
	struct unpack_source *source, uint8_t ret_digest[SHA256_DIGEST_SIZE], uint64_t *ret_len)
{
	ssize_t n;

	do
		n = read_source(source);
	while (n > 0);
	if (n < 0)
		return (int)n;
	sha256_digest(&source->sha256, SHA256_DIGEST_SIZE, ret_digest);
	*ret_len = source->read;
	return 0;
}

static la_ssize_t on_read(struct archive *archive, void *context, const void **ret)
{
	struct unpack_source *source = context;
	ssize_t n = read_source(source);

	*ret = source->buffer;
	if (n < 0)
		archive_set_error(archive, (int)-n, "read");
	return n < 0 ? -1 : n;
}

struct work {
	struct unpack_tree *tree;
	struct unpack_source *source;
	struct archive *archive;
	enum unpack_pass pass;
};

/* A decoder that a build of libarchive lacks would be a program that it starts: not taken. */
static int open_archive(struct work *work)
{
	int (*const decoders[])(struct archive *) = {archive_read_support_filter_gzip,
		archive_read_support_filter_bzip2, archive_read_support_filter_xz,
		archive_read_support_filter_zstd};

	work->archive = archive_read_new();
	if (!work->archive || archive_read_support_format_tar(work->archive) != ARCHIVE_OK)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(decoders); i++)
		(void)decoders[i](work->archive);
	if (archive_read_open(work->archive, work->source, NULL, on_read, NULL) != ARCHIVE_OK)
		return unpack_refuse(work->tree, UNPACK_FORMAT, NULL);
	return 0;
}

/* Whether the stream has become longer than an archive of this size, or its entries, explain. */
static int check_stream(struct work *work)
{
	struct unpack_tree *tree = work->tree;
	uint64_t unpacked = (uint64_t)archive_filter_bytes(work->archive, 0);
	uint64_t most = LIMIT_UNPACK_RATIO * work->source->read;

	if (unpacked > (most > LIMIT_UNPACK_SMALL_BYTES ? most : LIMIT_UNPACK_SMALL_BYTES))
		return unpack_refuse(tree, UNPACK_RATIO, NULL);
	return unpacked > tree->max_bytes + HEADER_BYTES * (tree->report.entries + 256)
		       ? unpack_refuse(tree, UNPACK_BYTES, NULL)
		       : 0;
}

/* Entries. */

/* A piece of an entry's content, and where in the file it is. */
struct block {
	const void *data;
	size_t len;
	la_int64_t offset;
};

/* Returns 1 and the next one, 0 at the end of the content, or a refusal of the entry @shown. */
static int next_block(struct work *work, const char *shown, struct block *ret)
{
	int status = archive_read_data_block(work->archive, &ret->data, &ret->len, &ret->offset);
	int r;

	if (status == ARCHIVE_EOF)
		return 0;
	r = status < ARCHIVE_WARN ? unpack_refuse(work->tree, UNPACK_DAMAGED, shown)
				  : check_stream(work);
	return r < 0 ? r : 1;
}

static int put_data(struct work *work, const struct unpack_entry *entry, struct unpack_file *file,
	uint64_t size)
{
	struct block block;
	int r;

	while ((r = next_block(work, entry->path, &block)) > 0) {
		if (block.offset < 0 || (uint64_t)block.offset > size ||
			block.len > size - (uint64_t)block.offset)
			return unpack_refuse(work->tree, UNPACK_DAMAGED, entry->path);
		r = unpack_file_write(
			work->tree, file, block.data, block.len, (uint64_t)block.offset);
		if (r < 0)
			return r;
	}
	return r;
}

/* Reads content that nobody wants, which libarchive would do without an end and without a bound. */
static int skip_data(struct work *work)
{
	struct block block;
	int r;

	do
		r = next_block(work, NULL, &block);
	while (r > 0);
	return r;
}

static int put_file(
	struct work *work, struct archive_entry *found, const struct unpack_entry *entry)
{
	la_int64_t size = archive_entry_size_is_set(found) ? archive_entry_size(found) : 0;
	struct unpack_file file;
	int r, closed;

	if (size < 0 || size > (la_int64_t)LIMIT_UNPACK_FILE_BYTES)
		return unpack_refuse(work->tree, UNPACK_FILE_SIZE, entry->path);
	r = unpack_tree_file(work->tree, entry, &file);
	if (r < 0)
		return r;
	r = put_data(work, entry, &file, (uint64_t)size);
	closed = unpack_file_close(work->tree, &file, entry, (uint64_t)size);
	return r < 0 ? r : closed;
}

/* What comes after the last slash; a path that ends in one is a directory's. */
static const char *last_path_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_whiteout(const char *path)
{
	return strncmp(last_path_name(path), WHITEOUT, strlen(WHITEOUT)) == 0;
}

/* Hides what the whiteout @path names, in a layer below. */
static int put_whiteout(struct work *work, const char *path)
{
	const char *name = last_path_name(path);
	char hidden[LIMIT_PATH_BYTES];
	size_t before = (size_t)(name - path);

	if (strlen(path) >= sizeof(hidden))
		return unpack_refuse(work->tree, UNPACK_NAME, path);
	memcpy(hidden, path, before);
	hidden[before] = '\0';
	if (strcmp(name, OPAQUE) == 0)
		return unpack_tree_hide(work->tree, before > 0 ? hidden : ".", true);
	/* Other names like this are notes of a file system that such images were first made on. */
	if (strncmp(name, WHITEOUT_META, strlen(WHITEOUT_META)) == 0)
		return 0;
	name += strlen(WHITEOUT);
	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return unpack_refuse(work->tree, UNPACK_WHITEOUT, path);
	memcpy(hidden + before, name, strlen(name) + 1);
	return unpack_tree_hide(work->tree, hidden, false);
}

/* What the template does not get of an entry that it gets. */
static void count_left_out(struct unpack_report *report, struct archive_entry *found, mode_t mode)
{
	report->set_ids += (mode & (S_ISUID | S_ISGID)) != 0;
	report->attributes += archive_entry_xattr_count(found) > 0;
}

static int put_entry(struct work *work, struct archive_entry *found)
{
	const struct unpack_entry entry = {.path = archive_entry_pathname(found),
		.mode = archive_entry_perm(found),
		.modified = {.tv_sec = archive_entry_mtime(found),
			.tv_nsec = archive_entry_mtime_nsec(found)}};
	const char *link = archive_entry_hardlink(found);
	struct unpack_tree *tree = work->tree;
	bool whiteout = entry.path && work->pass != UNPACK_ALL && is_whiteout(entry.path);

	if (work->pass == UNPACK_WHITEOUTS)
		return whiteout ? put_whiteout(work, entry.path) : 0;
	if (whiteout)
		return 0;
	if (!entry.path)
		return unpack_refuse(tree, UNPACK_NAME, NULL);
	if (link)
		return unpack_tree_link(tree, &entry, link);
	count_left_out(&tree->report, found, entry.mode);
	switch (archive_entry_filetype(found)) {
	case AE_IFREG:
		return put_file(work, found, &entry);
	case AE_IFDIR:
		return unpack_tree_directory(tree, &entry);
	case AE_IFLNK:
		return unpack_tree_symlink(tree, &entry, archive_entry_symlink(found));
	default:
		tree->report.special++;
		return 0;
	}
}

static int read_entries(struct work *work)
{
	struct archive_entry *entry;
	int r = 0;

	while (r == 0) {
		int status = archive_read_next_header(work->archive, &entry);

		if (status == ARCHIVE_EOF)
			return 0;
		if (status < ARCHIVE_WARN)
			return unpack_refuse(work->tree,
				work->tree->report.entries == 0 && work->pass == UNPACK_ALL
					? UNPACK_FORMAT
					: UNPACK_DAMAGED,
				NULL);
		if (archive_filter_count(work->archive) > FILTERS_MOST)
			return unpack_refuse(work->tree, UNPACK_FORMAT, NULL);
		r = work->pass == UNPACK_ENTRIES ? 0 : unpack_tree_count(work->tree);
		if (r == 0)
			r = check_stream(work);
		if (r == 0)
			r = put_entry(work, entry);
		if (r == 0)
			r = skip_data(work);
	}
	return r;
}

int unpack_archive(struct unpack_tree *tree, struct unpack_source *source, enum unpack_pass pass)
{
	struct work work = {.tree = tree, .source = source, .pass = pass};
	int r = open_archive(&work);

	if (r == 0)
		r = read_entries(&work);
	archive_read_free(work.archive);
	return r;
}
