/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * Compares with git itself: random trees with random ignore files are walked by tree_walk, listed
 * by `git ls-files` and checked by `git check-ignore`; all must give the same files.
 * CLOISTER_ORACLE_CASES and CLOISTER_ORACLE_SEED set how many cases and which; the seed is printed.
 */
#include "common/cleanup.h"
#include "common/limits.h"
#include "tests/lib/scratch.h"
#include "worker/files/gitignore.h"
#include "worker/files/small_file.h"
#include "worker/files/tree_walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>

#define CASES 300

/* Trees side by side in one repository, because running git takes most of the time. */
#define TREES_PER_REPOSITORY 10

/* A set of paths, each with a NUL at its end. */
struct paths {
	char *data;
	size_t len;
	FILE *stream;
};

static void paths_open(struct paths *paths)
{
	paths->stream = open_memstream(&paths->data, &paths->len);
	assert_non_null(paths->stream);
}

static void paths_add(struct paths *paths, const char *path)
{
	fwrite(path, 1, strlen(path) + 1, paths->stream);
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns one path a line, in byte order. */
static char *paths_sorted(struct paths *paths)
{
	struct paths sorted;
	static char *list[65536];
	size_t count = 0;

	if (paths->stream)
		fclose(paths->stream);
	for (size_t at = 0; at < paths->len; at += strlen(paths->data + at) + 1)
		list[count++] = paths->data + at;
	assert_true(count < ARRAY_SIZE(list));
	qsort(list, count, sizeof(*list), compare_strings);
	paths_open(&sorted);
	for (size_t i = 0; i < count; i++)
		fprintf(sorted.stream, "%s\n", list[i]);
	fclose(sorted.stream);
	free(paths->data);
	return sorted.data;
}

struct collection {
	struct paths kept;   /* visited by the walk, without directories */
	struct paths all;    /* visited by a walk without rules, except .git */
	struct paths visits; /* visited by a walk with rules */
};

static int collect(const struct walk_entry *entry, void *context)
{
	struct collection *collection = context;

	paths_add(&collection->visits, entry->path.data);
	if (entry->type != DT_DIR)
		paths_add(&collection->kept, entry->path.data);
	return 0;
}

static bool is_git_path(const char *path)
{
	size_t len = strlen(path);

	return strstr(path, ".git/") || (len >= 4 && strcmp(path + len - 4, ".git") == 0);
}

static int collect_all(const struct walk_entry *entry, void *context)
{
	struct collection *collection = context;

	if (!is_git_path(entry->path.data))
		paths_add(&collection->all, entry->path.data);
	return 0;
}

static void walk_scratch(const struct scratch *scratch, const char *path, walk_visitor visit,
	bool gitignore, void *context)
{
	struct walk walk = {
		.root_fd = scratch->fd,
		.path = text_from(path),
		.recursive = true,
		.gitignore = gitignore,
		.visit = visit,
		.context = context,
	};
	_cleanup_close_ int fd = openat(scratch->fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct walk_end end;

	assert_true(fd >= 0);
	assert_int_equal(tree_walk(&walk, fd, &end), 0);
	assert_false(end.truncated);
	assert_int_equal(end.unreadable, 0);
}

static char *visited(const struct scratch *scratch, const char *path)
{
	struct collection collection = {0};

	paths_open(&collection.visits);
	paths_open(&collection.kept);
	walk_scratch(scratch, path, collect, true, &collection);
	free(paths_sorted(&collection.kept));
	return paths_sorted(&collection.visits);
}

/* Runs git in @scratch without any user's configuration. @input is its standard input. */
static struct paths run_git(
	const struct scratch *scratch, const char *const arguments[], const struct paths *input)
{
	const char *const environment[] = {"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"HOME=/nonexistent", "PATH=/usr/bin:/bin", NULL};
	const char *argv[16] = {"git", "-C", scratch->path};
	posix_spawn_file_actions_t actions;
	FILE *in = tmpfile(), *out = tmpfile();
	struct paths paths = {0};
	int status;
	pid_t pid;

	for (size_t i = 0; arguments[i]; i++)
		argv[3 + i] = arguments[i];
	if (input)
		fwrite(input->data, 1, input->len, in);
	rewind(in);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fileno(in), 0);
	posix_spawn_file_actions_adddup2(&actions, fileno(out), 1);
	if (posix_spawnp(&pid, "git", &actions, NULL, (char **)argv, (char **)environment) != 0)
		pid = -1;
	posix_spawn_file_actions_destroy(&actions);
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) <= 1) {
		fseek(out, 0, SEEK_END);
		paths.len = (size_t)ftell(out);
		paths.data = calloc(1, paths.len + 1);
		rewind(out);
		assert_int_equal(fread(paths.data, 1, paths.len, out), paths.len);
	}
	fclose(in);
	fclose(out);
	return paths;
}

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

