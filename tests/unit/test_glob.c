/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/rounds.h"
#include "tests/lib/unit.h"
#include "worker/files/walk/glob.h"

struct sample {
	const char *pattern;
	const char *path;
	bool matches;
};

/* The results of git 2.39's wildmatch with WM_PATHNAME. */
static const struct sample samples[] = {
	{"", "", true},
	{"", "a", false},
	{"a", "", false},
	{"abc", "abc", true},
	{"abc", "abcd", false},
	{"a?c", "abc", true},
	{"a?c", "a/c", false},
	{"*", "abc", true},
	{"*", "", true},
	{"*", "a/b", false},
	{"*/b", "a/b", true},
	{"*/*", "a/b/c", false},
	{"a*c*e", "abcde", true},
	{"a*c*e", "abcdef", false},
	{"*ab", "aab", true},
	{"**", "a/b/c", true},
	{"**", "", true},
	{"**/c", "c", true},
	{"**/c", "a/b/c", true},
	{"**/c", "a/bc", false},
	{"a/**", "a/b/c", true},
	{"a/**", "a", false},
	{"a/**/b", "a/b", true},
	{"a/**/b", "a/x/y/b", true},
	{"a/**/b", "a/xb", false},
	{"a/**/**/b", "a/b", true},
	{"a/***/b", "a/x/y/b", true},
	{"a**b", "axb", true},
	{"a**b", "a/b", false},
	{"**a", "x/a", false},
	{"**/*a/b", "a/x/ya/b", true},
	{"**/a*/**/c", "a/b/ax/y/c", true},
	{"*/**/c", "a/c", true},
	{"a/**\\/b", "a/x/b", true},
	{"a/**\\/b", "a/b", false},
	{"[abc]", "b", true},
	{"[!abc]", "b", false},
	{"[^abc]", "d", true},
	{"[a-c]x", "bx", true},
	{"[c-a]", "b", false},
	{"[]a]", "]", true},
	{"[!]a]", "]", false},
	{"[a-]", "-", true},
	{"[-a]", "-", true},
	{"[\\]]", "]", true},
	{"[\\a-\\c]", "b", true},
	{"[/]", "/", false},
	{"[!a]", "/", false},
	{"a[[:digit:]]", "a7", true},
	{"a[[:digit:]]", "ax", false},
	{"[[:space:]]", "\v", false},
	{"[[:space:][:upper:]]", "Q", true},
	{"[[:alpha:]-z]", "-", true},
	{"[[:]", ":", true},
	{"[[:nonsense:]]", "n", false},
	{"[a", "a", false},
	{"[", "[", false},
	{"a\\*", "a*", true},
	{"a\\*", "ab", false},
	{"a\\", "a\\", false},
	{"\xc3\xa9*", "\xc3\xa9t\xc3\xa9", true},
	{"{a,b}", "a", false},
	{"{a,b}", "{a,b}", true},
};

TEST(test_match)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		const struct sample *sample = &samples[i];

		if (glob_match(text_from(sample->pattern), text_from(sample->path)) !=
			sample->matches)
			fail_msg("%s with %s should be %d", sample->pattern, sample->path,
				sample->matches);
	}
}

