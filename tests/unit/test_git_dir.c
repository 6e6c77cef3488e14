/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/* Work trees whose git directory is elsewhere: as git makes them, and as nobody should. Runs
 * unprivileged even if started by root, because permissions are part of what is tested. */
#include "tests/lib/git_walks.h"
#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"
#include "worker/files/walk/git_dir.h"
#include "worker/files/walk/gitignore.h"

#include <grp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#define NOBODY   65534
#define IDENTITY "-c", "user.name=a", "-c", "user.email=a@b"

/* Runs the @count steps of git. Skips the test where git does not run. */
static void run_steps(struct scratch *scratch, const char *const steps[][12], size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct paths said = run_git(scratch, steps[i], NULL);

		if (!said.data) {
			scratch_done(scratch);
			if (getenv("CI"))
				fail_msg("git does not do step %zu here", i);
			print_message("skipped: git does not do step %zu here\n", i);
			skip();
		}
		free(said.data);
	}
}

static void put(
	const struct scratch *scratch, const char *directory, const char *name, const char *text)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	scratch_text(scratch, path, text);
}

static void move(const struct scratch *scratch, const char *from, const char *to)
{
	assert_int_equal(renameat(scratch->fd, from, scratch->fd, to), 0);
}

static int leave_root(void **state)
{
	(void)state;
	if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
				      setresuid(NOBODY, NOBODY, NOBODY) < 0))
		return -1;
	return prctl(PR_SET_DUMPABLE, 1); /* needed by the leak checker */
}

GROUP_FIXTURE(leave_root, NULL)

/* In each work tree git(1) and the walk must find the same index and info/exclude. */
TEST(test_against_git)
{
	static const char *const trees[] = {"main", "main/inside", "tree", "relative", "by-link",
		"apart", "moved", "file-link", "super/sub"};
	static const char *const first[][12] = {
		{"init", "-q", "main"},
		{"-C", "main", "add", "-f", "."},
		{"-C", "main", IDENTITY, "commit", "-q", "-m", "a"},
		{"-C", "main", "worktree", "add", "-q", "../tree"},
		{"-C", "main", "worktree", "add", "-q", "../relative"},
		{"-C", "main", "worktree", "add", "-q", "../by-link"},
		{"-C", "main", "worktree", "add", "-q", "inside"},
		{"clone", "-q", "--separate-git-dir", "apart.git", "main", "apart"},
		{"clone", "-q", "--separate-git-dir", "file-link.git", "main", "file-link"},
		{"clone", "-q", "main", "moved"},
		{"init", "-q", "super"},
		{"-C", "super", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add",
			"../main", "sub"},
	};
	static const char *const git_dirs[] = {
		"main/.git", "apart.git", "file-link.git", "moved.git", "super/.git/modules/sub"};
	struct scratch scratch = scratch_new();

	put(&scratch, "main", ".gitignore", "*.o\nbuild/\n/inside\n");
	put(&scratch, "main", "kept.o", "");
	put(&scratch, "main", "build/kept", "");
	run_steps(&scratch, first, ARRAY_SIZE(first));
	put(&scratch, "relative", ".git", "gitdir: ../main/.git/worktrees/relative\r\n\n");
	assert_int_equal(unlinkat(scratch.fd, "by-link/.git", 0), 0);
	scratch_link(&scratch, "by-link/.git", "../main/.git/worktrees/by-link");
	move(&scratch, "moved/.git", "moved.git");
	scratch_link(&scratch, "moved/.git", "../moved.git");
	/* What such a file names is relative to the link. */
	put(&scratch, "deep/er", "git-file", "gitdir: ../file-link.git\n");
	assert_int_equal(unlinkat(scratch.fd, "file-link/.git", 0), 0);
	scratch_link(&scratch, "file-link/.git", "../deep/er/git-file");
	for (size_t i = 0; i < ARRAY_SIZE(git_dirs); i++)
		put(&scratch, git_dirs[i], "info/exclude", "*.x\n");
	put(&scratch, "main/.git/worktrees/tree", "info/exclude", "b\n"); /* it is not the one */
	for (size_t i = 0; i < ARRAY_SIZE(trees); i++) {
		put(&scratch, trees[i], "a.o", "");
		put(&scratch, trees[i], "a.x", "");
		put(&scratch, trees[i], "b", "");
		put(&scratch, trees[i], "build/other", "");
	}
	/* Tracked in one work tree only. */
	free(run_git(&scratch, (const char *const[]){"-C", "tree", "add", "-f", "a.o", NULL}, NULL)
			.data);
	for (size_t i = 0; i < ARRAY_SIZE(trees); i++)
		assert_true(keeps_as_git_lists_in(&scratch, trees[i]));
	scratch_done(&scratch);
}

