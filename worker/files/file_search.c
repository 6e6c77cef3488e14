// SPDX-License-Identifier: Apache-2.0
/*
 * cloister-files: search_files. The walk hands over one file at a time, which is read (not mapped:
 * a tenant that truncates a mapped file kills its reader, and read(2) into a warm buffer is faster)
 * and scanned.
 */
#include "worker/files/file_search.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/files/glob.h"
#include "worker/files/pattern_scan.h"
#include "worker/files/tree_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

/* Of a large file, what is read before it is known not to be binary. */
#define FIRST_READ_BYTES (128 * KIB)

#define FILE_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY)

/* What ends the search, besides errors. */
enum {
	SEARCH_FULL = 1,
	LISTENER_GONE,
};

struct search {
	struct reply *reply;
	struct scan_pattern *pattern;
	struct scanner *scanner;
	struct glob_set *file_pattern;
	size_t base;      /* length of the searched directory's path */
	struct text path; /* of the file being scanned */
	char *buffer;     /* its bytes; kept from file to file */
	size_t buffer_size;
	uint64_t max_results;
	uint64_t count, files_searched, files_skipped;
};

static void search_done(struct search *search)
{
	scanner_free(search->scanner);
	scan_pattern_free(search->pattern);
	glob_set_free(search->file_pattern);
	free(search->buffer);
}

static bool continues_character(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/*
 * What is shown of @line: LIMIT_SEARCH_LINE_BYTES around its match, if possible without halves of
 * characters.
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

static int report_line(const struct scan_line *line, void *context)
{
	struct search *search = context;
	struct text shown = cut_around_match(line);
	struct files_match match = {
		.path = search->path,
		.line = line->number,
		.text = shown,
		.cut = shown.len < line->text.len,
	};

	if (search->count == search->max_results)
		return SEARCH_FULL;
	if (reply_match(search->reply, &match) < 0)
		return LISTENER_GONE;
	search->count++;
	return 0;
}

static int reserve_buffer(struct search *search, size_t size)
{
	char *buffer;

	if (size <= search->buffer_size)
		return 0;
	buffer = realloc(search->buffer, size);
	if (!buffer)
		return -ENOMEM;
	search->buffer = buffer;
	search->buffer_size = size;
	return 0;
}

/* Whether one of the @more bytes after the first @len is a NUL that makes the file binary. */
static bool is_binary(const struct search *search, size_t len, size_t more)
{
	size_t end = len + more < LIMIT_BINARY_PROBE_BYTES ? len + more : LIMIT_BINARY_PROBE_BYTES;

	return len < end && memchr(search->buffer + len, '\0', end - len);
}

/*
 * Reads the regular file @fd into the buffer. 1, 0 if it is to be skipped, or -ENOMEM. Stops at the
 * size that fstat(2) told; where it told none (procfs), at the end.
 */
static int read_text(struct search *search, int fd, size_t *ret_len)
{
	struct stat st;
	size_t len = 0;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
		(uint64_t)st.st_size > LIMIT_SEARCH_FILE_BYTES)
		return 0;
	for (;;) {
		size_t known = (size_t)st.st_size > len ? (size_t)st.st_size : 2 * len;
		size_t part;
		ssize_t n;

		if (reserve_buffer(search, known > FIRST_READ_BYTES ? known : FIRST_READ_BYTES) < 0)
			return -ENOMEM;
		part = len == 0 ? FIRST_READ_BYTES : search->buffer_size - len;
		n = read(fd, search->buffer + len, part);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || len + (size_t)n > LIMIT_SEARCH_FILE_BYTES ||
			is_binary(search, len, (size_t)n))
			return 0;
		len += (size_t)n;
		if (n == 0 || len == (size_t)st.st_size)
			break;
	}
	*ret_len = len;
	return 1;
}

/* Searches @fd, whose path is @path. 0, what ended the search, or -errno. */
static int search_file(struct search *search, int fd, struct text path)
{
	size_t len = 0;
	int r = read_text(search, fd, &len);

	if (r < 0)
		return r;
	if (r == 0) {
		search->files_skipped++;
		return 0;
	}
	search->files_searched++;
	search->path = path;
	return scanner_scan(
		search->scanner, (struct text){search->buffer, len}, report_line, search);
}