/* git's own test of wildmatch (t/t3070-wildmatch.sh), by pattern: what matches or not. */
static const struct {
	const char *pattern;
	const char *matches[4];
	const char *others[4];
} published[] = {
	{"foo", {"foo"}, {0}},
	{"bar", {0}, {"foo"}},
	{"", {""}, {"foo"}},
	{"?\??", {"foo"}, {0}},
	{"?\?", {0}, {"foo"}},
	{"*", {"foo"}, {0}},
	{"f*", {"foo"}, {0}},
	{"*f", {0}, {"foo"}},
	{"*foo*", {"foo"}, {0}},
	{"*ob*a*r*", {"foobar"}, {0}},
	{"*ab", {"aaaaaaabababab"}, {0}},
	{"foo\\*", {"foo*"}, {0}},
	{"foo\\*bar", {0}, {"foobar"}},
	{"f\\\\oo", {"f\\oo"}, {0}},
	{"*[al]?", {"ball"}, {0}},
	{"[ten]", {0}, {"ten"}},
	{"**[!te]", {"ten"}, {0}},
	{"**[!ten]", {0}, {"ten"}},
	{"t[a-g]n", {"ten"}, {0}},
	{"t[!a-g]n", {"ton"}, {"ten"}},
	{"t[^a-g]n", {"ton"}, {0}},
	{"a[]]b", {"a]b"}, {0}},
	{"a[]-]b", {"a-b", "a]b"}, {"aab"}},
	{"a[]a-]b", {"aab"}, {0}},
	{"]", {"]"}, {0}},
	{"foo*bar", {0}, {"foo/baz/bar"}},
	{"foo**bar", {"foobazbar"}, {"foo/baz/bar"}},
	{"foo/**/bar", {"foo/baz/bar", "foo/b/a/z/bar", "foo/bar"}, {0}},
	{"foo/**/**/bar", {"foo/baz/bar", "foo/b/a/z/bar", "foo/bar"}, {0}},
	{"foo?bar", {0}, {"foo/bar"}},
	{"foo[/]bar", {0}, {"foo/bar"}},
	{"foo[^a-z]bar", {0}, {"foo/bar"}},
	{"f[^eiu][^eiu][^eiu][^eiu][^eiu]r", {"foo-bar"}, {"foo/bar"}},
	{"**/foo", {"foo", "XXX/foo", "bar/baz/foo"}, {0}},
	{"*/foo", {0}, {"bar/baz/foo"}},
	{"**/bar*", {0}, {"foo/bar/baz"}},
	{"**/bar/*", {"deep/foo/bar/baz"}, {"deep/foo/bar/baz/", "deep/foo/bar"}},
	{"**/bar/**", {"deep/foo/bar/baz/", "deep/foo/bar/"}, {0}},
	{"**/bar**", {0}, {"foo/bar/baz"}},
	{"*/bar/**", {"foo/bar/baz/x"}, {"deep/foo/bar/baz/x"}},
	{"**/bar/*/*", {"deep/foo/bar/baz/x"}, {0}},
	{"a[c-c]st", {0}, {"acrt"}},
	{"a[c-c]rt", {"acrt"}, {0}},
	{"[!]-]", {"a"}, {"]"}},
	{"\\", {0}, {"", "\\"}},
	{"*/\\", {0}, {"XXX/\\"}},
	{"*/\\\\", {"XXX/\\"}, {0}},
	{"@foo", {"@foo"}, {"foo"}},
	{"\\[ab]", {"[ab]"}, {0}},
	{"[[]ab]", {"[ab]"}, {0}},
	{"[[:]ab]", {"[ab]"}, {0}},
	{"[[::]ab]", {0}, {"[ab]"}},
	{"[[:digit]ab]", {"[ab]"}, {0}},
	{"[\\[:]ab]", {"[ab]"}, {0}},
	{"\\?\?\\?b", {"?a?b"}, {0}},
	{"\\a\\b\\c", {"abc"}, {0}},
	{"**/t[o]", {"foo/bar/baz/to"}, {0}},
	{"[[:alpha:]][[:digit:]][[:upper:]]", {"a1B"}, {0}},
	{"[[:digit:][:upper:][:space:]]", {"A", "1", " "}, {"a", "."}},
	{"[[:digit:][:upper:][:spaci:]]", {0}, {"1"}},
	{"[[:digit:][:punct:][:space:]]", {"."}, {0}},
	{"[[:xdigit:]]", {"5", "f", "D"}, {0}},
	{"[[:alnum:][:alpha:][:blank:][:cntrl:][:digit:][:graph:][:lower:][:print:][:punct:][:"
	 "space:][:upper:][:xdigit:]]",
		{"_"}, {0}},
	{"[^[:alnum:][:alpha:][:blank:][:cntrl:][:digit:][:lower:][:space:][:upper:][:xdigit:]]",
		{"."}, {0}},
	{"[a-c[:digit:]x-z]", {"5", "b", "y"}, {"q"}},
	{"[\\\\-^]", {"]"}, {"["}},
	{"[\\-_]", {"-"}, {0}},
	{"[\\]]", {"]"}, {"\\]", "\\"}},
	{"a[]b", {0}, {"ab", "a[]b"}},
	{"ab[", {0}, {"ab["}},
	{"[!", {0}, {"ab"}},
	{"[-", {0}, {"ab"}},
	{"[-]", {"-"}, {0}},
	{"[a-", {0}, {"-"}},
	{"[!a-", {0}, {"-"}},
	{"[--A]", {"-", "5"}, {0}},
	{"[ --]", {" ", "$", "-"}, {"0"}},
	{"[---]", {"-"}, {0}},
	{"[------]", {"-"}, {0}},
	{"[a-e-n]", {"-"}, {"j"}},
	{"[!------]", {"a"}, {0}},
	{"[]-a]", {"^"}, {"["}},
	{"[!]-a]", {"["}, {"^"}},
	{"[a^bc]", {"^"}, {0}},
	{"[a-]b]", {"-b]"}, {0}},
	{"[\\]", {0}, {"\\"}},
	{"[\\\\]", {"\\"}, {0}},
	{"[!\\\\]", {0}, {"\\"}},
	{"[A-\\\\]", {"G"}, {0}},
	{"b*a", {0}, {"aaabbb"}},
	{"*ba*", {0}, {"aabcaa"}},
	{"[,]", {","}, {0}},
	{"[\\\\,]", {",", "\\"}, {0}},
	{"[,-.]", {"-"}, {"+", "-.]"}},
	{"[\\1-\\3]", {"2", "3"}, {"4"}},
	{"[[-\\]]", {"\\", "[", "]"}, {"-"}},
	{"-*-*-*-*-*-*-12-*-*-*-m-*-*-*",
		{"-adobe-courier-bold-o-normal--12-120-75-75-m-70-iso8859-1"},
		{"-adobe-courier-bold-o-normal--12-120-75-75-X-70-iso8859-1",
			"-adobe-courier-bold-o-normal--12-120-75-75-/-70-iso8859-1"}},
	{"XXX/*/*/*/*/*/*/12/*/*/*/m/*/*/*",
		{"XXX/adobe/courier/bold/o/normal//12/120/75/75/m/70/iso8859/1"},
		{"XXX/adobe/courier/bold/o/normal//12/120/75/75/X/70/iso8859/1"}},
	{"**/*a*b*g*n*t", {"abcd/abcdefg/abcdefghijk/abcdefghijklmnop.txt"},
		{"abcd/abcdefg/abcdefghijk/abcdefghijklmnop.txtz"}},
	{"*/*/*", {"foo/bba/arr"}, {"foo", "foo/bar", "foo/bb/aa/rr"}},
	{"**/**/**", {"foo/bb/aa/rr"}, {0}},
	{"*X*i", {"abcXdefXghi"}, {"ab/cXd/efXg/hi"}},
	{"*/*X*/*/*i", {"ab/cXd/efXg/hi"}, {0}},
	{"**/*X*/**/*i", {"ab/cXd/efXg/hi"}, {0}},
	{"fo", {0}, {"foo"}},
	{"foo/bar", {"foo/bar"}, {0}},
	{"foo/*", {"foo/bar"}, {"foo/bba/arr"}},
	{"foo/**", {"foo/bba/arr"}, {0}},
	{"foo*", {0}, {"foo/bba/arr"}},
	{"foo**", {0}, {"foo/bba/arr"}},
	{"foo/*arr", {0}, {"foo/bba/arr"}},
	{"foo/**arr", {0}, {"foo/bba/arr"}},
	{"foo/*z", {0}, {"foo/bba/arr"}},
	{"foo/**z", {0}, {"foo/bba/arr"}},
	{"*Xg*i", {0}, {"ab/cXd/efXg/hi"}},
	{"[A-Z]", {"A"}, {"a"}},
	{"[a-z]", {"a"}, {"A"}},
	{"[[:upper:]]", {"A"}, {"a"}},
	{"[[:lower:]]", {"a"}, {"A"}},
	{"[B-Za]", {"a"}, {"A"}},
	{"[B-a]", {"a"}, {"A"}},
	{"[Z-y]", {"Z"}, {"z"}},
};

