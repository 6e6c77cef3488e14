/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/* Rules of .gitignore and tracked files in trees made by hand: what is visited, and what is not. */
#include "tests/lib/git_walks.h"
#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"
#include "worker/files/walk/gitignore.h"
#include "worker/files/walk/small_file.h"
#include "worker/files/walk/tree_walk.h"

static char *visited(const struct scratch *scratch, const char *path)
{
	struct collection collection = {0};

	paths_open(&collection.visits);
	paths_open(&collection.kept);
	walk_scratch(scratch, path, collect, true, &collection);
	free(paths_sorted(&collection.kept));
	return paths_sorted(&collection.visits);
}

static void assert_visits(const struct scratch *scratch, const char *path, const char *expected)
{
	_cleanup_free_ char *visits = visited(scratch, path);

	assert_string_equal(visits, expected);
}

/* The rules above the listed directory apply in it. */
TEST(test_below_root)
{
	struct scratch scratch = scratch_new();

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
TEST(test_named_directory)
{
	struct scratch scratch = scratch_new();

	scratch_text(&scratch, ".gitignore", "build/\n*.o\n");
	scratch_text(&scratch, "build/log", "");
	scratch_text(&scratch, "build/a.o", "");
	assert_visits(&scratch, ".", ".gitignore\n");
	assert_visits(&scratch, "build", "build/log\n");
	scratch_done(&scratch);
}

/* Two stars and a slash may match nothing, and then not even the slash, as in git. */
TEST(test_slash_that_is_nothing)
{
	struct scratch scratch = scratch_new();

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
TEST(test_nested_repository)
{
	struct scratch scratch = scratch_new();

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
TEST(test_what_is_a_repository)
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

/* A directory of a sparse index has nothing that is tracked: git removes its tracked files, and
 * names each of them once one is back. What a build leaves there is ignored. */
TEST(test_sparse_index)
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
TEST(test_hostile_files)
{
	struct scratch scratch = scratch_new();
	_cleanup_free_ char *large = malloc(LIMIT_GITIGNORE_BYTES + 1);

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

/* However many ignore files there are, the rules of a walk take bounded memory. */
TEST(test_many_large_files)
{
	struct scratch scratch = scratch_new();
	char *rules = malloc(LIMIT_GITIGNORE_BYTES);
	char path[512] = "";

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
TEST(test_hostile_index)
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
TEST(test_index_names_git)
{
	struct scratch scratch = scratch_new();

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
