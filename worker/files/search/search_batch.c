// SPDX-License-Identifier: Apache-2.0
#include "worker/files/search/search_batch.h"

#include "common/array.h"
#include "common/cleanup.h"
#include "common/io.h"
#include "common/limits.h"
#include "common/utf8.h"
#include "worker/files/search/text_encoding.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define FILE_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC)

/* Most files are shorter, and the processor's cache holds this much. */
#define FIRST_READ_BYTES (256 * KIB)

/* The buffer for a larger file is allocated for that file only and counts against the budget. */
#define KEPT_BUFFER_BYTES (4 * MIB)

/* The batch has as many hits as were asked for. */
#define BATCH_FULL 1

void batch_clear(struct batch *batch)
{
	close_fd(&batch->dirfd);
	batch->file = -1;
	batch->names_len = batch->path_len = batch->count = 0;
	batch->hits_count = batch->matches = batch->texts_len = batch->done = 0;
	batch->result = 0;
	batch->near = false;
}

void batch_free(struct batch *batch)
{
	close_fd(&batch->dirfd);
	free(batch->path);
	free(batch->names);
	free(batch->hits);
	free(batch->texts);
}

static int set_path(struct batch *batch, struct text path)
{
	if (array_reserve(&batch->path, &batch->path_size, path.len + 1, 1) < 0)
		return -ENOMEM;
	if (path.len > 0)
		memcpy(batch->path, path.data, path.len);
	batch->path_len = path.len;
	return 0;
}

int batch_begin(struct batch *batch, int dirfd, struct text path)
{
	if (set_path(batch, path) < 0)
		return -ENOMEM;
	batch->dirfd = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
	return batch->dirfd < 0 ? -errno : 0;
}

int batch_single(struct batch *batch, int fd, struct text path)
{
	if (set_path(batch, path) < 0)
		return -ENOMEM;
	batch->file = fd;
	batch->count = 1;
	return 0;
}

int batch_add(struct batch *batch, const char *name)
{
	size_t len = strlen(name) + 1;

	if (array_reserve(&batch->names, &batch->names_size, batch->names_len + len, 1) < 0)
		return -ENOMEM;
	memcpy(batch->names + batch->names_len, name, len);
	batch->name_at[batch->count++] = batch->names_len;
	batch->names_len += len;
	return 0;
}

int batch_path(struct batch *batch, size_t index, struct text *ret_path)
{
	size_t at = batch->path_len;
	const char *name;
	size_t len;

	if (batch->file >= 0) {
		*ret_path = (struct text){batch->path, at};
		return 0;
	}
	name = batch->names + batch->name_at[index];
	len = strlen(name);
	if (array_reserve(&batch->path, &batch->path_size, at + 1 + len, 1) < 0)
		return -ENOMEM;
	if (at > 0)
		batch->path[at++] = '/';
	memcpy(batch->path + at, name, len);
	*ret_path = (struct text){batch->path, at + len};
	return 0;
}

int searcher_init(struct searcher *searcher, struct scan_pattern *pattern,
	struct search_budget *budget, uint64_t max_hits, uint32_t context, const atomic_bool *stop)
{
	*searcher = (struct searcher){
		.scanner = scanner_new(pattern),
		.buffer = malloc(FIRST_READ_BYTES),
		.buffer_size = FIRST_READ_BYTES,
		.budget = budget,
		.max_hits = max_hits,
		.context = context,
		.stop = stop,
	};
	if (searcher->scanner && searcher->buffer)
		return 0;
	searcher_done(searcher);
	return -ENOMEM;
}

void searcher_done(struct searcher *searcher)
{
	scanner_free(searcher->scanner);
	free(searcher->buffer);
	*searcher = (struct searcher){0};
}