/* BASE/ws is the workspace, BASE/outside a repository that no `.git` may lead to. */
struct fixture {
	struct scratch base, ws;
	struct root root;
};

static void put_git_dir(const struct scratch *scratch, const char *path, const char *exclude)
{
	put(scratch, path, "HEAD", "ref: refs/heads/main\n");
	put(scratch, path, "objects/x", "");
	put(scratch, path, "refs/x", "");
	put(scratch, path, "info/exclude", exclude);
}

static struct fixture fixture_new(void)
{
	struct fixture fixture = {.base = scratch_new()};

	put_git_dir(&fixture.base, "outside/.git", "seen\n");
	put_git_dir(&fixture.base, "ws/real/.git", "found\n");
	put_git_dir(&fixture.base, "ws/own", "found\n");
	assert_true(snprintf(fixture.ws.path, sizeof(fixture.ws.path), "%s/ws", fixture.base.path) <
		    (int)sizeof(fixture.ws.path));
	fixture.ws.fd = openat(fixture.base.fd, "ws", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(fixture.ws.fd >= 0);
	scratch_text(&fixture.ws, ".gitignore", "*.o\n");
	fixture.root = (struct root){
		.fd = fixture.ws.fd, .proc_self_fd = -1, .visible = TEXT_LITERAL("/seen/at")};
	return fixture;
}

static void fixture_done(struct fixture *fixture)
{
	close(fixture->ws.fd);
	scratch_done(&fixture->base);
}

enum verdict {
	NONE,         /* the rules from above apply */
	OUT_OF_SIGHT, /* they do not; nothing else is read */
	FOUND,        /* the git directory's rules apply */
};

/* Walks the directory @path of the workspace, which has the files a.o, found and seen. */
static enum verdict judge(const struct fixture *fixture, const char *path)
{
	struct collection collection = {0};
	struct walk walk = {
		.root = &fixture->root,
		.path = text_from(path),
		.recursive = true,
		.gitignore = true,
		.visit = collect,
		.context = &collection,
	};
	_cleanup_close_ int fd = openat(fixture->ws.fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_free_ char *kept = NULL;
	struct walk_end end;
	bool object, found;

	assert_true(fd >= 0);
	paths_open(&collection.kept);
	paths_open(&collection.visits);
	assert_int_equal(tree_walk(&walk, fd, &end), 0);
	kept = paths_sorted(&collection.kept);
	free(paths_sorted(&collection.visits));
	object = strstr(kept, "/a.o\n");
	found = !strstr(kept, "/found\n");
	/* A rule of outside would hide it. */
	assert_non_null(strstr(kept, "/seen\n"));
	assert_true(object || !found);
	return found ? FOUND : object ? OUT_OF_SIGHT : NONE;
}

static void put_files(const struct fixture *fixture, const char *directory)
{
	put(&fixture->ws, directory, "a.o", "");
	put(&fixture->ws, directory, "found", "");
	put(&fixture->ws, directory, "seen", "");
}

/* A name of @len bytes in components that are not too long. */
static char *long_path(size_t len)
{
	char *path = malloc(len + 1);

	for (size_t i = 0; i < len; i++)
		path[i] = i % 100 == 99 ? '/' : 'a';
	path[len] = '\0';
	return path;
}

/* What a file called `.git` holds. */
TEST(test_hostile_files)
{
	static const struct {
		struct text bytes;
		enum verdict verdict;
	} rows[] = {
		{TEXT_LITERAL("gitdir: ../real/.git"), FOUND},
		{TEXT_LITERAL("gitdir: ../real/.git/\r\n\r\n"), FOUND},
		{TEXT_LITERAL("gitdir: /seen/at/real/.git\n"), FOUND},
		{TEXT_LITERAL("gitdir: //seen/./at//real/.git\n"), FOUND},
		{TEXT_LITERAL("gitdir: ../d/../real/./.git\n"), FOUND},
		{TEXT_LITERAL("gitdir: ../real/.git\0/../../gone\n"), FOUND},
		{TEXT_LITERAL("gitdir: ../to-real/.git\n"), FOUND},
		{TEXT_LITERAL("gitdir: ../to-seen/.git\n"), FOUND},
		{TEXT_LITERAL("gitdir: ../../outside/.git\n"), OUT_OF_SIGHT},
		{TEXT_LITERAL("gitdir: ../../ws/real/.git\n"), OUT_OF_SIGHT},
		{TEXT_LITERAL("gitdir: /nonexistent\n"), OUT_OF_SIGHT},
		{TEXT_LITERAL("gitdir: /seen/at/../outside/.git\n"), OUT_OF_SIGHT},
		{TEXT_LITERAL("gitdir: /seen/attic/real/.git\n"), OUT_OF_SIGHT},
		{TEXT_LITERAL("gitdir: ../to-outside/.git\n"), OUT_OF_SIGHT},
		{TEXT_LITERAL("gitdir: ../to-outside/../ws/real/.git\n"), OUT_OF_SIGHT},
		{TEXT_LITERAL("gitdir: ../gone/../real/.git\n"), NONE},
		{TEXT_LITERAL("gitdir: ../real/.git\n/x\n"), NONE},
		{TEXT_LITERAL("gitdir: ../real/.git \n"), NONE},
		{TEXT_LITERAL("\ngitdir: ../real/.git\n"), NONE},
		{TEXT_LITERAL("gitdir:../real/.git\n"), NONE},
		{TEXT_LITERAL("gitdir:  ../real/.git\n"), NONE},
		{TEXT_LITERAL("gitdir: ../real/.git/HEAD\n"), NONE},
		{TEXT_LITERAL("gitdir: .git\n"), NONE},
		{TEXT_LITERAL("gitdir: .\n"), NONE},
		{TEXT_LITERAL("gitdir: ..\n"), NONE},
		{TEXT_LITERAL("gitdir: /seen/at\n"), NONE},
		{TEXT_LITERAL("gitdir: ../loop/.git\n"), NONE},
		{TEXT_LITERAL("gitdir: ../other-file/.git\n"), NONE}, /* git follows one, not two */
		{TEXT_LITERAL("gitdir: \n\n"), NONE},
		{TEXT_LITERAL("gitdir: \0"), NONE},
		{TEXT_LITERAL("gitdir: \0../real/.git"), NONE},
	};
	struct fixture fixture = fixture_new();

	put_files(&fixture, "d");
	scratch_link(&fixture.ws, "to-real", "real");
	scratch_link(&fixture.ws, "to-seen", "/seen/at/real");
	scratch_link(&fixture.ws, "to-outside", "../outside");
	scratch_link(&fixture.ws, "loop", "loop");
	scratch_text(&fixture.ws, "other-file/.git", "gitdir: ../real/.git\n");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		scratch_write(&fixture.ws, "d/.git", rows[i].bytes.data, rows[i].bytes.len);
		if (judge(&fixture, "d") != rows[i].verdict)
			fail_msg("%s", rows[i].bytes.data);
	}
	/* No path is not the path to the directory itself. */
	put_git_dir(&fixture.ws, "d", "found\n");
	scratch_text(&fixture.ws, "d/.git", "gitdir: .\n");
	assert_int_equal(judge(&fixture, "d"), FOUND);
	scratch_text(&fixture.ws, "d/.git", "gitdir: \n");
	assert_int_equal(judge(&fixture, "d"), NONE);
	fixture_done(&fixture);
}

/* No more is read than a path may have: the ends of lines after it are as many as one likes. */
TEST(test_long_files)
{
	static const char before[] = "gitdir: ../real/.git";
	const size_t large = 2UL * 1024 * 1024;
	struct fixture fixture = fixture_new();
	char *bytes = malloc(large);

	put_files(&fixture, "d");
	memset(bytes, '/', large);
	memcpy(bytes, before, strlen(before));
	scratch_write(&fixture.ws, "d/.git", bytes, LIMIT_PATH_BYTES - 8);
	assert_int_equal(judge(&fixture, "d"), FOUND);
	for (size_t len = LIMIT_PATH_BYTES; len <= LIMIT_PATH_BYTES + 64; len++) {
		scratch_write(&fixture.ws, "d/.git", bytes, len);
		assert_int_not_equal(judge(&fixture, "d"), NONE);
	}
	scratch_write(&fixture.ws, "d/.git", bytes, large);
	assert_int_equal(judge(&fixture, "d"), OUT_OF_SIGHT);
	memset(bytes + strlen(before), '\n', large - strlen(before));
	scratch_write(&fixture.ws, "d/.git", bytes, large);
	assert_int_equal(judge(&fixture, "d"), FOUND);
	bytes[0] = 'G';
	scratch_write(&fixture.ws, "d/.git", bytes, large);
	assert_int_equal(judge(&fixture, "d"), NONE);
	free(bytes);
	fixture_done(&fixture);
}

/* What `.git` is besides a file or directory, and what a commondir may be. */
TEST(test_hostile_names)
{
	static const struct {
		const char *link;
		enum verdict verdict;
	} links[] = {
		{"../real/.git", FOUND},
		{"/seen/at/real/.git", FOUND},
		{"../git-file", FOUND},
		{"../../outside/.git", OUT_OF_SIGHT},
		{"/nonexistent", OUT_OF_SIGHT},
		{"/", OUT_OF_SIGHT},
		{".git", NONE},
		{"../gone", NONE},
		{"../real", NONE},
		{"../fifo", NONE},
	};
	static const struct {
		struct text bytes;
		enum verdict verdict;
	} commons[] = {
		{TEXT_LITERAL("../real/.git"), FOUND},
		{TEXT_LITERAL("../real/.git\n"), FOUND},
		{TEXT_LITERAL("/seen/at/real/.git\n"), FOUND},
		{TEXT_LITERAL("."), FOUND},
		{TEXT_LITERAL("\n"), FOUND}, /* for git, too, it is the directory itself */
		{TEXT_LITERAL(""), FOUND},   /* git gives up */
		{TEXT_LITERAL("../../outside/.git"), OUT_OF_SIGHT},
		{TEXT_LITERAL("/nonexistent"), OUT_OF_SIGHT},
		{TEXT_LITERAL(".."), NONE},
		{TEXT_LITERAL("HEAD"), NONE},
		{TEXT_LITERAL("../gone"), NONE},
		{TEXT_LITERAL("gitdir: ../real/.git"), NONE},
	};
	struct fixture fixture = fixture_new();
	_cleanup_free_ char *path = long_path(5000);
	_cleanup_close_ int fifo = -1;

	put_files(&fixture, "d");
	scratch_text(&fixture.ws, "git-file", "gitdir: ../real/.git");
	assert_int_equal(mkfifoat(fixture.ws.fd, "fifo", 0666), 0);
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		scratch_link(&fixture.ws, "d/.git", links[i].link);
		if (judge(&fixture, "d") != links[i].verdict)
			fail_msg("%s", links[i].link);
		assert_int_equal(unlinkat(fixture.ws.fd, "d/.git", 0), 0);
	}
	assert_int_equal(mkfifoat(fixture.ws.fd, "d/.git", 0666), 0);
	assert_int_equal(judge(&fixture, "d"), NONE);
	fifo = openat(fixture.ws.fd, "d/.git", O_RDWR | O_CLOEXEC);
	assert_int_equal(write(fifo, "gitdir: ../real/.git", 20), 20);
	assert_int_equal(judge(&fixture, "d"), NONE);
	scratch_text(&fixture.ws, "d/.git", "gitdir: ../own");
	for (size_t i = 0; i < ARRAY_SIZE(commons); i++) {
		scratch_write(
			&fixture.ws, "own/commondir", commons[i].bytes.data, commons[i].bytes.len);
		if (judge(&fixture, "d") != commons[i].verdict)
			fail_msg("%s", commons[i].bytes.data);
	}
	scratch_text(&fixture.ws, "own/commondir", path);
	assert_int_equal(judge(&fixture, "d"), OUT_OF_SIGHT);
	assert_int_equal(unlinkat(fixture.ws.fd, "own/commondir", 0), 0);
	assert_int_equal(mkfifoat(fixture.ws.fd, "own/commondir", 0666), 0);
	assert_int_equal(judge(&fixture, "d"), FOUND);
	fixture_done(&fixture);
}