static size_t setting(const char *name, size_t otherwise)
{
	const char *value = getenv(name);

	return value ? strtoull(value, NULL, 10) : otherwise;
}

/*
 * Makes trees with their own ignore files, sometimes with rules for all of them above. One
 * repository in three has only one tree, at its root. Returns the number of trees.
 */
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

static void test_against_git(void **state)
{
	static const char *const init[] = {"init", "-q", ".", NULL};
	size_t cases = setting("CLOISTER_ORACLE_CASES", CASES);
	size_t seed = setting("CLOISTER_ORACLE_SEED", (size_t)time(NULL));

	(void)state;
	print_message("seed %zu, %zu trees\n", seed, cases);
	for (size_t i = 0, trees = 0; trees < cases; i++) {
		struct scratch scratch = scratch_new();
		struct paths said = run_git(&scratch, init, NULL);

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
		if (!check_tree(&scratch))
			fail_msg("CLOISTER_ORACLE_SEED=%zu CLOISTER_ORACLE_CASES=1, tree in %s",
				seed + i, scratch.path);
		scratch_done(&scratch);
	}
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

/*
 * Whether the walk keeps the files that git lists: tracked ones that exist, and ones that are not
 * ignored.
 */
static bool keeps_as_git_lists(const struct scratch *scratch)
{
	static const char *const list[] = {
		"ls-files", "-z", "-o", "-c", "--exclude-standard", NULL};
	struct collection collection = {0};
	struct paths listed, git_kept = {0};
	_cleanup_free_ char *kept = NULL, *expected = NULL;
	bool same;

	paths_open(&collection.kept);
	paths_open(&collection.visits);
	walk_scratch(scratch, ".", collect, true, &collection);
	fclose(collection.visits.stream);
	free(collection.visits.data);
	listed = run_git(scratch, list, NULL);
	paths_open(&git_kept);
	for (size_t at = 0; at < listed.len; at += strlen(listed.data + at) + 1)
		if (faccessat(scratch->fd, listed.data + at, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			paths_add(&git_kept, listed.data + at);
	free(listed.data);
	expected = paths_sorted(&git_kept);
	kept = paths_sorted(&collection.kept);
	same = strcmp(kept, expected) == 0;
	if (!same)
		print_error("kept:\n%sgit's:\n%s", kept, expected);
	return same;
}

/* A tracked file is visited although a rule matches it or its directory. */
static void test_tracked_against_git(void **state)
{
	static const char *const sha1[] = {"init", "-q", ".", NULL};
	static const char *const sha256[] = {"init", "-q", "--object-format=sha256", ".", NULL};
	size_t cases = setting("CLOISTER_ORACLE_CASES", CASES);
	size_t seed = setting("CLOISTER_ORACLE_SEED", (size_t)time(NULL));

	(void)state;
	print_message("seed %zu, %zu trees\n", seed, cases);
	for (size_t i = 0, trees = 0; trees < cases; i++) {
		struct scratch scratch = scratch_new();
		struct paths said = run_git(&scratch, i % 4 ? sha1 : sha256, NULL);

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
		track_some(&scratch);
		if (!keeps_as_git_lists(&scratch))
			fail_msg("CLOISTER_ORACLE_SEED=%zu CLOISTER_ORACLE_CASES=1, tree in %s",
				seed + i, scratch.path);
		scratch_done(&scratch);
	}
}

static void assert_visits(const struct scratch *scratch, const char *path, const char *expected)
{
	_cleanup_free_ char *visits = visited(scratch, path);

	assert_string_equal(visits, expected);
}

/* The rules above the listed directory apply in it. */
static void test_below_root(void **state)
{
	struct scratch scratch = scratch_new();

	(void)state;
	scratch_text(&scratch, ".gitignore", "*.o\n/src/lib/secret\n/lib/plain\n");
	scratch_text(&scratch, "src/.gitignore", "!keep.o\n");
	scratch_text(&scratch, "src/lib/a.o", "");
	scratch_text(&scratch, "src/lib/keep.o", "");
	scratch_text(&scratch, "src/lib/plain", "");
	scratch_text(&scratch, "src/lib/secret", "");
	assert_visits(&scratch, "src/lib", "src/lib/keep.o\nsrc/lib/plain\n");
	scratch_done(&scratch);
}

/* An ignored directory is listed if it is named itself. */
static void test_named_directory(void **state)
{
	struct scratch scratch = scratch_new();

	(void)state;
	scratch_text(&scratch, ".gitignore", "build/\n*.o\n");
	scratch_text(&scratch, "build/log", "");
	scratch_text(&scratch, "build/a.o", "");
	assert_visits(&scratch, ".", ".gitignore\n");
	assert_visits(&scratch, "build", "build/log\n");
	scratch_done(&scratch);
}

/*
 * Two stars and a slash may match nothing, and then the slash is not part of the name, as in git.
 */
static void test_slash_that_is_nothing(void **state)
{
	struct scratch scratch = scratch_new();

	(void)state;
	scratch_text(&scratch, ".gitignore", "x**//\n");
	scratch_text(&scratch, "x/a", "");
	scratch_text(&scratch, "y/a", "");
	assert_visits(&scratch, ".", ".gitignore\ny\ny/a\n");
	scratch_done(&scratch);
}

static void put_repository(const struct scratch *scratch, const char *directory)
{
	static const char *const entries[] = {"objects/", "refs/", "HEAD"};
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
		snprintf(path, sizeof(path), "%s/.git/%s", directory, entries[i]);
		scratch_parents(scratch, path);
	}
	scratch_text(scratch, path, "ref: refs/heads/main\n");
}

/* A repository inside the workspace follows its own rules, as git does when it runs there. */
static void test_nested_repository(void **state)
{
	struct scratch scratch = scratch_new();

	(void)state;
	scratch_text(&scratch, ".gitignore", "*.o\n");
	put_repository(&scratch, "inner");
	scratch_text(&scratch, "inner/.git/info/exclude", "*.x\n");
	scratch_text(&scratch, "inner/.gitignore", "*.c\n!b.x\n");
	scratch_text(&scratch, "inner/a.c", "");
	scratch_text(&scratch, "inner/a.o", "");
	scratch_text(&scratch, "inner/a.x", "");
	scratch_text(&scratch, "inner/b.x", "");
	assert_visits(&scratch, ".", ".gitignore\ninner\ninner/.gitignore\ninner/a.o\ninner/b.x\n");
	assert_visits(&scratch, "inner", "inner/.gitignore\ninner/a.o\ninner/b.x\n");
	scratch_done(&scratch);
}

/* Makes `.git` in @directory: a file of that text, a link, or a directory with these entries. */
struct dot_git {
	const char *directory;
	const char *text, *link;
	const char *entries[4];
	bool elsewhere; /* it names a repository that is not looked for, and that git does not find
			 */
};

static void put_dot_git(const struct scratch *scratch, const struct dot_git *made)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/a.o", made->directory);
	scratch_text(scratch, path, "");
	snprintf(path, sizeof(path), "%s/.git", made->directory);
	if (made->text)
		scratch_text(scratch, path, made->text);
	else if (made->link)
		scratch_link(scratch, path, made->link);
	for (size_t i = 0; i < ARRAY_SIZE(made->entries) && made->entries[i]; i++) {
		const char *entry = made->entries[i];

		snprintf(path, sizeof(path), "%s/.git/%s", made->directory, entry);
		if (strcmp(entry, "HEAD") == 0)
			scratch_text(scratch, path, "ref: refs/heads/main\n");
		else if (entry[0] != '\0' && entry[strlen(entry) - 1] != '/')
			scratch_link(scratch, path, "../../real/.git/objects");
		else
			scratch_parents(scratch, path);
	}
}

/* What git takes for a repository has its own rules, and anything else called `.git` has not. */
static void test_what_is_a_repository(void **state)
{
	static const char *const init[] = {"init", "-q", ".", NULL};
	static const char *const inner[] = {"init", "-q", "real", NULL};
	static const char *const list[] = {"ls-files", "-z", "-o", "--exclude-standard", NULL};
	static const struct dot_git cases[] = {
		{.directory = "real"},
		{.directory = "whole", .entries = {"HEAD", "objects/", "refs/"}},
		{.directory = "linked", .entries = {"HEAD", "objects", "refs"}},
		{.directory = "empty", .entries = {""}},
		{.directory = "only-head", .entries = {"HEAD"}},
		{.directory = "no-head", .entries = {"objects/", "refs/"}},
		{.directory = "no-refs", .entries = {"HEAD", "objects/"}},
		{.directory = "no-objects", .entries = {"HEAD", "refs/"}},
		{.directory = "empty-file", .text = ""},
		{.directory = "file", .text = "something else\n"},
		{.directory = "no-target", .text = "gitdir: "},
		{.directory = "worktree", .text = "gitdir: ../real/.git\n"},
		{.directory = "link", .link = "../real/.git"},
		{.directory = "gone", .text = "gitdir: /nonexistent\n", .elsewhere = true},
		{.directory = "gone-link", .link = "/nonexistent", .elsewhere = true},
	};
	struct scratch scratch = scratch_new();
	_cleanup_free_ char *kept = NULL;
	struct paths said = run_git(&scratch, init, NULL);

	(void)state;
	if (!said.data) {
		scratch_done(&scratch);
		if (getenv("CI"))
			fail_msg("git does not run here");
		skip();
	}
	free(said.data);
	free(run_git(&scratch, inner, NULL).data);
	scratch_text(&scratch, ".gitignore", "*.o\n");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		put_dot_git(&scratch, &cases[i]);
	said = run_git(&scratch, list, NULL);
	kept = visited(&scratch, ".");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char line[128], entry[128];
		bool is_repository;

		/* From outside git tells no more of a repository than this. */
		snprintf(entry, sizeof(entry), "%s/", cases[i].directory);
		is_repository = memmem(said.data, said.len, entry, strlen(entry) + 1);
		assert_false(is_repository && cases[i].elsewhere);
		snprintf(line, sizeof(line), "\n%s/a.o\n", cases[i].directory);
		if (!strstr(kept, line) == (is_repository || cases[i].elsewhere))
			fail_msg("%s: %sa repository for git", cases[i].directory,
				is_repository ? "" : "not ");
	}
	free(said.data);
	scratch_done(&scratch);
}

