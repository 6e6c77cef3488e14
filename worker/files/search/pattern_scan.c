// SPDX-License-Identifier: Apache-2.0
#include "worker/files/search/pattern_scan.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/files/search/scan_pattern_state.h"

#include <errno.h>

#define JIT_STACK_START_BYTES (32 * KIB)

/* Lines that the automaton collects before PCRE2 checks them. */
#define CANDIDATES 64

struct scanner {
	struct scan_pattern *pattern;
	pcre2_match_data *data;
	pcre2_match_context *context;
	pcre2_jit_stack *stack;            /* NULL without JIT */
	struct automaton_scratch *scratch; /* NULL until it is needed */
};

static void free_scanner(struct scanner **scanner)
{
	scanner_free(*scanner);
}

struct scanner *scanner_new(struct scan_pattern *pattern)
{
	_cleanup_(free_scanner) struct scanner *scanner = calloc(1, sizeof(*scanner));

	if (!scanner)
		return NULL;
	scanner->pattern = pattern;
	/* One pair of offsets, for the match itself. Groups are not needed. */
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
	automaton_scratch_free(scanner->scratch);
	free(scanner);
}

/* Offsets in the buffer. */
struct span {
	size_t start, end;
};

/*
 * Finds the first match of @code in @bytes from @at on. Returns 1 and *@ret_match, 0 for none, or
 * -errno like scanner_scan().
 */
static int match_from(struct scanner *scanner, const pcre2_code *code, struct text bytes, size_t at,
	struct span *ret_match)
{
	const size_t *offsets = pcre2_get_ovector_pointer(scanner->data);
	int r = pcre2_match(
		code, (PCRE2_SPTR)bytes.data, bytes.len, at, 0, scanner->data, scanner->context);

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
	/* 0 means that the groups did not fit. */
	if (r < 0)
		return -EIO;
	ret_match->start = offsets[0];
	ret_match->end = offsets[1] > offsets[0] ? offsets[1] : offsets[0];
	return 1;
}