/* A git directory that this user may not look at may be there. */
TEST(test_no_permission)
{
	struct fixture fixture = fixture_new();

	put_files(&fixture, "d");
	scratch_text(&fixture.ws, "d/.git", "gitdir: ../real/.git");
	assert_int_equal(fchmodat(fixture.ws.fd, "d/.git", 0, 0), 0);
	assert_int_equal(judge(&fixture, "d"), OUT_OF_SIGHT);
	assert_int_equal(fchmodat(fixture.ws.fd, "d/.git", 0600, 0), 0);
	assert_int_equal(fchmodat(fixture.ws.fd, "real", 0, 0), 0);
	assert_int_equal(judge(&fixture, "d"), OUT_OF_SIGHT);
	assert_int_equal(fchmodat(fixture.ws.fd, "real", 0700, 0), 0);
	assert_int_equal(judge(&fixture, "d"), FOUND);
	fixture_done(&fixture);
}

/* Where commands see the workspace as `/`, absolute paths begin there. */
TEST(test_whole_root)
{
	struct fixture fixture = fixture_new();

	fixture.root.visible = TEXT_LITERAL("/");
	put_files(&fixture, "d");
	scratch_text(&fixture.ws, "d/.git", "gitdir: /own\n");
	scratch_text(&fixture.ws, "own/commondir", "/real/.git\n");
	assert_int_equal(judge(&fixture, "d"), FOUND);
	scratch_text(&fixture.ws, "d/.git", "gitdir: /seen/at/real/.git\n");
	assert_int_equal(judge(&fixture, "d"), NONE);
	scratch_text(&fixture.ws, "d/.git", "gitdir: /../outside/.git\n");
	assert_int_equal(judge(&fixture, "d"), OUT_OF_SIGHT);
	fixture_done(&fixture);
}

