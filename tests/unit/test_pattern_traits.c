/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/* What is read from a pattern's text. */
#include "tests/lib/unit.h"
#include "worker/files/search/pattern_traits.h"

TEST(test_traits)
{
	static const char *const unknown[] = {"a(?=b)", "(a)\\1", "a++", "\\p{L}", "\\Qa\\E",
		"(?x)a", "(?<n>a)", "\\x41", "\\Aa", "a\\z", "\\R", "\\h", "[a-\\d]",
		"[[:^alpha:]]", "[[:upper:]]", "(*LIMIT_MATCH=1)a", "\\Ka", "a{1,2000}",
		"(a{100}){100}", "(?i)\xc3\xa9", "a{,3}", "\\b*a", "[\\b]", "a(?#x)", "\\G",
		"(?1)(a)", ""};
	static const struct {
		const char *pattern;
		bool ascii, crosses_lines, anchored, literal_start;
	} known[] = {
		{"abc", true, false, false, true},
		{"abc*", true, false, false, false},
		{"abcd*", true, false, false, true},
		{"abc|d", true, false, false, false},
		{"(?i)abc", true, false, false, true},
		{"(?i)kab", false, false, false, true},
		{"(?i)a[b-d]", false, false, false, false},
		{"\\b[a-z]{3}\\d", true, false, false, false},
		{"^a", true, false, true, false},
		{"a$", true, false, true, false},
		{".", false, false, false, false},
		{"\\w\\s", true, true, false, false},
		{"[^a]", false, true, false, false},
		{"\\S", false, false, false, false},
		{"[$^]", true, false, false, false},
		{"a\\r", true, true, false, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
		if (pattern_traits(text_from(unknown[i])).known)
			fail_msg("%s", unknown[i]);
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		struct pattern_traits traits = pattern_traits(text_from(known[i].pattern));

		if (!traits.known || traits.ascii != known[i].ascii ||
			traits.crosses_lines != known[i].crosses_lines ||
			traits.anchored != known[i].anchored ||
			traits.literal_start != known[i].literal_start)
			fail_msg("%s", known[i].pattern);
	}
}

TEST(test_views)
{
	static const struct {
		const char *pattern;
		enum pattern_view view;
		bool crosses;
	} cases[] = {
		{"(\\w+) \\1", PATTERN_SEES_MATCH, false},
		{"(?i:a)(?<n>b)(?P<m>c)", PATTERN_SEES_MATCH, false},
		{"(?s)a.*b", PATTERN_SEES_MATCH, true},
		{"a\\nb", PATTERN_SEES_MATCH, true},
		{"[^a]\\+", PATTERN_SEES_MATCH, true},
		{"\\\\A", PATTERN_SEES_MATCH, false},
		{"a\\++", PATTERN_SEES_MATCH, false},
		{"a(?=b)", PATTERN_SEES_LINE, false},
		{"a(?!\\W)", PATTERN_SEES_LINE, true},
		{"(?<=a)b", PATTERN_SEES_LINE, false},
		{"(?<!a)b", PATTERN_SEES_LINE, false},
		{"(?>a*)b", PATTERN_SEES_LINE, false},
		{"a*+b", PATTERN_SEES_LINE, false},
		{"a{2}+", PATTERN_SEES_LINE, false},
		{"(?x)a+ +b", PATTERN_SEES_LINE, false},
		{"(?-m)^a", PATTERN_SEES_LINE, false},
		{"(?^)^a", PATTERN_SEES_LINE, false},
		{"(*COMMIT)a", PATTERN_SEES_LINE, true},
		{"(?(?=a)b|c)", PATTERN_SEES_LINE, false},
		{"(a)(?1)", PATTERN_SEES_LINE, false},
		{"a\\Kb", PATTERN_SEES_LINE, false},
		{"\\c\\(?!x)", PATTERN_SEES_LINE, true},
		{"\\B^", PATTERN_SEES_LINE, false},
		{"\\Q\\E(?!x)", PATTERN_SEES_LINE, true},
		{"a(?![^\\n]*b)", PATTERN_SEES_LINE, true},
		{"(?<=a\\n)b", PATTERN_SEES_FILE, true},
		{"(?<=a\n)b", PATTERN_SEES_FILE, true},
		{"a(?!\\r)", PATTERN_SEES_FILE, true},
		{"\\Aa", PATTERN_SEES_FILE, false},
		{"a\\z", PATTERN_SEES_FILE, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct text pattern = text_from(cases[i].pattern);

		if (pattern_view(pattern) != cases[i].view ||
			pattern_may_cross_lines(pattern) != cases[i].crosses)
			fail_msg("%s: %d %d", cases[i].pattern, (int)pattern_view(pattern),
				pattern_may_cross_lines(pattern));
	}
}
