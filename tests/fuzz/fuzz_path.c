/* links: cloister-common */
// SPDX-License-Identifier: Apache-2.0
/*
 * The path rules, compared with a reference that works on path components and not on bytes: both
 * accept the same paths and find the same rest below the root. No path whose text leaves the root
 * is accepted.
 *
 * Input: one byte of flags, the visible root up to a newline, the path.
 */
#include "common/limits.h"
#include "common/path_rules.h"
#include "tests/fuzz/fuzz.h"

#define COMPONENTS 8192

struct components {
	struct text of[COMPONENTS];
	size_t n;
};

/* Splits at slashes, without empty components and ".". */
static void split(struct text path, struct components *ret)
{
	ret->n = 0;
	while (path.len > 0) {
		struct text component = text_take(&path, '/');

		if (component.len > 0 && !text_equal(component, TEXT_LITERAL(".")))
			ret->of[ret->n++] = component;
	}
}

static bool is_dotdot(struct text text)
{
	return text_equal(text, TEXT_LITERAL(".."));
}

static enum tool_error reference(
	struct text root, struct text path, bool raw, const struct components **ret_left)
{
	static struct components whole, wanted, left;
	static char bytes[LIMIT_PATH_BYTES];
	size_t from = 0;

	if (path.len == 0 || text_has_nul(path))
		return TOOL_INVALID_ARGUMENTS;
	if (path.len > LIMIT_PATH_BYTES)
		return TOOL_NAME_TOO_LONG;
	for (size_t i = 0; i < path.len; i++)
		bytes[i] = !raw && path.data[i] == '\\' ? '/' : path.data[i];
	if (!raw && path.len > 1 && bytes[1] == ':' &&
		((bytes[0] >= 'a' && bytes[0] <= 'z') || (bytes[0] >= 'A' && bytes[0] <= 'Z')))
		return TOOL_PATH_OUTSIDE_WORKSPACE;
	split((struct text){bytes, path.len}, &whole);
	split(root, &wanted);
	if (bytes[0] == '/') {
		if (whole.n < wanted.n)
			return TOOL_PATH_OUTSIDE_WORKSPACE;
		for (from = 0; from < wanted.n; from++)
			if (!text_equal(whole.of[from], wanted.of[from]))
				return TOOL_PATH_OUTSIDE_WORKSPACE;
	}
	left.n = whole.n - from;
	memcpy(left.of, whole.of + from, left.n * sizeof(*left.of));
	if (left.n > 0 && is_dotdot(left.of[0]))
		return TOOL_PATH_OUTSIDE_WORKSPACE;
	for (size_t i = 0; i < left.n; i++)
		if (left.of[i].len > LIMIT_NAME_BYTES)
			return TOOL_NAME_TOO_LONG;
	*ret_left = &left;
	return TOOL_OK;
}

static void check_accepted(struct text root, char *relative, const struct components *left)
{
	static struct components got;
	char *copy = strdup(relative), *again = NULL;
	size_t depth = 0;
	bool climbs = false;

	CHECK(copy && relative[0] != '/' && relative[0] != '\0');
	split(text_from(relative), &got);
	CHECK(got.n == left->n);
	for (size_t i = 0; i < got.n; i++)
		CHECK(text_equal(got.of[i], left->of[i]));
	for (size_t i = 0; i < got.n && !climbs; i++) {
		climbs = is_dotdot(got.of[i]) && depth == 0;
		depth += is_dotdot(got.of[i]) ? (size_t)-1 : 1;
	}
	CHECK(path_rules_climbs(relative) == climbs);
	/* An accepted path is accepted again and stays the same. */
	if (relative[1] != ':' && !strchr(relative, '\\')) {
		CHECK(path_rules_check(root, text_from(relative), false, &again) == TOOL_OK);
		CHECK(strcmp(again, relative) == 0);
		free(again);
	}
	path_rules_normalise(copy);
	split(text_from(copy), &got);
	CHECK(got.n == left->n);
	CHECK(strstr(copy, "//") == NULL && strlen(copy) <= strlen(relative));
	path_rules_normalise(relative);
	CHECK(strcmp(copy, relative) == 0);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text rest = fuzz_text(data, size), root;
	bool raw = fuzz_byte(&rest) & 1;
	const struct components *left = NULL;
	enum tool_error error, expected;
	char *root_copy, *path_copy, *relative = NULL;

	root = text_take(&rest, '\n');
	if (root.len == 0 || root.data[0] != '/' || text_has_nul(root) ||
		root.len > LIMIT_PATH_BYTES || rest.len > 2 * LIMIT_PATH_BYTES)
		return -1;
	root_copy = fuzz_copy(root);
	path_copy = fuzz_copy(rest);
	root.data = root_copy;
	rest.data = path_copy;
	error = path_rules_check(root, rest, raw, &relative);
	expected = reference(root, rest, raw, &left);
	CHECK(error == expected);
	CHECK((error == TOOL_OK) == (relative != NULL));
	CHECK(path_rules_sentence(error, rest));
	if (relative)
		check_accepted(root, relative, left);
	free(relative);
	free(root_copy);
	free(path_copy);
	return 0;
}