static int visit_entry(const struct walk_entry *entry, void *context)
{
	struct search *search = context;
	_cleanup_close_ int fd = -1;

	if (entry->type != DT_REG ||
		!glob_set_match(search->file_pattern, entry->path, search->base))
		return 0;
	fd = openat(entry->dirfd, entry->name, FILE_FLAGS | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
			return -errno;
		search->files_skipped++;
		return 0;
	}
	return search_file(search, fd, entry->path);
}

/* Compiles what @request holds. False: it was answered. */
static bool prepare_search(
	struct search *search, const struct files_search *request, struct reply *reply)
{
	struct scan_error error;
	enum tool_error glob_error = glob_set_new(request->file_pattern, &search->file_pattern);
	int r;

	if (glob_error != TOOL_OK) {
		reply_error(reply, glob_error, "file_pattern: %s", tool_error_sentence(glob_error));
		return false;
	}
	r = scan_pattern_new(request->pattern, &search->pattern, &error);
	if (r == -EINVAL) {
		reply_error(reply, TOOL_INVALID_PATTERN,
			"The pattern is not valid at offset %zu: %s", error.offset, error.message);
		return false;
	}
	if (r == 0)
		search->scanner = scanner_new(search->pattern);
	if (!search->scanner) {
		reply_error(reply, TOOL_EXECUTION_ERROR, "Out of memory");
		return false;
	}
	return true;
}

/*
 * Searches @fd, a directory or file that the caller named @path. 0, what ended the search, or
 * -errno.
 */
static int search_place(struct search *search, const struct walk *walk, int fd, mode_t mode,
	struct walk_end *ret_end)
{
	if (S_ISREG(mode))
		return search_file(search, fd, walk->path);
	search->base = text_equal(walk->path, TEXT_LITERAL(".")) ? 0 : walk->path.len;
	return tree_walk(walk, fd, ret_end);
}

static void answer(
	const struct search *search, int r, const struct walk *walk, const struct walk_end *walked)
{
	if (r == LISTENER_GONE)
		return;
	if (r == -E2BIG) {
		reply_error(search->reply, TOOL_PATTERN_TOO_COMPLEX, NULL);
		return;
	}
	if (r < 0) {
		reply_error(search->reply, tool_error_from_errno(-r), NULL);
		return;
	}
	reply_end(
		search->reply, &(struct files_end){
				       .path = walk->path,
				       .truncated = r == SEARCH_FULL || walked->truncated,
				       .count = search->count,
				       .files_searched = search->files_searched,
				       .files_skipped = search->files_skipped + walked->unreadable,
			       });
}

void file_search(const struct root *root, const struct files_search *request, struct reply *reply)
{
	_cleanup_(search_done) struct search search = {
		.reply = reply,
		.max_results = request->max_results,
	};
	struct walk walk = {
		.root_fd = root->fd,
		.recursive = true,
		.gitignore = request->gitignore,
		.visit = visit_entry,
		.context = &search,
	};
	struct walk_end walked = {0};
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *path = NULL;
	enum tool_error error;
	struct stat st;

	if (search.max_results == 0 || search.max_results > LIMIT_SEARCH_RESULTS)
		search.max_results = LIMIT_SEARCH_RESULTS;
	if (!prepare_search(&search, request, reply))
		return;
	error = root_open(root, request->path, FILE_FLAGS, &fd, &path);
	if (error == TOOL_OK && fstat(fd, &st) < 0)
		error = tool_error_from_errno(errno);
	else if (error == TOOL_OK && !S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		error = TOOL_NOT_A_REGULAR_FILE;
	if (error != TOOL_OK) {
		reply_error(reply, error, NULL);
		return;
	}
	walk.path = text_from(path);
	answer(&search, search_place(&search, &walk, fd, st.st_mode, &walked), &walk, &walked);
}
