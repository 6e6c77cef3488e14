/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Matches a regular expression with the bytes of one file, line by line; where the result is the
 * same, it matches the whole buffer at once. Used by search jobs of the files process. It does not
 * open files, so several scans can run at a time: the compiled pattern is shared, a scanner belongs
 * to one thread. pcre2api(3), pcre2pattern(3), pcre2jit(3).
 *
 * The pattern comes from a model and the bytes from a workspace. Together they could take
 * exponential time, so each match runs under LIMIT_SEARCH_MATCH_STEPS, _DEPTH_STEPS, _HEAP_BYTES
 * and _JIT_STACK_BYTES.
 *
 * There are two engines. PCRE2 decides what a match is, and alone scans short text and patterns
 * with a literal to search for. An automaton (automaton.h) is made for other patterns once a search
 * turns out to be long, and for any pattern that reached a limit; it finds the text that PCRE2 can
 * skip. The choice of the engine never changes the result.
 */

#include "worker/files/search/scan_pattern.h"

#include <stdint.h>

struct scanner;

/** Returns a scanner for @pattern, which must outlive it, or NULL if memory is out. */
struct scanner *scanner_new(struct scan_pattern *pattern);
void scanner_free(struct scanner *scanner);

/* A line that matched, in the scanned buffer. */
struct scan_line {
	uint64_t number;  /* from 1 */
	struct text text; /* without its newline and a carriage return before that */
	size_t match_at;  /* offset of the match in text, and */
	size_t match_len; /* how much of text it covers; it may go on in the next line */
};

/** Called for each line that matched. Any result but 0 ends the scan. */
typedef int (*scan_visitor)(const struct scan_line *line, void *context);

/**
 * Calls @visit once for every line of @bytes that matches, in order. A line ends at a newline; a
 * carriage return before that does not belong to it, any other is an ordinary character. A line
 * matches by itself, as if it were alone: `foo(?!\W)` finds a foo at its end. Only a pattern with
 * lookaround that names a newline, or asks for the file's ends, sees the whole file
 * (PATTERN_SEES_FILE). A line that matches by itself takes precedence: a match over several lines
 * counts only if none of them matches alone, and then for the first of which it holds a byte. So
 * `^\s*end` finds the line with `end`, not the blank one before it, and `\s$` finds trailing
 * blanks, not every newline. A byte order mark does not belong to the first line. Bytes that are
 * not UTF-8 match nothing and are skipped.
 *
 * Returns 0, the result of @visit, -E2BIG if a limit was reached, or -ENOMEM or -EIO if an engine
 * failed otherwise.
 */
int scanner_scan(struct scanner *scanner, struct text bytes, scan_visitor visit, void *context);

/** Returns how many bytes of @bytes, with which a file begins, are a byte order mark. */
size_t scanner_mark_len(struct text bytes);

/**
 * Looks at @bytes, a part of a text that is too long to be held whole. It begins at the text's
 * beginning, behind a byte order mark, or @ret_done bytes after the part before; @last: the text
 * ends with it. Returns true if no match begins in the first *@ret_done bytes. False:
 * scanner_scan() has to see the whole text.
 */
bool scanner_rules_out(struct scanner *scanner, struct text bytes, bool last, size_t *ret_done);