/*
 * A directory of a sparse index has nothing that is tracked: git removes its tracked files, and
 * names each of them once one is back. What a build leaves there is ignored.
 */
static void test_sparse_index(void **state)
{
	static const char *const steps[][10] = {
		{"init", "-q", "."},
		{"add", "-f", "."},
		{"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "a"},
		{"sparse-checkout", "set", "--cone", "--sparse-index", "in"},
	};
	static const char *const status[] = {"status", "--short", NULL};
	struct scratch scratch = scratch_new();
	_cleanup_free_ char *sparse = NULL;
	size_t len = 0;

	(void)state;
	scratch_text(&scratch, ".gitignore", "*.o\nbuild/\n");
	scratch_text(&scratch, "build/a.o", "");
	scratch_text(&scratch, "in/a.o", "");
	scratch_text(&scratch, "out/a.o", "");
	scratch_text(&scratch, "out/deep/a.o", "");
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct paths said = run_git(&scratch, steps[i], NULL);

		if (!said.data) {
			scratch_done(&scratch);
			if (getenv("CI"))
				fail_msg("git has no sparse index here");
			skip();
		}
		free(said.data);
	}
	assert_int_equal(small_file_read(scratch.fd, ".git/index", 0, 65536, &sparse, &len), 0);
	assert_non_null(memmem(sparse, len, "sdir", 4));
	scratch_text(&scratch, "build/new.o", "");
	scratch_text(&scratch, "out/new.o", "");
	scratch_text(&scratch, "out/new.c", "");
	assert_true(keeps_as_git_lists(&scratch));
	assert_visits(&scratch, ".", ".gitignore\nin\nin/a.o\nout\nout/new.c\n");
	scratch_text(&scratch, "build/a.o", "");
	scratch_text(&scratch, "out/a.o", "");
	free(run_git(&scratch, status, NULL).data);
	assert_true(keeps_as_git_lists(&scratch));
	assert_visits(&scratch, ".",
		".gitignore\nbuild\nbuild/a.o\nin\nin/a.o\nout\nout/a.o\nout/new.c\n");
	scratch_done(&scratch);
}

