/* links: cloister-common */
// SPDX-License-Identifier: Apache-2.0
#include "common/path_rules.h"
#include "tests/lib/unit.h"

struct rule_case {
	const char *name;
	const char *root;
	const char *path;
	bool raw;
	enum tool_error error;
	const char *relative; /* if TOOL_OK */
};

#define OUTSIDE TOOL_PATH_OUTSIDE_WORKSPACE

static const struct rule_case cases[] = {
	/* seed 000's test plan */
	{"000: absolute path inside root is accepted and preserved", "/tmp/root",
		"/tmp/root/logs/output.log", false, TOOL_OK, "logs/output.log"},
	{"000: absolute path outside root is rejected", "/tmp/root", "/etc/passwd", false, OUTSIDE,
		NULL},
	{"000: workspace root / does not normalize to //", "/", "/home/kevin/worktrees/assistant",
		false, TOOL_OK, "home/kevin/worktrees/assistant"},
	/* seed 001's validatePath */
	{"001: allows relative paths within workspace", "/tmp/ws", "src/main.c", false, TOOL_OK,
		"src/main.c"},
	{"001: allows .", "/tmp/ws", ".", false, TOOL_OK, "."},
	{"001: allows ./subdir/file.txt", "/tmp/ws", "./subdir/file.txt", false, TOOL_OK,
		"./subdir/file.txt"},
	{"001: rejects ../../../etc/passwd", "/tmp/ws", "../../../etc/passwd", false, OUTSIDE,
		NULL},
	{"001: rejects absolute paths outside workspace", "/tmp/ws", "/etc/passwd", false, OUTSIDE,
		NULL},
	{"001: rejects C:\\Windows\\system32", "/tmp/ws", "C:\\Windows\\system32", false, OUTSIDE,
		NULL},
	{"001: rejects many .. levels", "/tmp/ws", "./../../../../../../../../x", false, OUTSIDE,
		NULL},
	{"001: trailing slash", "/tmp/ws", "subdir/", false, TOOL_OK, "subdir/"},

	{"root itself", "/tmp/root", "/tmp/root", false, TOOL_OK, "."},
	{"root itself with slashes", "/tmp/root", "//tmp//root//", false, TOOL_OK, "."},
	{"root given with a slash", "/tmp/root/", "/tmp/root/a", false, TOOL_OK, "a"},
	{"component boundary", "/tmp/root", "/tmp/rootx", false, OUTSIDE, NULL},
	{"prefix of root", "/tmp/root", "/tmp", false, OUTSIDE, NULL},
	{"absolute that climbs out", "/tmp/root", "/tmp/root/../x", false, OUTSIDE, NULL},
	{"absolute with .. before the root", "/tmp/root", "/tmp/a/../root/x", false, OUTSIDE, NULL},
	{"absolute with dots", "/tmp/root", "/./tmp/./root/./x", false, TOOL_OK, "./x"},
	{"/ under /", "/", "/", false, TOOL_OK, "."},
	{"// under /", "/", "//etc", false, TOOL_OK, "etc"},
	{"//etc is absolute", "/tmp/root", "//etc", false, OUTSIDE, NULL},
	{"/.. under /", "/", "/../etc", false, OUTSIDE, NULL},
	{"UNC", "/tmp/root", "\\\\host\\share", false, OUTSIDE, NULL},
	{"backslashes", "/tmp/root", "a\\b\\c.txt", false, TOOL_OK, "a/b/c.txt"},
	{"climbing by backslashes", "/tmp/root", "..\\..\\x", false, OUTSIDE, NULL},
	{"absolute by backslashes", "/tmp/root", "\\etc\\passwd", false, OUTSIDE, NULL},
	{"drive with slash", "/", "c:/x", false, OUTSIDE, NULL},
	{"drive relative", "/", "c:x", false, OUTSIDE, NULL},
	{"drive alone", "/", "Z:", false, OUTSIDE, NULL},
	{"no drive", "/", "ab:c", false, TOOL_OK, "ab:c"},
	{"no drive behind a dot", "/", "./c:x", false, TOOL_OK, "./c:x"},
	{"raw backslash", "/tmp/root", "a\\b", true, TOOL_OK, "a\\b"},
	{"raw drive", "/tmp/root", "c:\\x", true, TOOL_OK, "c:\\x"},
	{"raw climbs", "/tmp/root", "../x", true, OUTSIDE, NULL},
	{"a/.. may be anywhere", "/tmp/root", "a/../../b", false, TOOL_OK, "a/../../b"},
	{"..name is a name", "/tmp/root", "..a/...", false, TOOL_OK, "..a/..."},
	{"percent is ordinary", "/tmp/root", "%2e%2e/%2fetc", false, TOOL_OK, "%2e%2e/%2fetc"},
	{"tilde is ordinary", "/tmp/root", "~/x", false, TOOL_OK, "~/x"},
	{"empty", "/tmp/root", "", false, TOOL_INVALID_ARGUMENTS, NULL},
	{"spaces are names", "/tmp/root", " ", false, TOOL_OK, " "},
};