static bool continues_character(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/*
 * Returns the part of @line to show: LIMIT_SEARCH_LINE_BYTES around its match, without cutting
 * characters if possible.
 */
static struct text cut_around_match(const struct scan_line *line)
{
	const size_t limit = LIMIT_SEARCH_LINE_BYTES;
	struct text text = line->text;
	size_t room = line->match_len < limit ? limit - line->match_len : 0;
	size_t start = line->match_at > room / 2 ? line->match_at - room / 2 : 0;
	size_t end;

	if (text.len <= limit)
		return text;
	if (start > text.len - limit)
		start = text.len - limit;
	end = start + limit;
	for (int i = 0; i < 3 && start > 0 && continues_character(text.data[start]); i++)
		start++;
	for (int i = 0; i < 3 && end < text.len && continues_character(text.data[end]); i++)
		end--;
	return (struct text){text.data + start, end - start};
}

/* The arguments of add_hit(). */
struct search {
	struct batch *batch;
	uint64_t max_hits;
	uint32_t context;
	struct text bytes;  /* of the file */
	uint64_t told;      /* the last line that is a hit */
	const char *behind; /* where the line after the last match, or after told, begins */
	uint32_t after;     /* lines from there on that are told */
};

static int add_line(
	struct batch *batch, enum hit_kind kind, uint64_t number, struct text shown, bool cut)
{
	if (batch->texts_len > LIMIT_SEARCH_BATCH_BYTES && shown.len > LIMIT_SEARCH_AROUND) {
		shown = utf8_cut(shown, LIMIT_SEARCH_AROUND);
		cut = true;
	}
	if (array_reserve(&batch->hits, &batch->hits_size, batch->hits_count + 1,
		    sizeof(*batch->hits)) < 0 ||
		array_reserve(&batch->texts, &batch->texts_size, batch->texts_len + shown.len, 1) <
			0)
		return -ENOMEM;
	if (shown.len > 0)
		memcpy(batch->texts + batch->texts_len, shown.data, shown.len);
	batch->hits[batch->hits_count++] = (struct batch_hit){
		.file = batch->done,
		.line = number,
		.text_at = batch->texts_len,
		.text_len = shown.len,
		.cut = cut,
		.kind = kind,
	};
	batch->texts_len += shown.len;
	return 0;
}

/* Adds the line at @at, which does not match, and returns where the next one begins. */
static const char *add_around(
	struct search *search, enum hit_kind kind, uint64_t number, const char *at, int *ret_result)
{
	const char *end = search->bytes.data + search->bytes.len;
	const char *newline = memchr(at, '\n', (size_t)(end - at));
	struct text line = {at, (size_t)((newline ? newline : end) - at)}, shown;

	if (line.len > 0 && line.data[line.len - 1] == '\r')
		line.len--;
	shown = utf8_cut(line, LIMIT_SEARCH_AROUND);
	*ret_result = add_line(search->batch, kind, number, shown, shown.len < line.len);
	search->told = number;
	return newline ? newline + 1 : end;
}

/* Adds the lines after the last match that are before line @number. */
static int add_after(struct search *search, uint64_t number)
{
	const char *end = search->bytes.data + search->bytes.len;
	int r = 0;

	for (; r == 0 && search->after > 0 && search->behind < end && search->told + 1 < number;
		search->after--)
		search->behind =
			add_around(search, HIT_AFTER, search->told + 1, search->behind, &r);
	return r;
}

/* Adds the lines before @line that have not been told. */
static int add_before(struct search *search, const struct scan_line *line)
{
	const char *at = line->text.data;
	uint64_t lines = line->number - 1 - search->told;
	int r = 0;

	if (lines > search->context)
		lines = search->context;
	for (uint64_t i = 0; i < lines && at > search->bytes.data; i++) {
		const char *newline =
			memrchr(search->bytes.data, '\n', (size_t)(at - 1 - search->bytes.data));

		at = newline ? newline + 1 : search->bytes.data;
	}
	for (uint64_t number = line->number - lines; r == 0 && number < line->number; number++)
		at = add_around(search, HIT_BEFORE, number, at, &r);
	return r;
}

static int add_hit(const struct scan_line *line, void *context)
{
	struct search *search = context;
	struct batch *batch = search->batch;
	struct text shown = cut_around_match(line);
	int r = 0;

	if (search->context > 0) {
		const char *end = search->bytes.data + search->bytes.len, *newline;

		r = add_after(search, line->number);
		if (r == 0)
			r = add_before(search, line);
		newline = memchr(line->text.data + line->text.len, '\n',
			(size_t)(end - line->text.data) - line->text.len);
		search->behind = newline ? newline + 1 : end;
		search->after = search->context;
		search->told = line->number;
	}
	if (r == 0)
		r = add_line(batch, HIT_MATCH, line->number, shown, shown.len < line->text.len);
	if (r < 0)
		return r;
	return ++batch->matches == search->max_hits ? BATCH_FULL : 0;
}

static bool is_binary(const char *bytes, size_t len)
{
	return memchr(bytes, '\0', len < LIMIT_BINARY_PROBE_BYTES ? len : LIMIT_BINARY_PROBE_BYTES);
}

/* Notes that the file, which is not searched, is in UTF-16. */
static void note_encoding(struct batch *batch, const char *bytes, ssize_t len)
{
	if (len > 0 && is_binary(bytes, (size_t)len) &&
		text_encoding_utf16((struct text){bytes, (size_t)len}))
		batch->state[batch->done] = FILE_UTF16;
}

static void budget_take(struct search_budget *budget, size_t size)
{
	pthread_mutex_lock(&budget->mutex);
	while (budget->left < size)
		pthread_cond_wait(&budget->released, &budget->mutex);
	budget->left -= size;
	pthread_mutex_unlock(&budget->mutex);
}

static void budget_give_back(struct search_budget *budget, size_t size)
{
	pthread_mutex_lock(&budget->mutex);
	budget->left += size;
	pthread_cond_broadcast(&budget->released);
	pthread_mutex_unlock(&budget->mutex);
}

static int scan(struct searcher *searcher, struct batch *batch, struct text bytes)
{
	struct search search = {.batch = batch,
		.max_hits = searcher->max_hits,
		.context = searcher->context,
		.bytes = bytes};
	int r;

	batch->state[batch->done] = FILE_SEARCHED;
	r = scanner_scan(searcher->scanner, bytes, add_hit, &search);
	return r == 0 ? add_after(&search, UINT64_MAX) : r;
}

/* A large file that is being searched. */
struct large_file {
	int fd;
	size_t size; /* what is read of it; more than FIRST_READ_BYTES */
	size_t held; /* bytes at its beginning that the searcher's buffer holds */
};

/* Reads the rest of @file; @buffer holds its first bytes and has room for all. */
static int read_and_scan(
	struct searcher *searcher, struct batch *batch, const struct large_file *file, char *buffer)
{
	ssize_t n = io_read(file->fd, buffer + file->held, file->size - file->held, IO_POSITION);
	struct text bytes = {buffer, file->held + (size_t)n};

	if (n < 0 || bytes.len > LIMIT_SEARCH_FILE_BYTES)
		return 0;
	return scan(searcher, batch, bytes);
}

/* Searches @file with a buffer of its size. */
static int search_whole(
	struct searcher *searcher, struct batch *batch, const struct large_file *file)
{
	char *buffer;
	int r = -ENOMEM;

	if (file->size <= KEPT_BUFFER_BYTES) {
		if (array_reserve(&searcher->buffer, &searcher->buffer_size, file->size, 1) < 0)
			return -ENOMEM;
		return read_and_scan(searcher, batch, file, searcher->buffer);
	}
	budget_take(searcher->budget, file->size);
	buffer = malloc(file->size);
	if (buffer) {
		memcpy(buffer, searcher->buffer, file->held);
		r = read_and_scan(searcher, batch, file, buffer);
	}
	free(buffer);
	budget_give_back(searcher->budget, file->size);
	return r;
}

/*
 * Reads @file part by part for as long as nothing in it can match. A part stays in the processor's
 * cache, and its memory is there already. Returns 1 at the end of the file; 0 if it has to be
 * searched as a whole, from its beginning; or -errno.
 */
static int rule_out(struct searcher *searcher, struct large_file *file)
{
	char *buffer = searcher->buffer;
	size_t len = file->held, left = file->size - len;
	size_t at = scanner_mark_len((struct text){buffer, len});

	for (;;) {
		struct text part = {buffer + at, len - at};
		size_t done, wanted;
		ssize_t n;

		if (!scanner_rules_out(searcher->scanner, part, left == 0, &done))
			break;
		if (left == 0)
			return 1;
		at += done;
		len -= at;
		memmove(buffer, buffer + at, len);
		at = 0;
		file->held = 0;
		wanted = left < FIRST_READ_BYTES - len ? left : FIRST_READ_BYTES - len;
		n = io_read(file->fd, buffer + len, wanted, IO_POSITION);
		if (n < 0)
			return -errno;
		len += (size_t)n;
		left = (size_t)n < wanted ? 0 : left - wanted; /* it has become shorter */
	}
	return file->held > 0 || lseek(file->fd, 0, SEEK_SET) == 0 ? 0 : -errno;
}

/*
 * Searches the regular file @fd, whose first FIRST_READ_BYTES are in the buffer. A file with a size
 * is read up to that size; one without (procfs) is read to its end, with a buffer of the largest
 * size.
 */
static int search_large(struct searcher *searcher, struct batch *batch, int fd)
{
	struct large_file file = {
		.fd = fd, .size = LIMIT_SEARCH_FILE_BYTES + 1, .held = FIRST_READ_BYTES};
	struct stat st;
	int r = 0;

	note_encoding(batch, searcher->buffer, FIRST_READ_BYTES);
	if (is_binary(searcher->buffer, FIRST_READ_BYTES) || fstat(fd, &st) < 0 ||
		!S_ISREG(st.st_mode) || (uint64_t)st.st_size > LIMIT_SEARCH_FILE_BYTES)
		return 0;
	if ((size_t)st.st_size > FIRST_READ_BYTES) {
		file.size = (size_t)st.st_size;
		r = rule_out(searcher, &file);
	}
	if (r > 0)
		batch->state[batch->done] = FILE_SEARCHED;
	return r == 0 ? search_whole(searcher, batch, &file) : 0;
}

/*
 * Searches @fd. If the tenant has replaced it by something other than a regular file, reading gives
 * nothing or an error, because of O_NONBLOCK.
 */
static int search_file(struct searcher *searcher, struct batch *batch, int fd)
{
	ssize_t len = io_read(fd, searcher->buffer, FIRST_READ_BYTES, IO_POSITION);

	if (len == (ssize_t)FIRST_READ_BYTES)
		return search_large(searcher, batch, fd);
	if (len < 0 || is_binary(searcher->buffer, (size_t)len)) {
		note_encoding(batch, searcher->buffer, len);
		return 0;
	}
	return scan(searcher, batch, (struct text){searcher->buffer, (size_t)len});
}

static int search_next(struct searcher *searcher, struct batch *batch)
{
	_cleanup_close_ int fd = -1;

	batch->state[batch->done] = FILE_SKIPPED;
	if (batch->file >= 0)
		return search_file(searcher, batch, batch->file);
	fd = openat(batch->dirfd, batch->names + batch->name_at[batch->done], FILE_FLAGS);
	if (fd < 0)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : 0;
	return search_file(searcher, batch, fd);
}

void searcher_run(struct searcher *searcher, struct batch *batch)
{
	while (batch->done < batch->count && batch->result == 0 && !*searcher->stop) {
		batch->result = search_next(searcher, batch);
		batch->done++;
	}
	if (batch->result > 0)
		batch->result = 0; /* full: the rest of the batch is not needed */
	close_fd(&batch->dirfd);
}
