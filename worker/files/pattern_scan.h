/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-files: a regular expression over the bytes of one file, line by line as a reader sees
 * it; where that makes no difference it is matched over the whole buffer at once. It knows nothing
 * of files, so that several may run at a time: the compiled pattern is shared, a scanner belongs to
 * one thread. pcre2api(3), pcre2pattern(3), pcre2jit(3).
 *
 * The pattern is the model's and the bytes are the workspace's; the two together may ask for
 * exponential time, so each match runs under LIMIT_SEARCH_MATCH_STEPS, _DEPTH_STEPS, _HEAP_BYTES
 * and _JIT_STACK_BYTES.
 *
 * There are two engines. PCRE2 says what a match is, and alone does what is short or has a literal
 * to look for. An automaton (automaton.h) is made for the other patterns once a search turns out to
 * be long, and for any whose matching reached a limit; it says where PCRE2 need not look. Which of
 * them scans is never seen in what is found.
 */

#include "worker/files/scan_pattern.h"

#include <stdint.h>

struct scanner;

/** A scanner for @pattern, which must outlive it. NULL: out of memory. */
struct scanner *scanner_new(struct scan_pattern *pattern);
void scanner_free(struct scanner *scanner);

/* A line that matched, in the buffer that was scanned. */
struct scan_line {
	uint64_t number;  /* from 1 */
	struct text text; /* without its newline and a carriage return before that */
	size_t match_at;  /* where in text the match begins, and */
	size_t match_len; /* how much of text it covers; it may go on in the next line */
};

/** Called for each line that matched. Anything but 0 ends the scan. */
typedef int (*scan_visitor)(const struct scan_line *line, void *context);

/**
 * Calls @visit for every line of @bytes that matches, once each and in order. A line ends at a
 * newline, a carriage return before which is no part of it; any other is a character like others.
 * A line matches by itself, as if there were no other: `foo(?!\W)` finds a foo at its end. Only a
 * pattern that looks around and names a newline, or asks for the file's ends, sees the whole file
 * (PATTERN_SEES_FILE). A line that matches by itself comes first: a match over several lines counts
 * only if none of them matches alone, and then for the first that it has a byte of. So `^\s*end`
 * finds the line with `end`, not the blank one before it, and `\s$` finds trailing blanks, not
 * every newline. A byte order mark is no part of the first line. Bytes that are not UTF-8 match
 * nothing but are passed over.
 *
 * Returns 0, what @visit returned, -E2BIG when a limit was reached, or -ENOMEM or -EIO when an
 * engine failed otherwise.
 */
int scanner_scan(struct scanner *scanner, struct text bytes, scan_visitor visit, void *context);
