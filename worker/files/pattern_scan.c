// SPDX-License-Identifier: Apache-2.0
#include "worker/files/pattern_scan.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/*
 * A carriage return before a newline is no part of the line, so `$` matches before it; `.` matches
 * neither. And `^` matches on an empty line also where the subject ends there, as choose_line needs
 * it.
 */
#define NEWLINE PCRE2_NEWLINE_ANYCRLF
#define OPTIONS                                                                         \
	(PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_MULTILINE | PCRE2_ALT_CIRCUMFLEX | \
		PCRE2_NEVER_BACKSLASH_C)

#define JIT_STACK_START_BYTES (32 * KIB)

struct scan_pattern {
	pcre2_code *code;
};

struct scanner {
	const struct scan_pattern *pattern;
	pcre2_match_data *data;
	pcre2_match_context *context;
	pcre2_jit_stack *stack; /* NULL without JIT */
};

static void free_compile_context(pcre2_compile_context **context)
{
	pcre2_compile_context_free(*context);
}

int scan_pattern_new(
	struct text pattern, struct scan_pattern **ret_pattern, struct scan_error *ret_error)
{
	_cleanup_(free_compile_context) pcre2_compile_context *context =
		pcre2_compile_context_create(NULL);
	_cleanup_free_ struct scan_pattern *compiled = calloc(1, sizeof(*compiled));
	size_t offset = 0;
	int error = 0;

	if (!context || !compiled)
		return -ENOMEM;
	pcre2_set_newline(context, NEWLINE);
	pcre2_set_max_pattern_length(context, LIMIT_PATTERN_BYTES);
	compiled->code = pcre2_compile((PCRE2_SPTR)(pattern.len > 0 ? pattern.data : ""),
		pattern.len, OPTIONS, &error, &offset, context);
	if (!compiled->code) {
		if (error == PCRE2_ERROR_HEAP_FAILED)
			return -ENOMEM;
		ret_error->offset = offset;
		pcre2_get_error_message(
			error, (PCRE2_UCHAR *)ret_error->message, sizeof(ret_error->message));
		return -EINVAL;
	}
	/* Without executable memory this fails, and pcre2_match interprets. */
	(void)pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
	*ret_pattern = TAKE_PTR(compiled);
	return 0;
}

void scan_pattern_free(struct scan_pattern *pattern)
{
	if (!pattern)
		return;
	pcre2_code_free(pattern->code);
	free(pattern);
}

static void free_scanner(struct scanner **scanner)
{
	scanner_free(*scanner);
}

struct scanner *scanner_new(const struct scan_pattern *pattern)
{
	_cleanup_(free_scanner) struct scanner *scanner = calloc(1, sizeof(*scanner));

	if (!scanner)
		return NULL;
	scanner->pattern = pattern;
	/* One pair: where the match is; groups are of no interest. */
	scanner->data = pcre2_match_data_create(1, NULL);
	scanner->context = pcre2_match_context_create(NULL);
	if (!scanner->data || !scanner->context)
		return NULL;
	pcre2_set_match_limit(scanner->context, LIMIT_SEARCH_MATCH_STEPS);
	pcre2_set_depth_limit(scanner->context, LIMIT_SEARCH_DEPTH_STEPS);
	pcre2_set_heap_limit(scanner->context, LIMIT_SEARCH_HEAP_BYTES / KIB);
	scanner->stack =
		pcre2_jit_stack_create(JIT_STACK_START_BYTES, LIMIT_SEARCH_JIT_STACK_BYTES, NULL);
	if (scanner->stack)
		pcre2_jit_stack_assign(scanner->context, NULL, scanner->stack);
	return TAKE_PTR(scanner);
}

void scanner_free(struct scanner *scanner)
{
	if (!scanner)
		return;
	pcre2_match_data_free(scanner->data);
	pcre2_match_context_free(scanner->context);
	pcre2_jit_stack_free(scanner->stack);
	free(scanner);
}

/* Offsets in the buffer. */
struct span {
	size_t start, end;
};

/*
 * The first match in @bytes from @at on: 1 and *@ret_match, 0 for none, or -errno as
 * scanner_scan's.
 */