/* Ignore files that are links, FIFOs, directories or too large count as empty; none blocks. */
static void test_hostile_files(void **state)
{
	struct scratch scratch = scratch_new();
	_cleanup_free_ char *large = malloc(LIMIT_GITIGNORE_BYTES + 1);

	(void)state;
	memset(large, '\n', LIMIT_GITIGNORE_BYTES + 1);
	memcpy(large, "*", 1);
	scratch_text(&scratch, "rules", "*\n");
	scratch_link(&scratch, "link/.gitignore", "../rules");
	scratch_text(&scratch, "link/x", "");
	scratch_text(&scratch, "fifo/x", "");
	assert_int_equal(mkfifoat(scratch.fd, "fifo/.gitignore", 0666), 0);
	assert_int_equal(mkfifoat(scratch.fd, "fifo/.git", 0666), 0);
	scratch_text(&scratch, "directory/.gitignore/x", "");
	scratch_write(&scratch, "large/.gitignore", large, LIMIT_GITIGNORE_BYTES + 1);
	scratch_text(&scratch, "large/x", "");
	scratch_link(&scratch, "git/.git", "../elsewhere");
	scratch_text(&scratch, "git/x", "");
	scratch_text(&scratch, "elsewhere/info/exclude", "*\n");
	assert_visits(&scratch, ".",
		"directory\ndirectory/.gitignore\ndirectory/.gitignore/x\nelsewhere\nelsewhere/"
		"info\n"
		"elsewhere/info/exclude\nfifo\nfifo/.gitignore\nfifo/x\ngit\ngit/x\nlarge\n"
		"large/.gitignore\nlarge/x\nlink\nlink/.gitignore\nlink/x\nrules\n");
	/* A file of exactly the limit is read. */
	scratch_write(&scratch, "large/.gitignore", large, LIMIT_GITIGNORE_BYTES);
	assert_visits(&scratch, "large", "");
	scratch_done(&scratch);
}

