/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/* Compares with git itself: random trees with random ignore files are walked by tree_walk, listed
 * by `git ls-files` and checked by `git check-ignore`; all must give the same files.
 * CLOISTER_ORACLE_CASES and CLOISTER_ORACLE_SEED set how many cases and which; the seed is printed.
 */
#include "tests/lib/git_walks.h"
#include "tests/lib/rounds.h"
#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"
#include "worker/files/walk/gitignore.h"
#include "worker/files/walk/tree_walk.h"

/* Trees side by side in one repository, because running git takes most of the time. */
#define TREES_PER_REPOSITORY 10

static size_t pick(size_t count)
{
	return (size_t)rand() % count;
}

static const char *const names[] = {"a", "b", "ab", "abc", "foo", "bar", "foo.c", "bar.o", "x y",
	"tail ", "a]", "#x", "!n", "A1", "\xc3\xa9", ".h", "-", "b-c", "foo*", "[x]", "back\\slash",
	"a\tb", "9"};

static const char *const pieces[] = {"a", "b", "ab", "foo", "bar", ".c", ".o", "*", "*", "*", "?",
	"**", "**/", "/**/", "/**", "/", "/", "[ab]", "[!a]", "[^b]", "[a-c]", "[[:alpha:]]",
	"[![:digit:]]", "[]a]", "[a\\]]", "[[:upper:]x]", "[a-", "[", "]", "\\a", "\\*", "\\!",
	"\\#", "\\ ", " ", "x y", "\\", "#", "!", "\xc3\xa9", ".", "-", "[--9]", "[b-]", "\t",
	"***", "\\/", "[\\b-c]", "[[:bogus:]]", "[/]", "\\[x]"};

static void random_rule(FILE *out)
{
	size_t count = 1 + pick(4);

	if (pick(12) == 0) {
		fputs(pick(2) ? "# comment\n" : "\n", out);
		return;
	}
	if (pick(4) == 0)
		fputc('!', out);
	if (pick(5) == 0)
		fputc('/', out);
	if (pick(3) == 0) {
		fputs(names[pick(ARRAY_SIZE(names))], out);
		if (pick(3) == 0)
			fprintf(out, "/%s", names[pick(ARRAY_SIZE(names))]);
	} else {
		while (count-- > 0)
			fputs(pieces[pick(ARRAY_SIZE(pieces))], out);
	}
	if (pick(5) == 0)
		fputc('/', out);
	if (pick(10) == 0)
		fputs(pick(2) ? " " : "  ", out);
	fputs(pick(8) ? "\n" : "\r\n", out);
}

static void random_ignore_file(const struct scratch *scratch, const char *path)
{
	_cleanup_free_ char *text = NULL;
	/* Many rules are looked up by the bytes that names begin and end with. */
	size_t len, count = pick(4) ? pick(7) : pick(200);
	FILE *out = open_memstream(&text, &len);

	if (pick(10) == 0)
		fputs("\xef\xbb\xbf", out);
	while (count-- > 0)
		random_rule(out);
	if (pick(5) == 0)
		fputs("ab*", out); /* a last line without a newline */
	if (pick(25) == 0)
		fwrite("a\0b\n", 1, 4, out);
	fclose(out);
	scratch_write(scratch, path, text, len);
}