struct line {
	struct span text; /* without its newline and a carriage return before that */
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

static struct scan_line describe_match(
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

/* One call of scanner_scan(). */
struct scan {
	struct scanner *scanner;
	struct text bytes;
	scan_visitor visit;
	void *context;
	const pcre2_code *code; /* for several lines; NULL: not chosen yet */
	size_t at;              /* start of a line; earlier lines are done */
	uint64_t number;        /* number of the line that holds @counted */
	size_t counted;
};

static int report_match(struct scan *scan, const struct line *line, struct span match)
{
	struct scan_line found;

	scan->number += count_newlines(
		scan->bytes.data + scan->counted, scan->bytes.data + line->text.start);
	scan->counted = line->text.start;
	found = describe_match(scan->bytes, line, match, scan->number);
	return scan->visit(&found, scan->context);
}

/* Matches the text of @line alone. Returns 1 and *@ret_match, 0 or -errno. */
static int match_alone(struct scan *scan, const struct line *line, struct span *ret_match)
{
	size_t start = line->text.start;
	struct text text = {scan->bytes.data + start, line->text.end - start};
	int r = match_from(scan->scanner, scan->scanner->pattern->code, text, 0, ret_match);

	if (r > 0) {
		ret_match->start += start;
		ret_match->end += start;
	}
	return r;
}

/*
 * @match goes beyond the text of *@line, on which it begins. Chooses the line to report: the first
 * line of the match that matches alone, otherwise the first of which the match holds a byte.
 * Returns 1 with the choice in *@line and *@match; 0 if there is none (`\s$` matches a newline
 * before an empty line); or -errno. *@ret_next is where to go on. Each line is tried once and then
 * skipped, so this costs no more than scanning those lines.
 */
static int choose_line(struct scan *scan, struct line *line, struct span *match, size_t *ret_next)
{
	struct line candidate = *line;
	bool chosen = false;
	size_t from = match->start;

	for (;;) {
		struct span alone;
		int r = match_alone(scan, &candidate, &alone);

		*ret_next = candidate.next;
		if (r < 0)
			return r;
		if (r > 0) {
			*line = candidate;
			*match = alone;
			return 1;
		}
		if (!chosen && from < candidate.text.end) {
			*line = candidate;
			chosen = true;
		}
		if (candidate.next >= match->end)
			return chosen;
		from = candidate.next;
		candidate = line_around(scan->bytes, from);
	}
}

/* Scans the rest from match to match, for a pattern that sees only the match or the whole file. */
static int scan_matches(struct scan *scan)
{
	const struct literal *start = &scan->scanner->pattern->start;
	struct text bytes = scan->bytes;

	while (scan->at < bytes.len) {
		struct span match;
		struct line line;
		size_t next;
		int r;

		if (start->text.len > 0)
			scan->at = literal_find(start, bytes, scan->at);
		if (scan->at == bytes.len)
			return 0;
		r = match_from(scan->scanner, scan->code, bytes, scan->at, &match);
		if (r <= 0)
			return r;
		/* Text after the last newline is a line only if it is not empty. */
		if (match.start == bytes.len && bytes.data[bytes.len - 1] == '\n')
			return 0;
		line = line_around(bytes, match.start);
		next = line.next;
		if (match.end > line.text.end)
			r = choose_line(scan, &line, &match, &next);
		if (r < 0)
			return r;
		if (r > 0)
			r = report_match(scan, &line, match);
		if (r != 0)
			return r;
		scan->at = next;
	}
	return 0;
}

/*
 * Finds the next match from @at on that is not within one line, where the pattern sees all bytes;
 * of each line only the first match is considered. *@ret_match is at the end if there is none.
 * Returns 0 or -errno.
 */
static int find_crossing(struct scan *scan, size_t at, struct span *ret_match)
{
	struct text bytes = scan->bytes;
	const struct span none = {bytes.len, bytes.len};

	while (at < bytes.len) {
		struct line line;
		int r = match_from(scan->scanner, scan->code, bytes, at, ret_match);

		if (r < 0)
			return r;
		if (r == 0)
			break;
		line = line_around(bytes, ret_match->start);
		if (ret_match->end > line.text.end)
			return 0;
		at = line.next;
	}
	*ret_match = none;
	return 0;
}

/* Scans the rest line by line, each line as if it were alone. */
static int scan_lines(struct scan *scan)
{
	const struct scan_pattern *pattern = scan->scanner->pattern;
	struct text bytes = scan->bytes;
	struct span crossing = {bytes.len, bytes.len};

	for (bool first = true; scan->at < bytes.len; first = false) {
		struct span match;
		struct line line;
		size_t next;
		int r = 0;

		if (pattern->start.text.len > 0)
			scan->at = literal_find(&pattern->start, bytes, scan->at);
		if (scan->at == bytes.len)
			return 0;
		line = line_around(bytes, scan->at);
		next = line.next;
		if (pattern->crosses_lines && (first || crossing.start < line.text.start))
			r = find_crossing(scan, line.text.start, &crossing);
		match = crossing;
		if (r == 0)
			r = crossing.start < bytes.len && crossing.start < line.next
				    ? choose_line(scan, &line, &match, &next)
				    : match_alone(scan, &line, &match);
		if (r > 0)
			r = report_match(scan, &line, match);
		if (r != 0)
			return r;
		scan->at = next;
	}
	return 0;
}

/* Whether a carriage return stands inside a line, from @at, where one is, on. */
static bool has_lone_return(struct text bytes, const char *at)
{
	const char *end = bytes.data + bytes.len;

	while (at && at + 1 < end && at[1] == '\n')
		at = memchr(at + 1, '\r', (size_t)(end - at - 1));
	return at != NULL;
}

/*
 * Scans the rest by PCRE2: all lines at once if that finds the lines that match alone, or if the
 * pattern asks for the whole file; otherwise each line by itself, because the pattern would see
 * neighbouring lines or take a carriage return inside a line for its end.
 */
static int scan_by_pcre2(struct scan *scan)
{
	struct scan_pattern *pattern = scan->scanner->pattern;
	struct text bytes = scan->bytes;
	const char *carriage_return;

	if (pattern->start.text.len > 0)
		scan->at = literal_find(&pattern->start, bytes, scan->at);
	if (scan->at >= bytes.len)
		return 0;
	carriage_return = memchr(bytes.data, '\r', bytes.len);
	scan->code = carriage_return ? scan_pattern_crlf_code(pattern) : pattern->code;
	if (!scan->code)
		return -ENOMEM;
	if (pattern->view == PATTERN_SEES_LINE ||
		(pattern->view == PATTERN_SEES_MATCH && has_lone_return(bytes, carriage_return)))
		return scan_lines(scan);
	return scan_matches(scan);
}

/* Lines in which the automaton found something, in order. */
struct candidates {
	struct text bytes;
	size_t offset; /* offset of the scanned part in bytes */
	struct line line[CANDIDATES];
	size_t count;
	bool unordered; /* Vectorscan reported an earlier line again */
	bool full;      /* there may be more */
};

static int add_candidate(size_t end, void *context)
{
	struct candidates *candidates = context;
	size_t byte = candidates->offset + end - 1; /* no match is empty */

	if (candidates->count > 0) {
		const struct line *last = &candidates->line[candidates->count - 1];

		candidates->unordered = byte < last->text.start;
		if (byte < last->next)
			return candidates->unordered;
	}
	candidates->full = candidates->count == CANDIDATES;
	if (candidates->full)
		return 1;
	candidates->line[candidates->count++] = line_around(candidates->bytes, byte);
	return 0;
}

/*
 * Lets PCRE2 check a line that matches for the automaton. If PCRE2 reaches a limit, the automaton's
 * result counts if both agree on such text.
 */
static int confirm(struct scan *scan, const struct automaton *automaton, const struct line *line)
{
	struct text text = {scan->bytes.data + line->text.start, line->text.end - line->text.start};
	struct span match = {line->text.start, line->text.start};
	int r = match_alone(scan, line, &match);

	if (r == -E2BIG && automaton_is_exact(automaton, text))
		r = 1;
	return r > 0 ? report_match(scan, line, match) : r;
}

/* Scans the rest by checking the lines that the automaton finds. No match spans lines. */
static int scan_candidates(struct scan *scan, const struct automaton *automaton)
{
	struct text bytes = scan->bytes;

	while (scan->at < bytes.len) {
		struct candidates candidates = {.bytes = bytes, .offset = scan->at};
		int r = automaton_scan(automaton, scan->scanner->scratch,
			(struct text){bytes.data + scan->at, bytes.len - scan->at}, add_candidate,
			&candidates);

		if (r < 0)
			return r;
		if (candidates.unordered)
			return scan_by_pcre2(scan);
		for (size_t i = 0; i < candidates.count; i++) {
			r = confirm(scan, automaton, &candidates.line[i]);
			if (r != 0)
				return r;
			scan->at = candidates.line[i].next;
		}
		if (!candidates.full)
			return 0;
	}
	return 0;
}

static int note_match(size_t end, void *context)
{
	(void)end;
	*(bool *)context = true;
	return 1;
}

static bool make_scratch(struct scanner *scanner, const struct automaton *automaton)
{
	if (!scanner->scratch)
		scanner->scratch = automaton_scratch_new(automaton);
	return scanner->scratch != NULL;
}

/* Scans the rest with @automaton, which supports the pattern. */
static int scan_with(struct scan *scan, const struct automaton *automaton)
{
	struct text rest = {scan->bytes.data + scan->at, scan->bytes.len - scan->at};
	bool found = false;
	int r;

	if (!make_scratch(scan->scanner, automaton))
		return -ENOMEM;
	if (!scan->scanner->pattern->traits.crosses_lines)
		return scan_candidates(scan, automaton);
	r = automaton_scan(automaton, scan->scanner->scratch, rest, note_match, &found);
	return r < 0 || !found ? r : scan_by_pcre2(scan);
}

size_t scanner_mark_len(struct text bytes)
{
	return bytes.len >= 3 && memcmp(bytes.data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

int scanner_scan(struct scanner *scanner, struct text bytes, scan_visitor visit, void *context)
{
	struct scan_pattern *pattern = scanner->pattern;
	const size_t mark = scanner_mark_len(bytes);
	const struct automaton *automaton = scan_pattern_automaton(pattern, bytes.len);
	struct scan scan = {
		.scanner = scanner,
		.visit = visit,
		.context = context,
		.number = 1,
	};
	int r;

	bytes = (struct text){bytes.data + mark, bytes.len - mark};
	scan.bytes = bytes;
	if (automaton && automaton_can_scan(automaton, bytes))
		return scan_with(&scan, automaton);
	r = scan_by_pcre2(&scan);
	if (r != -E2BIG || automaton || pattern->engine == SCAN_BY_PCRE2)
		return r;
	automaton = scan_pattern_make_automaton(pattern, true);
	return automaton && automaton_can_scan(automaton, bytes) ? scan_with(&scan, automaton) : r;
}

/* Every match begins with @literal, of which the next part may hold the rest. */
static bool literal_rules_out(
	const struct literal *literal, struct text bytes, bool last, size_t *ret_done)
{
	const size_t kept = last ? 0 : literal->text.len - 1;

	*ret_done = bytes.len > kept ? bytes.len - kept : 0;
	return literal_find(literal, bytes, 0) == bytes.len;
}

/* No match spans lines, and what @automaton finds depends on the line alone. */
static bool automaton_rules_out(struct scanner *scanner, const struct automaton *automaton,
	struct text bytes, bool last, size_t *ret_done)
{
	const char *newline = memrchr(bytes.data, '\n', bytes.len);
	bool found = false;

	if (!last && !newline)
		return false;
	if (!last)
		bytes.len = (size_t)(newline + 1 - bytes.data);
	*ret_done = bytes.len;
	return automaton_can_scan(automaton, bytes) && make_scratch(scanner, automaton) &&
	       automaton_scan(automaton, scanner->scratch, bytes, note_match, &found) == 0 &&
	       !found;
}

bool scanner_rules_out(struct scanner *scanner, struct text bytes, bool last, size_t *ret_done)
{
	struct scan_pattern *pattern = scanner->pattern;
	const struct automaton *automaton;

	if (pattern->start.text.len > 0)
		return literal_rules_out(&pattern->start, bytes, last, ret_done);
	automaton = scan_pattern_automaton(pattern, 0);
	return automaton && !pattern->traits.crosses_lines &&
	       automaton_rules_out(scanner, automaton, bytes, last, ret_done);
}
