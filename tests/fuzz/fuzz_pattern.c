/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * A regular expression from a model over a file of a workspace: PCRE2 alone and the automaton find
 * the same lines, each once and in order, and all matches are in the file. pattern_traits decides
 * which of the two scans, so a construct that it misreads shows here.
 *
 * Input: the pattern up to a newline, then the file.
 */
#include "common/limits.h"
#include "tests/fuzz/fuzz.h"
#include "worker/files/search/pattern_scan.h"
#include "worker/files/search/pattern_traits.h"

#include <errno.h>

#define LINES 4096

struct found {
	struct text bytes;
	uint64_t lines[LINES];
	size_t n;
	int result;
};

static int note(const struct scan_line *line, void *context)
{
	struct found *found = context;

	CHECK(line->text.data >= found->bytes.data);
	CHECK(line->text.data + line->text.len <= found->bytes.data + found->bytes.len);
	CHECK(line->match_at + line->match_len <= line->text.len);
	CHECK(line->text.len == 0 || !memchr(line->text.data, '\n', line->text.len));
	CHECK(found->n == 0 || found->lines[found->n - 1] < line->number);
	CHECK(found->n < LINES);
	found->lines[found->n++] = line->number;
	return 0;
}

/* Returns false if there is no such engine. */
static bool scan(enum scan_engine engine, struct text pattern, struct text bytes, struct found *ret)
{
	struct scan_pattern *compiled;
	struct scan_error error;
	struct scanner *scanner;

	ret->bytes = bytes;
	ret->n = 0;
	if (scan_pattern_new(pattern, &compiled, &error) < 0) {
		CHECK(error.offset <= pattern.len && error.message[0]);
		return false;
	}
	if (!scan_pattern_force_engine(compiled, engine)) {
		scan_pattern_free(compiled);
		return false;
	}
	scanner = scanner_new(compiled);
	CHECK(scanner);
	ret->result = scanner_scan(scanner, bytes, note, ret);
	CHECK(ret->result == 0 || ret->result == -E2BIG);
	scanner_free(scanner);
	scan_pattern_free(compiled);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct found by_pcre2, by_automaton;
	struct text rest = fuzz_text(data, size);
	struct text pattern = text_take(&rest, '\n');
	char *pattern_copy, *copy;

	/* Patterns that take a second each would not find more mistakes than short ones. */
	if (pattern.len > 200 || rest.len >= LINES)
		return -1;
	pattern_copy = fuzz_copy(pattern);
	copy = fuzz_copy(rest);
	pattern.data = pattern_copy;
	rest.data = copy;
	if (scan(SCAN_BY_PCRE2, pattern, rest, &by_pcre2) &&
		scan(SCAN_BY_AUTOMATON, pattern, rest, &by_automaton) && by_pcre2.result == 0 &&
		by_automaton.result == 0) {
		CHECK(by_pcre2.n == by_automaton.n);
		CHECK(memcmp(by_pcre2.lines, by_automaton.lines,
			      by_pcre2.n * sizeof(*by_pcre2.lines)) == 0);
	}
	free(pattern_copy);
	free(copy);
	return 0;
}