/*
 * However many directories have large ignore files, the rules of a walk take bounded memory, which
 * is freed when the walk leaves them.
 */
static void test_many_large_files(void **state)
{
	struct scratch scratch = scratch_new();
	char *rules = malloc(LIMIT_GITIGNORE_BYTES);
	char path[512] = "";

	(void)state;
	for (size_t i = 0; i < LIMIT_GITIGNORE_BYTES; i += 2)
		memcpy(rules + i, i == 0 ? "x\n" : "y\n", 2);
	for (size_t i = 0; i < 6; i++) {
		strcat(path, "d/");
		snprintf(path + strlen(path), 32, ".gitignore");
		scratch_write(&scratch, path, rules, LIMIT_GITIGNORE_BYTES);
		path[strlen(path) - strlen(".gitignore")] = '\0';
	}
	scratch_text(&scratch, "d/x", "");
	scratch_text(&scratch, "d/d/d/d/d/z", "");
	scratch_text(&scratch, "d/d/d/d/d/d/a", "");
	scratch_text(&scratch, "e/.gitignore", "x\n");
	scratch_text(&scratch, "e/x", "");
	/* Only the innermost file ignores this, and it is not read any more. */
	snprintf(path, sizeof(path), "d/d/d/d/d/d/.gitignore");
	memset(rules, '\n', LIMIT_GITIGNORE_BYTES);
	memcpy(rules, "a", 1);
	scratch_write(&scratch, path, rules, LIMIT_GITIGNORE_BYTES);
	free(rules);
	assert_visits(&scratch, ".",
		"d\nd/.gitignore\nd/d\nd/d/.gitignore\nd/d/d\nd/d/d/.gitignore\nd/d/d/d\n"
		"d/d/d/d/.gitignore\nd/d/d/d/d\nd/d/d/d/d/.gitignore\nd/d/d/d/d/d\n"
		"d/d/d/d/d/d/.gitignore\nd/d/d/d/d/d/a\nd/d/d/d/d/z\ne\ne/.gitignore\n");
	assert_visits(&scratch, "d/d/d/d/d/d", "d/d/d/d/d/d/.gitignore\nd/d/d/d/d/d/a\n");
	scratch_done(&scratch);
}

