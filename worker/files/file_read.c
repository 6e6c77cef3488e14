// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process: read_file in one pass through a buffer. The file may change and grow
 * meanwhile; the answer is whatever was read.
 */
#include "worker/files/file_read.h"

#include "common/cleanup.h"
#include "common/image_types.h"
#include "common/limits.h"
#include "common/line_count.h"
#include "worker/files/edit/file_version.h"

#include "worker/files/search/text_encoding.h"
#include <errno.h>
#include <fcntl.h>

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#define CHUNK_BYTES \
	(64 * KIB) /* on the stack: its pages are in the cache from the previous call \ */

#define NUMBER_DIGITS 20 /* digits of UINT64_MAX */

struct line_scan {
	struct reply *reply;
	uint64_t first, stop; /* the wanted lines: first <= line < stop */
	bool numbered;

	uint64_t line;                /* number of the line with the next byte, from 1 */
	bool mid_line;                /* part of that line has been read */
	uint64_t consumed;            /* bytes read from the file */
	uint64_t content;             /* bytes in the wanted lines */
	struct file_version *version; /* of all bytes; NULL: memory is out, or a hole was skipped */
	char number[NUMBER_DIGITS + 2]; /* the number sent last, and a tab */
};

static uint64_t lines_seen(const struct line_scan *scan)
{
	return scan->line - 1 + scan->mid_line;
}

static uint64_t lines_sent(const struct line_scan *scan)
{
	uint64_t last = lines_seen(scan);

	if (last >= scan->stop)
		last = scan->stop - 1;
	return last >= scan->first ? last - scan->first + 1 : 0;
}

/* Recognises a file format by its first bytes, as its specification defines them. */
static const char *type_of(const char *data, size_t len)
{
	static const struct {
		const char *type;
		size_t offset;
		struct text magic;
	} table[] = {
		{"image/png", 0, TEXT_LITERAL("\x89PNG\r\n\x1a\n")},
		{"image/jpeg", 0, TEXT_LITERAL("\xff\xd8\xff")},
		{"image/gif", 0, TEXT_LITERAL("GIF8")},
		{"image/webp", 8, TEXT_LITERAL("WEBP")},
		{"image/x-icon", 0, TEXT_LITERAL("\0\0\1\0")},
		{"image/tiff", 0, TEXT_LITERAL("II*\0")},
		{"image/tiff", 0, TEXT_LITERAL("MM\0*")},
		{"audio/wav", 8, TEXT_LITERAL("WAVE")},
		{"audio/flac", 0, TEXT_LITERAL("fLaC")},
		{"audio/mpeg", 0, TEXT_LITERAL("ID3")},
		{"application/ogg", 0, TEXT_LITERAL("OggS")},
		{"video/mp4", 4, TEXT_LITERAL("ftyp")},
		{"video/x-matroska", 0, TEXT_LITERAL("\x1a\x45\xdf\xa3")},
		{"application/pdf", 0, TEXT_LITERAL("%PDF-")},
		{"application/zip", 0, TEXT_LITERAL("PK\3\4")},
		{"application/zip", 0, TEXT_LITERAL("PK\5\6")},
		{"application/gzip", 0, TEXT_LITERAL("\x1f\x8b")},
		{"application/x-bzip2", 0, TEXT_LITERAL("BZh")},
		{"application/x-xz", 0,
			TEXT_LITERAL("\xfd"
				     "7zXZ\0")},
		{"application/zstd", 0, TEXT_LITERAL("\x28\xb5\x2f\xfd")},
		{"application/x-7z-compressed", 0, TEXT_LITERAL("7z\xbc\xaf\x27\x1c")},
		{"application/x-tar", 257, TEXT_LITERAL("ustar")},
		{"application/x-elf", 0,
			TEXT_LITERAL("\x7f"
				     "ELF")},
		{"application/vnd.sqlite3", 0, TEXT_LITERAL("SQLite format 3\0")},
		{"application/wasm", 0, TEXT_LITERAL("\0asm")},
		{"application/java-vm", 0, TEXT_LITERAL("\xca\xfe\xba\xbe")},
		{"font/woff2", 0, TEXT_LITERAL("wOF2")},
	};

	const char *encoding;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (len >= table[i].offset + table[i].magic.len &&
			memcmp(data + table[i].offset, table[i].magic.data, table[i].magic.len) ==
				0)
			return table[i].type;
	encoding = text_encoding_utf16((struct text){data, len});
	if (!encoding)
		return "application/octet-stream";
	return strcmp(encoding, "UTF-16") == 0     ? "text/plain; charset=utf-16"
	       : strcmp(encoding, "UTF-16LE") == 0 ? "text/plain; charset=utf-16le"
						   : "text/plain; charset=utf-16be";
}