/* In the workspace's root there is no path to go on from. */
TEST(test_in_the_root)
{
	struct fixture fixture = fixture_new();
	struct git_dir found;

	scratch_text(&fixture.ws, ".git", "gitdir: real/.git\n");
	found = git_dir_find(&fixture.root, fixture.ws.fd, TEXT_LITERAL(""), true);
	assert_true(found.repository && found.followed && found.own >= 0 && found.common < 0);
	close(found.own);
	scratch_text(&fixture.ws, ".git", "gitdir: ../outside/.git\n");
	found = git_dir_find(&fixture.root, fixture.ws.fd, TEXT_LITERAL(""), true);
	assert_true(found.repository && found.own < 0);
	fixture_done(&fixture);
}

/* Only so many files and links are followed, whether or not they lead to a repository. */
TEST(test_nested)
{
	struct fixture fixture = fixture_new();
	char path[256] = "d";

	for (size_t i = 0; i < LIMIT_GIT_REPOSITORIES; i++) {
		put_files(&fixture, path);
		put(&fixture.ws, path, ".git", "gitdir: gone\n");
		assert_int_equal(judge(&fixture, path), NONE);
		strcat(path, "/d");
	}
	put_files(&fixture, path);
	put(&fixture.ws, path, ".git", "gitdir: gone\n");
	assert_int_equal(judge(&fixture, path), OUT_OF_SIGHT);
	put(&fixture.ws, path, ".git", "gitdir: /seen/at/own\n");
	assert_int_equal(judge(&fixture, path), OUT_OF_SIGHT);
	/* One beside them is followed, and this one when there are fewer above. */
	put_files(&fixture, "d/d/e");
	put(&fixture.ws, "d/d/e", ".git", "gitdir: /seen/at/own\n");
	assert_int_equal(judge(&fixture, "d/d/e"), FOUND);
	assert_int_equal(unlinkat(fixture.ws.fd, "d/.git", 0), 0);
	assert_int_equal(judge(&fixture, path), FOUND);
	for (size_t i = 0; i <= LIMIT_GIT_REPOSITORIES; i++) {
		snprintf(path, sizeof(path), "beside/%zu", i);
		put_files(&fixture, path);
		put(&fixture.ws, path, ".git", "gitdir: /seen/at/own\n");
	}
	assert_int_equal(judge(&fixture, "beside"), FOUND);
	fixture_done(&fixture);
}