TEST(test_published)
{
	for (size_t i = 0; i < ARRAY_SIZE(published); i++) {
		struct text pattern = text_from(published[i].pattern);

		for (size_t j = 0; j < 4; j++) {
			const char *path = published[i].matches[j];
			const char *other = published[i].others[j];

			if (path && !glob_match(pattern, text_from(path)))
				fail_msg("%s should match %s", published[i].pattern, path);
			if (other && glob_match(pattern, text_from(other)))
				fail_msg("%s should not match %s", published[i].pattern, other);
		}
	}
}

TEST(test_check)
{
	static const char *const bad[] = {"[", "[a", "[!", "[]", "[[:alpha:]", "[[:nonsense:]]",
		"[[::]]", "[a\\", "a\\", "x[a-"};
	static const char *const good[] = {"", "*", "[]]", "[[:]", "\\[", "a\\\\", "{", "**"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (glob_check(text_from(bad[i])) != -EINVAL)
			fail_msg("%s is malformed", bad[i]);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		if (glob_check(text_from(good[i])) != 0)
			fail_msg("%s is not malformed", good[i]);
}

static bool set_matches(const char *pattern, const char *path, size_t base)
{
	struct glob_set *set;
	bool matches;

	if (glob_set_new(text_from(pattern), &set) != TOOL_OK)
		fail_msg("%s was refused", pattern);
	matches = glob_set_match(set, text_from(path), base);
	glob_set_free(set);
	return matches;
}

TEST(test_set)
{
	assert_true(set_matches("", "src/main.c", 0));
	/* without a slash: the last component */
	assert_true(set_matches("*.c", "src/main.c", 0));
	assert_true(set_matches("*.c", "main.c", 0));
	assert_false(set_matches("*.c", "src.c/main.h", 0));
	/* with one: the path from the root, or from the directory that was listed */
	assert_true(set_matches("src/*.c", "src/main.c", 0));
	assert_true(set_matches("src/*.c", "src/main.c", 3));
	assert_true(set_matches("lib/*.c", "src/lib/main.c", 3));
	assert_false(set_matches("lib/*.c", "src/lib/main.c", 0));
	assert_true(set_matches("**/*.c", "main.c", 0));
	assert_true(set_matches("./main.c", "main.c", 0));
	assert_false(set_matches("./main.c", "src/main.c", 0));
	assert_true(set_matches("/main.c", "src/main.c", 3));
	/* alternatives */
	assert_true(set_matches("*.{c,h}", "src/main.h", 0));
	assert_false(set_matches("*.{c,h}", "src/main.o", 0));
	assert_true(set_matches("{src/*.{c,h},*.md}", "doc/a.md", 0));
	assert_true(set_matches("{src/*.{c,h},*.md}", "src/a.h", 0));
	assert_false(set_matches("{src/*.{c,h},*.md}", "doc/a.h", 0));
	assert_true(set_matches("a{,b}", "a", 0));
	assert_true(set_matches("a{,b}{c,d}", "abd", 0));
	assert_true(set_matches("{a}", "a", 0));
	assert_true(set_matches("[{]a,b}", "{a,b}", 0));
	assert_true(set_matches("\\{a,b}", "{a,b}", 0));
	assert_true(set_matches("{\\},[}],c}x", "}x", 0));
}

TEST(test_set_refused)
{
	static const struct {
		const char *pattern;
		enum tool_error error;
	} refused[] = {
		{"[a", TOOL_INVALID_PATTERN},
		{"{a,b", TOOL_INVALID_PATTERN},
		{"{a,[b}", TOOL_INVALID_PATTERN},
		{"{a,b\\", TOOL_INVALID_PATTERN},
		{"{a,{b}", TOOL_INVALID_PATTERN},
		{"{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", TOOL_PATTERN_TOO_COMPLEX},
	};
	char nested[2 * LIMIT_GLOB_ALTERNATIVES + 3];
	struct glob_set *set;

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		if (glob_set_new(text_from(refused[i].pattern), &set) != refused[i].error)
			fail_msg("%s", refused[i].pattern);
	memset(nested, '{', sizeof(nested) / 2);
	memset(nested + sizeof(nested) / 2, '}', sizeof(nested) / 2);
	assert_int_equal(glob_set_new((struct text){nested, sizeof(nested) / 2 * 2}, &set),
		TOOL_PATTERN_TOO_COMPLEX);
}

/* Patterns on which a backtracking matcher would never finish, nor would this test. */
TEST(test_time)
{
	char path[LIMIT_PATH_BYTES], stars[2 * 200], trees[4 * 200];

	for (size_t i = 0; i < sizeof(path); i++)
		path[i] = i % 16 == 15 ? '/' : 'a';
	for (size_t i = 0; i < sizeof(stars); i += 2)
		memcpy(stars + i, "*a", 2);
	for (size_t i = 0; i < sizeof(trees); i += 4)
		memcpy(trees + i, "**/a", 4);
	stars[sizeof(stars) - 1] = trees[sizeof(trees) - 1] = 'b';
	assert_false(
		glob_match((struct text){stars, sizeof(stars)}, (struct text){path, sizeof(path)}));
	assert_false(
		glob_match((struct text){trees, sizeof(trees)}, (struct text){path, sizeof(path)}));
}

/* A second matcher, exponential and plain. */
static bool slow_match(const char *p, const char *t, bool at_start)
{
	if (*p == '\0')
		return *t == '\0';
	if (strncmp(p, "**/", 3) == 0 && at_start) {
		for (const char *slash = strchr(t, '/'); slash; slash = strchr(slash + 1, '/'))
			if (slow_match(p + 3, slash + 1, true))
				return true;
		return slow_match(p + 3, t, true);
	}
	if (strcmp(p, "**") == 0 && at_start)
		return true;
	if (*p == '*')
		return slow_match(p + 1, t, false) ||
		       (*t && *t != '/' && slow_match(p, t + 1, false));
	if (*t == '\0' || (*p == '?' ? *t == '/' : *p != *t))
		return false;
	return slow_match(p + 1, t + 1, *p == '/');
}

static void random_string(char *out, size_t max, const char *alphabet)
{
	size_t len = (size_t)rand() % max;

	for (size_t i = 0; i < len; i++)
		*out++ = alphabet[(size_t)rand() % strlen(alphabet)];
	*out = '\0';
}

TEST(test_against_slow)
{
	unsigned seed = (unsigned)oracle_seed();

	print_message("seed %u\n", seed);
	srand(seed);
	for (size_t i = 0, cases = rounds(20000, 100000); i < cases; i++) {
		char pattern[12], path[12];

		random_string(pattern, sizeof(pattern), "ab/***?");
		random_string(path, sizeof(path), "aab/");
		/* git treats stars that are not ** at a boundary as one star. */
		if (strstr(pattern, "***"))
			continue;
		if (glob_match(text_from(pattern), text_from(path)) !=
			slow_match(pattern, path, true))
			fail_msg("%s with %s", pattern, path);
	}
}