TEST(test_cases)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *relative = NULL;
		enum tool_error error = path_rules_check(text_from(cases[i].root),
			text_from(cases[i].path), cases[i].raw, &relative);

		if (error != cases[i].error)
			fail_msg("%s: %s", cases[i].name, tool_error_name(error));
		if (error == TOOL_OK)
			assert_string_equal(relative, cases[i].relative);
		else
			assert_null(relative);
	}
}

static enum tool_error check_length(size_t len, const char *fill)
{
	_cleanup_free_ char *relative = NULL;
	_cleanup_free_ char *path = malloc(len);

	assert_non_null(path);
	for (size_t i = 0; i < len; i++)
		path[i] = fill[i % strlen(fill)];
	return path_rules_check(TEXT_LITERAL("/"), (struct text){path, len}, false, &relative);
}

TEST(test_lengths)
{
	assert_int_equal(check_length(255, "a"), TOOL_OK);
	assert_int_equal(check_length(256, "a"), TOOL_NAME_TOO_LONG);
	assert_int_equal(check_length(LIMIT_PATH_BYTES, "a/"), TOOL_OK);
	assert_int_equal(check_length(LIMIT_PATH_BYTES, "/"), TOOL_OK);
	assert_int_equal(check_length(LIMIT_PATH_BYTES + 1, "a/"), TOOL_NAME_TOO_LONG);
}

TEST(test_sentences)
{
	char *relative = NULL;

	assert_int_equal(
		path_rules_check(TEXT_LITERAL("/"), TEXT_LITERAL("a\0b"), false, &relative),
		TOOL_INVALID_ARGUMENTS);
	assert_null(relative);
	assert_string_equal(path_rules_sentence(TOOL_INVALID_ARGUMENTS, TEXT_LITERAL("a\0b")),
		"The path holds a NUL byte");
	assert_non_null(strstr(path_rules_sentence(TOOL_INVALID_ARGUMENTS, (struct text){NULL, 0}),
		"use \".\" for the workspace's root"));
	assert_string_equal(
		path_rules_sentence(TOOL_PATH_OUTSIDE_WORKSPACE, TEXT_LITERAL("/etc/passwd")),
		"Invalid path: access outside workspace is not allowed");
}

TEST(test_helpers)
{
	static const char *const normalised[][2] = {
		{"a//b/./c/", "a/b/c"}, {".", "."}, {"./", "."}, {"./a", "a"}, {"a/..", "a/.."}};

	for (size_t i = 0; i < ARRAY_SIZE(normalised); i++) {
		char path[16];

		strcpy(path, normalised[i][0]);
		path_rules_normalise(path);
		assert_string_equal(path, normalised[i][1]);
	}
	assert_true(path_rules_climbs("a/../.."));
	assert_true(path_rules_climbs("./a/b/../../../c"));
	assert_false(path_rules_climbs("a/../b/c/../.."));
	assert_false(path_rules_climbs("..."));
	assert_true(path_rules_has_dotdot("a/b/.."));
	assert_false(path_rules_has_dotdot("a/..b/c"));
	assert_string_equal(path_rules_rebase(TEXT_LITERAL("/a/b"), "/a/b/c"), "c");
	assert_null(path_rules_rebase(TEXT_LITERAL("/a/b"), "/a"));
}
