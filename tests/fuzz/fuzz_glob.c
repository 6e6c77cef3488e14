/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * Globs, compared with a reference that tries every way to match; and patterns with braces,
 * compared with their alternatives.
 *
 * Input: the pattern up to a newline, then the path.
 */
#include "common/limits.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/reference_glob.h"

static void check_match(struct text pattern, struct text path)
{
	bool matches = glob_match(pattern, path);

	if (glob_check(pattern) < 0)
		CHECK(!matches);
	else if (reference_can(pattern, path))
		CHECK(matches == reference_match(pattern, path));
}

/* "{A,B}" matches exactly if A or B does. */
static void check_braces(struct text pattern, struct text path)
{
	char both[2 * LIMIT_NAME_BYTES + 4];
	struct glob_set *one = NULL, *two = NULL;
	size_t len;

	if (pattern.len > LIMIT_NAME_BYTES || glob_set_new(pattern, &one) != TOOL_OK || !one)
		return;
	len = (size_t)snprintf(
		both, sizeof(both), "{%.*s,no-such-name}", (int)pattern.len, pattern.data);
	/* Inside the braces, the pattern's own commas and braces would have another meaning. */
	if (!memchr(pattern.data, '{', pattern.len) && !memchr(pattern.data, '}', pattern.len) &&
		!memchr(pattern.data, ',', pattern.len) && !text_has_nul(pattern)) {
		CHECK(glob_set_new((struct text){both, len}, &two) == TOOL_OK);
		if (!text_equal(path, TEXT_LITERAL("no-such-name")) &&
			!memmem(path.data, path.len, "/no-such-name", 13))
			CHECK(glob_set_match(one, path, 0) == glob_set_match(two, path, 0));
	}
	/* A base changes nothing for a pattern without a slash. */
	if (!memchr(pattern.data, '/', pattern.len) && path.len > 1)
		CHECK(glob_set_match(one, path, 0) == glob_set_match(one, path, path.len / 2));
	glob_set_free(one);
	glob_set_free(two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text path = fuzz_text(data, size), pattern = text_take(&path, '\n');
	char *pattern_copy = fuzz_copy(pattern), *path_copy = fuzz_copy(path);

	pattern.data = pattern_copy;
	path.data = path_copy;
	check_match(pattern, path);
	if (path.len > 0)
		check_braces(pattern, path);
	free(pattern_copy);
	free(path_copy);
	return 0;
}