/* Fills @directory ("" or "a/b/") with files, links and directories. */
static void random_tree(const struct scratch *scratch, const char *directory, size_t depth)
{
	static const char *const no_repository[] = {
		".git/", ".git", ".git/HEAD", ".git/index", ".git/info/exclude"};
	char path[4096];

	if (depth > 1 && pick(8) == 0) {
		snprintf(path, sizeof(path), "%s%s", directory,
			no_repository[pick(ARRAY_SIZE(no_repository))]);
		if (path[strlen(path) - 1] == '/')
			scratch_parents(scratch, path);
		else
			random_ignore_file(scratch, path);
	}
	if (pick(3) == 0) {
		snprintf(path, sizeof(path), "%s.gitignore", directory);
		random_ignore_file(scratch, path);
	}
	for (size_t i = 0; i < 2 + pick(6); i++) {
		struct stat st;

		snprintf(path, sizeof(path), "%s%s", directory, names[pick(ARRAY_SIZE(names))]);
		if (fstatat(scratch->fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		if (pick(12) == 0) {
			scratch_link(scratch, path, pick(2) ? "." : "nowhere");
		} else if (depth < 4 && pick(2)) {
			strncat(path, "/", sizeof(path) - strlen(path) - 1);
			scratch_parents(scratch, path);
			random_tree(scratch, path, depth + 1);
		} else {
			scratch_text(scratch, path, "");
		}
	}
}

/* Returns the paths in @all that are not in @some, like paths_sorted(). */
static char *difference(struct paths *all, char *some)
{
	struct paths rest = {0};
	size_t at = 0;

	paths_open(&rest);
	for (; at < all->len; at += strlen(all->data + at) + 1) {
		char line[8192];

		snprintf(line, sizeof(line), "\n%s\n", all->data + at);
		if (!strstr(some, line))
			paths_add(&rest, all->data + at);
	}
	return paths_sorted(&rest);
}

static bool check_tree(const struct scratch *scratch)
{
	static const char *const list[] = {
		"ls-files", "-z", "-o", "-c", "--exclude-standard", NULL};
	static const char *const ask[] = {"check-ignore", "-z", "--stdin", "--no-index", NULL};
	struct collection collection = {0};
	struct paths git_kept, git_left;
	_cleanup_free_ char *kept = NULL, *visits = NULL, *left = NULL;
	_cleanup_free_ char *expected_kept = NULL, *expected_left = NULL, *framed = NULL;
	bool same;

	paths_open(&collection.all);
	paths_open(&collection.kept);
	paths_open(&collection.visits);
	walk_scratch(scratch, ".", collect_all, false, &collection);
	walk_scratch(scratch, ".", collect, true, &collection);
	fflush(collection.all.stream);
	git_kept = run_git(scratch, list, NULL);
	git_left = run_git(scratch, ask, &collection.all);
	expected_kept = paths_sorted(&git_kept);
	expected_left = paths_sorted(&git_left);
	kept = paths_sorted(&collection.kept);
	visits = paths_sorted(&collection.visits);
	assert_true(asprintf(&framed, "\n%s", visits) > 0);
	left = difference(&collection.all, framed);
	same = strcmp(kept, expected_kept) == 0 && strcmp(left, expected_left) == 0;
	if (!same)
		print_error("kept:\n%sgit's:\n%sleft out:\n%sgit's:\n%s", kept, expected_kept, left,
			expected_left);
	fclose(collection.all.stream);
	free(collection.all.data);
	return same;
}

/* Makes trees with ignore files, some with rules above. Returns the number of trees. */
static size_t random_trees(const struct scratch *scratch)
{
	size_t count = pick(3) ? TREES_PER_REPOSITORY : 1;
	char directory[32];

	if (count == 1) {
		random_tree(scratch, "", 0);
	} else {
		for (size_t i = 0; i < count; i++) {
			snprintf(directory, sizeof(directory), "t%zu/", i);
			scratch_parents(scratch, directory);
			random_tree(scratch, directory, 1);
		}
		if (pick(2))
			random_ignore_file(scratch, ".gitignore");
	}
	if (pick(2))
		random_ignore_file(scratch, ".git/info/exclude");
	return count;
}

/* Makes git track some of the files in @scratch, even ignored ones. */
static void track_some(const struct scratch *scratch)
{
	static const char *const versions[] = {"2", "4"};
	const char *const add[] = {"update-index", "--index-version", versions[pick(2)], "--add",
		"-z", "--stdin", NULL};
	static const char *const extend[] = {
		"update-index", "--skip-worktree", "-z", "--stdin", NULL};
	struct collection collection = {0};
	struct paths some = {0};
	size_t one_in = 1 + pick(6);

	paths_open(&collection.kept);
	paths_open(&collection.visits);
	walk_scratch(scratch, ".", collect, false, &collection);
	fclose(collection.kept.stream);
	fclose(collection.visits.stream);
	paths_open(&some);
	for (size_t at = 0; at < collection.kept.len; at += strlen(collection.kept.data + at) + 1)
		if (!is_git_path(collection.kept.data + at) && pick(one_in) == 0)
			paths_add(&some, collection.kept.data + at);
	fclose(some.stream);
	free(run_git(scratch, add, &some).data);
	if (pick(3) == 0)
		free(run_git(scratch, extend, &some).data); /* makes version 2 version 3 */
	free(some.data);
	free(collection.kept.data);
	free(collection.visits.data);
}

/* Makes repositories until there are enough trees, and checks the walk in each. */
static void try_trees(bool tracked)
{
	static const char *const sha1[] = {"init", "-q", ".", NULL};
	static const char *const sha256[] = {"init", "-q", "--object-format=sha256", ".", NULL};
	size_t cases = oracle_cases(60, 300), seed = oracle_seed();

	print_message("seed %zu, %zu trees\n", seed, cases);
	for (size_t i = 0, trees = 0; trees < cases; i++) {
		struct scratch scratch = scratch_new();
		struct paths said = run_git(&scratch, tracked && i % 4 == 0 ? sha256 : sha1, NULL);

		if (!said.data) {
			scratch_done(&scratch);
			if (getenv("CI"))
				fail_msg("git does not run here");
			print_message("skipped: git does not run here\n");
			skip();
		}
		free(said.data);
		srand((unsigned)(seed + i));
		trees += random_trees(&scratch);
		if (tracked)
			track_some(&scratch);
		if (!(tracked ? keeps_as_git_lists(&scratch) : check_tree(&scratch)))
			fail_msg("CLOISTER_ORACLE_SEED=%zu CLOISTER_ORACLE_CASES=1, tree in %s",
				seed + i, scratch.path);
		scratch_done(&scratch);
	}
}

TEST(test_against_git)
{
	try_trees(false);
}

/* A tracked file is visited although a rule matches it or its directory. */
TEST(test_tracked_against_git)
{
	try_trees(true);
}