/* Fills @buffer unless the file ends before. Returns the bytes read or -errno. */
static ssize_t read_chunk(int fd, char *buffer, size_t size, uint64_t expected)
{
	size_t len = 0;

	while (len < size) {
		ssize_t n = read(fd, buffer + len, size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		len += (size_t)n;
		/*
		 * Knowing the size saves the read(2) that would return 0. procfs reports 0 and is
		 * read to its end.
		 */
		if (n == 0 || (expected > 0 && len == expected))
			break;
	}
	return (ssize_t)len;
}

/* Skips the rest of the current line in @data. Returns its length with the newline. */
static size_t pass_line(struct line_scan *scan, const char *data, size_t len)
{
	const char *newline = memchr(data, '\n', len);

	scan->mid_line = !newline;
	if (!newline)
		return len;
	scan->line++;
	return (size_t)(newline - data) + 1;
}

/* Skips to line @stop or the end of @data. Returns the number of bytes skipped. */
static size_t pass_lines(struct line_scan *scan, const char *data, size_t len, uint64_t stop)
{
	size_t passed = 0;

	if (stop == UINT64_MAX && len > 0) {
		scan->line += line_count(data, len);
		scan->mid_line = data[len - 1] != '\n';
		return len;
	}
	while (passed < len && scan->line < stop)
		passed += pass_line(scan, data + passed, len - passed);
	return passed;
}

/*
 * Sends the number of the next line as cat -n prints it: at least six columns and a tab. The number
 * is kept in decimal, because converting every number would take most of the time of a read.
 */
static void send_number(struct line_scan *scan)
{
	char *digit = scan->number + NUMBER_DIGITS - 1;
	size_t start = NUMBER_DIGITS - 6;

	for (; *digit == '9'; digit--)
		*digit = '0';
	*digit = *digit == ' ' ? '1' : (char)(*digit + 1);
	while (start > 0 && scan->number[start - 1] != ' ')
		start--;
	reply_data(scan->reply, scan->number + start, NUMBER_DIGITS + 1 - start);
}

/* Like pass_lines() up to the range's end, but sends the lines with their numbers. */
static size_t send_numbered(struct line_scan *scan, const char *data, size_t len)
{
	size_t passed = 0;

	while (passed < len && scan->line < scan->stop) {
		size_t part;

		if (!scan->mid_line)
			send_number(scan);
		part = pass_line(scan, data + passed, len - passed);
		reply_data(scan->reply, data + passed, part);
		passed += part;
	}
	return passed;
}

/*
 * Sends the wanted part of @data and counts the rest. Returns -EFBIG if that is more than one
 * answer may hold.
 */
static int scan_chunk(struct line_scan *scan, const char *data, size_t len)
{
	size_t before = pass_lines(scan, data, len, scan->first);
	size_t wanted;

	file_version_add(scan->version, data, len);
	if (scan->numbered)
		wanted = send_numbered(scan, data + before, len - before);
	else
		wanted = pass_lines(scan, data + before, len - before, scan->stop);
	scan->consumed += len;
	scan->content += wanted;
	if (scan->content > LIMIT_READ_BYTES)
		return -EFBIG;
	pass_lines(scan, data + before + wanted, len - before - wanted, UINT64_MAX);
	/* For numbered content, sending 0 bytes checks whether cloisterd still reads. */
	return reply_data(scan->reply, data + before, scan->numbered ? 0 : wanted);
}

static void end_too_large(const struct line_scan *scan, uint64_t size)
{
	/*
	 * If the first wanted line is too long by itself, advising a smaller range would not help.
	 */
	if (scan->content > LIMIT_READ_BYTES &&
		(scan->line == scan->first || scan->stop == scan->first + 1)) {
		reply_error(scan->reply, TOOL_FILE_TOO_LARGE,
			"Line %" PRIu64 " is longer than the %llu bytes that one answer holds; "
			"read a part of it with run_command: sed -n %" PRIu64
			"p FILE | head -c 65536",
			scan->first, LIMIT_READ_BYTES, scan->first);
		return;
	}
	reply_error(scan->reply, TOOL_FILE_TOO_LARGE,
		"The file has %" PRIu64 " bytes and one answer holds %llu; "
		"use start_line and end_line to read a smaller part of it",
		size, LIMIT_READ_BYTES);
}

/* The file of one read_file call. */
struct file {
	int fd;
	char *path; /* as the answer reports it */
	uint64_t size;
	bool has_holes;
	bool probe;   /* a binary file is answered by its type */
	bool by_type; /* as in struct files_read */
	bool images;
};

/* Sends the whole file. @buffer has its first @len bytes, and is reused for the rest. */
static void send_image(struct reply *reply, const struct file *file, char *buffer, size_t len)
{
	uint64_t left = file->size;
	ssize_t n = (ssize_t)len;

	while (n > 0 && left > 0) {
		size_t part = (uint64_t)n < left ? (size_t)n : (size_t)left;

		if (reply_image(reply, buffer, part) < 0)
			return;
		left -= part;
		n = read_chunk(file->fd, buffer, CHUNK_BYTES, left);
	}
}

static void end_text(
	struct reply *reply, const struct file *file, const struct line_scan *scan, bool counted)
{
	uint64_t total = lines_seen(scan);
	char version[FILES_VERSION_BYTES + 1] = "";

	if (counted && scan->first > 1 && scan->first > total) {
		reply_error(reply, TOOL_INVALID_ARGUMENTS,
			"start_line %" PRIu64
			" is past the end; give a smaller one, the file has %" PRIu64 " line%s",
			scan->first, total, total == 1 ? "" : "s");
		return;
	}
	if (counted)
		(void)file_version_text(scan->version, version);
	reply_end(reply, &(struct files_end){
				 .path = text_from(file->path),
				 .version = text_from(version),
				 .size = counted ? scan->consumed : file->size,
				 .lines = lines_sent(scan),
				 .total_lines = counted ? total : 0,
			 });
}

/* A hole has no newlines, so the part before the first wanted line need not be read. lseek(2). */
static void skip_hole(const struct file *file, struct line_scan *scan)
{
	off_t data;

	if (!file->has_holes || scan->line >= scan->first || scan->consumed == 0)
		return;
	data = lseek(file->fd, (off_t)scan->consumed, SEEK_DATA);
	if (data < 0 && errno == ENXIO) /* a hole up to the end */
		data = lseek(file->fd, 0, SEEK_END);
	if (data <= (off_t)scan->consumed) {
		(void)lseek(file->fd, (off_t)scan->consumed, SEEK_SET);
		return;
	}
	scan->consumed = (uint64_t)data;
	scan->mid_line = true;
	file_version_free(scan->version); /* it is of all bytes */
	scan->version = NULL;
}

/* Whether @file, which begins with @data, is binary; then it ends the reply. */
static bool end_if_binary(struct reply *reply, const struct file *file, char *buffer, size_t len)
{
	size_t probed = len < LIMIT_BINARY_PROBE_BYTES ? len : LIMIT_BINARY_PROBE_BYTES;
	const char *type = type_of(buffer, len);
	const bool image = image_type_is_shown(text_from(type));

	if (!file->probe ||
		!(memchr(buffer, '\0', probed) ||
			(file->by_type && (image || strcmp(type, "application/pdf") == 0))))
		return false;
	if (image && file->images && file->size <= LIMIT_IMAGE_BYTES)
		send_image(reply, file, buffer, len);
	reply_end(reply, &(struct files_end){
				 .path = text_from(file->path),
				 .binary = true,
				 .size = file->size ? file->size : len,
				 .type = text_from(type),
			 });
	return true;
}

/* Reads @file to its end and ends the reply. */
static void send_file(const struct file *file, struct line_scan *scan)
{
	bool whole = scan->first == 1 && scan->stop == UINT64_MAX;
	char buffer[CHUNK_BYTES];

	for (;;) {
		uint64_t left;
		ssize_t n;
		size_t len;
		int r;

		skip_hole(file, scan);
		left = file->size > scan->consumed ? file->size - scan->consumed : 0;
		n = read_chunk(file->fd, buffer, sizeof(buffer), left);
		len = n > 0 ? (size_t)n : 0;
		if (n < 0) {
			reply_error(scan->reply, tool_error_from_errno((int)-n), "%s",
				tool_errno_sentence((int)-n));
			return;
		}
		if (scan->consumed == 0 && end_if_binary(scan->reply, file, buffer, len))
			return;
		r = whole && file->size > LIMIT_READ_BYTES ? -EFBIG : scan_chunk(scan, buffer, len);
		if (r == -EFBIG)
			end_too_large(
				scan, file->size > scan->consumed ? file->size : scan->consumed);
		if (r < 0)
			return;
		/* A file that grows faster than it is read must not keep the loop going. */
		if (len < sizeof(buffer) || scan->consumed == file->size ||
			scan->consumed > file->size + LIMIT_COUNT_BYTES) {
			end_text(scan->reply, file, scan, true);
			return;
		}
		if (scan->line >= scan->stop &&
			(file->size > LIMIT_COUNT_BYTES || scan->consumed > LIMIT_COUNT_BYTES)) {
			end_text(scan->reply, file, scan, false);
			return;
		}
	}
}

void file_read(const struct root *root, const struct files_read *request, struct reply *reply)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	struct line_scan scan = {
		.reply = reply,
		.first = request->start_line ? request->start_line : 1,
		.stop = UINT64_MAX,
		.numbered = request->numbered && !request->raw,
		.line = 1,
	};
	enum tool_error error;
	struct stat st;

	if (request->end_line > 0 && request->end_line < UINT64_MAX)
		scan.stop = request->end_line + 1;
	if (scan.first >= scan.stop) {
		reply_error(reply, TOOL_INVALID_ARGUMENTS,
			"start_line %" PRIu64 " is greater than end_line %" PRIu64, scan.first,
			request->end_line);
		return;
	}
	snprintf(scan.number, sizeof(scan.number), "%*" PRIu64 "\t", NUMBER_DIGITS, scan.first - 1);
	error = root_open_file(root, request->path, &st, &fd, &path);
	if (error != TOOL_OK) {
		reply_path_error(reply, root, request->path, error);
		return;
	}
	scan.version = file_version_new();
	send_file(&(struct file){.fd = fd,
			  .path = path,
			  .size = (uint64_t)st.st_size,
			  .has_holes = st.st_blocks < st.st_size / 512,
			  .probe = !request->raw,
			  .by_type = request->by_type,
			  .images = request->images},
		&scan);
	file_version_free(scan.version);
}