#define HASH "####################"
#define STAT "........................................"

/* An entry of version 2 with padding for a name of one to eight bytes less than a multiple. */
#define ENTRY(len, name) STAT HASH "\0" len name

static void put_index(const struct scratch *scratch, const char *directory, struct text bytes)
{
	char path[128];

	put_repository(scratch, directory);
	snprintf(path, sizeof(path), "%s/.git/index", directory);
	scratch_write(scratch, path, bytes.data, bytes.len);
}

/* An index that is not as git writes it is ignored, and one that is used never shows a .git. */
static void test_hostile_index(void **state)
{
	static const struct {
		const char *directory;
		struct text bytes;
		bool tracks;
	} cases[] = {
		{"good", TEXT_LITERAL("DIRC\0\0\0\2\0\0\0\1" ENTRY("\4", "x/.o\0\0\0\0\0\0") HASH),
			true},
		{"version",
			TEXT_LITERAL("DIRC\0\0\0\5\0\0\0\1" ENTRY("\4", "x/.o\0\0\0\0\0\0") HASH),
			false},
		{"count",
			TEXT_LITERAL("DIRC\0\0\0\2\xff\xff\xff\xff" ENTRY("\4", "x/.o\0\0\0\0\0\0")
					HASH),
			false},
		{"length",
			TEXT_LITERAL("DIRC\0\0\0\2\0\0\0\1" ENTRY("\5", "x/.o\0\0\0\0\0\0") HASH),
			false},
		{"short", TEXT_LITERAL("DIRC\0\0\0\2\0\0\0\1" ENTRY("\4", "x/.o")), false},
		{"split",
			TEXT_LITERAL("DIRC\0\0\0\2\0\0\0\1" ENTRY(
				"\4", "x/.o\0\0\0\0\0\0") "link\0\0\0\0" HASH),
			false},
		{"order",
			TEXT_LITERAL("DIRC\0\0\0\2\0\0\0\2" ENTRY("\4", "x/.o\0\0\0\0\0\0")
					ENTRY("\4", "a/.o\0\0\0\0\0\0") HASH),
			false},
	};
	struct scratch scratch = scratch_new();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char path[128], expected[256];

		put_index(&scratch, cases[i].directory, cases[i].bytes);
		snprintf(path, sizeof(path), "%s/.gitignore", cases[i].directory);
		scratch_text(&scratch, path, "x\n.*\n");
		snprintf(path, sizeof(path), "%s/x/.o", cases[i].directory);
		scratch_text(&scratch, path, "");
		snprintf(path, sizeof(path), "%s/x/other", cases[i].directory);
		scratch_text(&scratch, path, "");
		snprintf(expected, sizeof(expected), "%s/x\n%s/x/.o\n", cases[i].directory,
			cases[i].directory);
		assert_visits(&scratch, cases[i].directory, cases[i].tracks ? expected : "");
	}
	scratch_done(&scratch);
}

/* Names inside a .git are never tracked, and an index that is not a regular file is ignored. */
static void test_index_names_git(void **state)
{
	struct scratch scratch = scratch_new();

	(void)state;
	put_index(&scratch, "a",
		TEXT_LITERAL("DIRC\0\0\0\2\0\0\0\1" ENTRY("\6", ".git/x\0\0\0\0") HASH));
	scratch_text(&scratch, "a/.git/x", "");
	assert_visits(&scratch, "a", "");
	scratch_text(&scratch, "b/.gitignore", "x\n");
	put_repository(&scratch, "b");
	assert_int_equal(mkfifoat(scratch.fd, "b/.git/index", 0666), 0);
	scratch_text(&scratch, "b/x", "");
	assert_visits(&scratch, "b", "b/.gitignore\n");
	scratch_done(&scratch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_below_root),
		cmocka_unit_test(test_named_directory),
		cmocka_unit_test(test_slash_that_is_nothing),
		cmocka_unit_test(test_nested_repository),
		cmocka_unit_test(test_what_is_a_repository),
		cmocka_unit_test(test_sparse_index),
		cmocka_unit_test(test_hostile_files),
		cmocka_unit_test(test_hostile_index),
		cmocka_unit_test(test_many_large_files),
		cmocka_unit_test(test_index_names_git),
		cmocka_unit_test(test_against_git),
		cmocka_unit_test(test_tracked_against_git),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