static int match_from(struct scanner *scanner, struct text bytes, size_t at, struct span *ret_match)
{
	const size_t *offsets = pcre2_get_ovector_pointer(scanner->data);
	int r = pcre2_match(scanner->pattern->code, (PCRE2_SPTR)bytes.data, bytes.len, at, 0,
		scanner->data, scanner->context);

	switch (r) {
	case PCRE2_ERROR_NOMATCH:
		return 0;
	case PCRE2_ERROR_MATCHLIMIT:
	case PCRE2_ERROR_DEPTHLIMIT:
	case PCRE2_ERROR_HEAPLIMIT:
	case PCRE2_ERROR_JIT_STACKLIMIT:
		return -E2BIG;
	case PCRE2_ERROR_NOMEMORY:
		return -ENOMEM;
	default:
		break;
	}
	/* 0: there are groups, for which there was no room. */
	if (r < 0)
		return -EIO;
	ret_match->start = offsets[0];
	ret_match->end = offsets[1] > offsets[0] ? offsets[1] : offsets[0];
	return 1;
}

struct line {
	struct span text; /* without the newline and a carriage return before it */
	size_t next;      /* where the next line begins */
};

static struct line line_around(struct text bytes, size_t at)
{
	const char *before = at > 0 ? memrchr(bytes.data, '\n', at) : NULL;
	const char *after = memchr(bytes.data + at, '\n', bytes.len - at);
	size_t start = before ? (size_t)(before + 1 - bytes.data) : 0;
	size_t end = after ? (size_t)(after - bytes.data) : bytes.len;
	size_t next = end + 1;

	if (end > start && bytes.data[end - 1] == '\r')
		end--;
	return (struct line){.text = {start, end}, .next = next};
}

/*
 * @match goes beyond the text of *@line, which it begins on. Chooses the line to report: the first
 * of the lines it touches that matches alone, otherwise the first that it has a byte of. 1 and
 * *@line and *@match are the choice; 0 if there is none (`\s$` matches a newline before an empty
 * line); or -errno. *@ret_next is where to go on. Each line is tried once and then passed, so this
 * costs no more than a scan of those lines.
 */
static int choose_line(struct scanner *scanner, struct text bytes, struct line *line,
	struct span *match, size_t *ret_next)
{
	struct line candidate = *line;
	bool chosen = false;
	size_t from = match->start;

	for (;;) {
		struct span alone;
		size_t end = candidate.text.end;
		int r = from > end
				? 0
				: match_from(scanner, (struct text){bytes.data, end}, from, &alone);

		*ret_next = candidate.next;
		if (r < 0)
			return r;
		if (r > 0) {
			*line = candidate;
			*match = alone;
			return 1;
		}
		if (!chosen && from < end) {
			*line = candidate;
			chosen = true;
		}
		if (candidate.next >= match->end)
			return chosen;
		from = candidate.next;
		candidate = line_around(bytes, from);
	}
}

static struct scan_line describe(
	struct text bytes, const struct line *line, struct span match, uint64_t number)
{
	struct span text = line->text;

	if (match.start < text.start)
		match.start = text.start;
	if (match.end > text.end)
		match.end = text.end;
	return (struct scan_line){
		.number = number,
		.text = {bytes.data + text.start, text.end - text.start},
		.match_at = match.start - text.start,
		.match_len = match.end - match.start,
	};
}

static uint64_t count_newlines(const char *p, const char *end)
{
	uint64_t count = 0;

	while (p < end)
		count += *p++ == '\n';
	return count;
}

int scanner_scan(struct scanner *scanner, struct text bytes, scan_visitor visit, void *context)
{
	uint64_t number = 1;
	size_t counted = 0; /* @number is the line of this byte */

	if (bytes.len >= 3 && memcmp(bytes.data, "\xef\xbb\xbf", 3) == 0)
		bytes = (struct text){bytes.data + 3, bytes.len - 3};
	for (size_t at = 0; at < bytes.len;) {
		struct scan_line found;
		struct span match;
		struct line line;
		int r = match_from(scanner, bytes, at, &match);

		if (r <= 0)
			return r;
		/* What follows the last newline is a line only if there is something. */
		if (match.start == bytes.len && bytes.data[bytes.len - 1] == '\n')
			return 0;
		line = line_around(bytes, match.start);
		at = line.next;
		if (match.end > line.text.end)
			r = choose_line(scanner, bytes, &line, &match, &at);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		number += count_newlines(bytes.data + counted, bytes.data + line.text.start);
		counted = line.text.start;
		found = describe(bytes, &line, match, number);
		r = visit(&found, context);
		if (r != 0)
			return r;
	}
	return 0;
}
