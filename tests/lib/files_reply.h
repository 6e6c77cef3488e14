/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Decodes the answer of an operation of the files process, as cloisterd would. */

#include "common/wire/wire_files.h"
#include "tests/lib/unit.h"
#include "worker/files/reply.h"

#include <sys/mman.h>

#define ANSWER_CALL 42

/* The text of each frame, one a line, and the end. Texts in end are borrowed from bytes. */
struct answer {
	char *lines;
	struct files_end end;
	char *bytes;
	int fd;
	struct reply *reply;
};

static inline struct answer answer_new(void)
{
	struct answer answer = {.fd = memfd_create("answer", MFD_CLOEXEC)};

	assert_true(answer.fd >= 0);
	answer.reply = reply_new(answer.fd, ANSWER_CALL);
	assert_non_null(answer.reply);
	return answer;
}

static inline void answer_entry(FILE *out, struct text payload)
{
	static const char types[] = "?fdlpscbu";
	struct files_entry entry;

	assert_int_equal(files_entry_get(payload, &entry), 0);
	fprintf(out, "%c %.*s", types[entry.type], (int)entry.path.len, entry.path.data);
	if (entry.type == FILES_TYPE_FILE)
		fprintf(out, " %llu", (unsigned long long)entry.size);
	if (entry.target.len > 0)
		fprintf(out, " -> %.*s", (int)entry.target.len, entry.target.data);
	assert_true(entry.mtime_ns > 0);
	fputc('\n', out);
}

static inline void answer_match(FILE *out, struct text payload)
{
	struct files_match match;

	assert_int_equal(files_match_get(payload, &match), 0);
	fprintf(out, "%.*s:%llu:", (int)match.path.len, match.path.data,
		(unsigned long long)match.line);
	fwrite(match.text.data, 1, match.text.len, out);
	fputs(match.cut ? " (cut)\n" : "\n", out);
}

/* Reads the frames that were sent. The last one, and only that, must be an end. */
static inline void answer_decode(struct answer *answer)
{
	off_t size = lseek(answer->fd, 0, SEEK_END);
	bool ended = false;
	size_t lines_len;
	FILE *out = open_memstream(&answer->lines, &lines_len);

	assert_true(size > 0);
	answer->bytes = malloc((size_t)size);
	assert_int_equal(pread(answer->fd, answer->bytes, (size_t)size, 0), size);
	for (size_t at = 0; at < (size_t)size;) {
		struct wire_header header;
		struct text payload;

		assert_false(ended);
		assert_true(at + sizeof(header) <= (size_t)size);
		memcpy(&header, answer->bytes + at, sizeof(header));
		payload = (struct text){answer->bytes + at + sizeof(header), header.length};
		at += sizeof(header) + header.length;
		assert_true(at <= (size_t)size);
		assert_int_equal(header.call, ANSWER_CALL);
		ended = header.type == FILES_END;
		if (ended)
			assert_int_equal(files_end_get(payload, &answer->end), 0);
		else if (header.type == FILES_ENTRY)
			answer_entry(out, payload);
		else if (header.type == FILES_MATCH)
			answer_match(out, payload);
		else
			fail_msg("frame of type %u", header.type);
	}
	assert_true(ended);
	fclose(out);
}

static inline void answer_done(struct answer *answer)
{
	reply_free(answer->reply);
	close(answer->fd);
	free(answer->bytes);
	free(answer->lines);
}

/* Checks the lines of an answer that has all there are, and frees it. */
static inline void answer_has(struct answer answer, const char *expected)
{
	size_t lines = 0;

	assert_int_equal(answer.end.error, TOOL_OK);
	assert_string_equal(answer.lines, expected);
	for (const char *p = answer.lines; *p; p++)
		lines += *p == '\n';
	assert_int_equal(answer.end.count, lines);
	assert_false(answer.end.truncated);
	answer_done(&answer);
}