struct swapper {
	const struct scratch *ws;
	atomic_bool over;
};

static void *swap(void *context)
{
	struct swapper *swapper = context;

	while (!atomic_load(&swapper->over)) {
		(void)renameat2(
			swapper->ws->fd, "way", swapper->ws->fd, "other-way", RENAME_EXCHANGE);
		(void)renameat2(
			swapper->ws->fd, "d/.git", swapper->ws->fd, "d/.other", RENAME_EXCHANGE);
	}
	return NULL;
}

/* While links and files are exchanged, what is found is inside: judge() looks. */
TEST(test_exchanged)
{
	struct fixture fixture = fixture_new();
	struct swapper swapper = {.ws = &fixture.ws};
	size_t seen[FOUND + 1] = {0};
	pthread_t thread;

	put_files(&fixture, "d");
	scratch_text(&fixture.ws, "d/.git", "gitdir: ../way/.git\n");
	scratch_link(&fixture.ws, "d/.other", "../way/.git");
	scratch_link(&fixture.ws, "way", "real");
	scratch_link(&fixture.ws, "other-way", "../outside");
	assert_int_equal(pthread_create(&thread, NULL, swap, &swapper), 0);
	for (size_t i = 0; i < 2000; i++)
		seen[judge(&fixture, "d")]++;
	atomic_store(&swapper.over, true);
	pthread_join(thread, NULL);
	assert_true(seen[FOUND] > 0 && seen[OUT_OF_SIGHT] > 0);
	fixture_done(&fixture);
}
