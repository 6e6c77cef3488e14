/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"
#include "worker/files/walk/tree_walk.h"

#include <dirent.h>

#define STOP 7

/* Records the visits, and acts at a certain path. */
struct log {
	FILE *stream;
	size_t visits;
	const char *act_at;
	void (*act)(const struct scratch *scratch);
	const struct scratch *scratch;
	int act_returns;
};

static int log_visit(const struct walk_entry *entry, void *context)
{
	struct log *log = context;
	struct stat st;

	log->visits++;
	/* The name is looked up in the directory that the walk gives. */
	if (fstatat(entry->dirfd, entry->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		assert_int_equal(IFTODT(st.st_mode), entry->type);
	if (log->stream)
		fprintf(log->stream, "%.*s\n", (int)entry->path.len, entry->path.data);
	if (log->act_at && strcmp(entry->path.data, log->act_at) == 0) {
		if (log->act)
			log->act(log->scratch);
		return log->act_returns;
	}
	return 0;
}

static int run_walk(const struct scratch *scratch, const char *path, bool recursive,
	struct log *log, struct walk_end *ret_end)
{
	struct walk walk = {
		.path = text_from(path),
		.recursive = recursive,
		.visit = log_visit,
		.context = log,
	};
	_cleanup_close_ int fd = openat(scratch->fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return tree_walk(&walk, fd, ret_end);
}

static void assert_walk(
	const struct scratch *scratch, const char *path, bool recursive, const char *expected)
{
	_cleanup_free_ char *text = NULL;
	struct walk_end end;
	size_t len;
	struct log log = {.stream = open_memstream(&text, &len)};

	assert_int_equal(run_walk(scratch, path, recursive, &log, &end), 0);
	fclose(log.stream);
	assert_string_equal(text, expected);
	assert_int_equal(end.unreadable, 0);
	assert_false(end.truncated);
}

static size_t open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

TEST(test_order)
{
	struct scratch scratch = scratch_new();

	scratch_text(&scratch, "b/z", "");
	scratch_text(&scratch, "b/a", "");
	scratch_text(&scratch, "b.c", "");
	scratch_text(&scratch, "B", "");
	scratch_text(&scratch, "\xff", "");
	scratch_text(&scratch, "a/.git/x", "");
	scratch_link(&scratch, "c", "b");
	scratch_link(&scratch, "d", "..");
	assert_walk(&scratch, ".", true, "B\na\na/.git\na/.git/x\nb\nb/a\nb/z\nb.c\nc\nd\n\xff\n");
	assert_walk(&scratch, ".", false, "B\na\nb\nb.c\nc\nd\n\xff\n");
	assert_walk(&scratch, "b", true, "b/a\nb/z\n");
	assert_walk(&scratch, "a/.git", true, "a/.git/x\n");
	scratch_done(&scratch);
}

/* What was visited last, and how much. */
struct order {
	char last[LIMIT_NAME_BYTES + 1];
	size_t visits;
};

static int check_order(const struct walk_entry *entry, void *context)
{
	struct order *order = context;

	if (order->visits++ > 0)
		assert_true(strcmp(order->last, entry->name) < 0);
	strcpy(order->last, entry->name);
	return 0;
}

/* Makes files of many lengths whose names begin with @prefix and then differ in few bytes. */
static void assert_order(const char *prefix)
{
	static const char letters[] = "ab\x01\xff";
	struct scratch scratch = scratch_new();
	struct order order = {.visits = 0};
	struct walk walk = {.path = TEXT_LITERAL("."), .visit = check_order, .context = &order};
	_cleanup_close_ int fd = openat(scratch.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned seed = 12345;
	struct walk_end end;

	for (int i = 0; i < 600; i++) {
		char name[64];
		size_t at = (size_t)sprintf(name, "%s", prefix);

		for (int left = 1 + i % 20; left > 0; left--) {
			seed = seed * 1103515245 + 12345;
			name[at++] = letters[seed >> 30];
		}
		name[at] = '\0';
		scratch_text(&scratch, name, "");
	}
	assert_int_equal(tree_walk(&walk, fd, &end), 0);
	assert_int_equal(order.visits, 547); /* the others have the same name as one of these */
	scratch_done(&scratch);
}

TEST(test_order_of_names)
{
	assert_order("");
	assert_order("entry-");
	assert_order("names-that-begin-alike-");
}

static void assert_depths(
	const struct scratch *scratch, size_t min, size_t max, const char *expected)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	struct log log = {.stream = open_memstream(&text, &len)};
	struct walk walk = {
		.path = TEXT_LITERAL("."),
		.recursive = true,
		.min_depth = min,
		.max_depth = max,
		.visit = log_visit,
		.context = &log,
	};
	_cleanup_close_ int fd = openat(scratch->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct walk_end end;

	assert_int_equal(tree_walk(&walk, fd, &end), 0);
	fclose(log.stream);
	assert_string_equal(text, expected);
}

TEST(test_depths)
{
	struct scratch scratch = scratch_new();

	scratch_text(&scratch, "a/b/c/d", "");
	scratch_text(&scratch, "a/b/e", "");
	scratch_text(&scratch, "a/f", "");
	scratch_text(&scratch, "g", "");
	assert_depths(&scratch, 0, 0, "a\na/b\na/b/c\na/b/c/d\na/b/e\na/f\ng\n");
	assert_depths(&scratch, 0, 1, "a\ng\n");
	assert_depths(&scratch, 0, 2, "a\na/b\na/f\ng\n");
	assert_depths(&scratch, 3, 0, "a/b/c\na/b/c/d\na/b/e\n");
	assert_depths(&scratch, 2, 2, "a/b\na/f\n");
	scratch_done(&scratch);
}

TEST(test_temporary_names)
{
	struct scratch scratch = scratch_new();

	scratch_text(&scratch, ".cloister-0123456789abcdef", "");
	scratch_text(&scratch, ".cloister-0123456789abcdee/x", "");
	/* The tenant's own files: one digit less, one more, one that is not a digit. */
	scratch_text(&scratch, ".cloister-", "");
	scratch_text(&scratch, ".cloister-0123456789abcde", "");
	scratch_text(&scratch, ".cloister-0123456789abcdef0", "");
	scratch_text(&scratch, ".cloister-0123456789abcdeF", "");
	scratch_text(&scratch, ".cloister-fg", "");
	scratch_text(&scratch, ".cloister", "");
	assert_walk(&scratch, ".", true,
		".cloister\n.cloister-\n.cloister-0123456789abcde\n"
		".cloister-0123456789abcdeF\n.cloister-0123456789abcdef0\n.cloister-fg\n");
	scratch_done(&scratch);
}

TEST(test_visitor_ends_it)
{
	struct scratch scratch = scratch_new();
	struct log log = {.act_at = "a/b", .act_returns = STOP};
	size_t before = open_descriptors();
	struct walk_end end;

	scratch_text(&scratch, "a/b/c", "");
	scratch_text(&scratch, "d", "");
	assert_int_equal(run_walk(&scratch, ".", true, &log, &end), STOP);
	assert_int_equal(log.visits, 2);
	assert_int_equal(open_descriptors(), before);
	scratch_done(&scratch);
}

TEST(test_many_entries)
{
	struct scratch scratch = scratch_new();
	struct walk_end end;
	struct log log = {0};
	char name[64];

	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "a-rather-long-name-that-fills-the-batch-%d", i);
		scratch_text(&scratch, name, "");
	}
	assert_int_equal(run_walk(&scratch, ".", true, &log, &end), 0);
	assert_int_equal(log.visits, 3000);
	scratch_done(&scratch);
}

/* Makes @depth nested directories @name, each with files around the next unless @bare. */
static void make_deep(const struct scratch *scratch, const char *name, size_t depth, bool bare)
{
	int dir = dup(scratch->fd);

	for (size_t i = 0; i < depth; i++) {
		int next;

		if (!bare) {
			close(openat(dir, "a", O_WRONLY | O_CREAT, 0666));
			(void)mkdirat(dir, "y", 0777);
			close(openat(dir, "z", O_WRONLY | O_CREAT, 0666));
		}
		assert_int_equal(mkdirat(dir, name, 0777), 0);
		next = openat(dir, name, O_PATH | O_DIRECTORY);
		assert_true(next >= 0);
		close(dir);
		dir = next;
	}
	close(dir);
}

/* The paths are too long for nftw(3): moves every second directory to the top. */
static void remove_deep(const struct scratch *scratch, const char *name)
{
	assert_int_equal(renameat(scratch->fd, name, scratch->fd, "top"), 0);
	while (faccessat(scratch->fd, "top", F_OK, 0) == 0) {
		int top = openat(scratch->fd, "top", O_PATH | O_DIRECTORY);

		(void)unlinkat(top, "a", 0);
		(void)unlinkat(top, "y", AT_REMOVEDIR);
		(void)unlinkat(top, "z", 0);
		if (renameat(top, name, scratch->fd, "next") < 0)
			assert_int_equal(errno, ENOENT);
		close(top);
		assert_int_equal(unlinkat(scratch->fd, "top", AT_REMOVEDIR), 0);
		(void)renameat(scratch->fd, "next", scratch->fd, "top");
	}
}

/* Deeper than the number of descriptors held: everything is also visited on the way back. */
TEST(test_deep)
{
	const size_t depth = 5 * LIMIT_WALK_OPEN_LEVELS + 3;
	struct scratch scratch = scratch_new();
	struct log log = {0};
	struct walk_end end;
	size_t before = open_descriptors();

	make_deep(&scratch, "c", depth, true);
	make_deep(&scratch, "d", depth, false);
	make_deep(&scratch, "e", depth, false);
	assert_int_equal(run_walk(&scratch, ".", true, &log, &end), 0);
	/* The files and "y" beside "d" and "e" are the same. */
	assert_int_equal(log.visits, depth + 4 * depth + 4 * depth - 3);
	assert_int_equal(end.unreadable, 0);
	assert_false(end.truncated);
	assert_int_equal(open_descriptors(), before);
	remove_deep(&scratch, "c");
	remove_deep(&scratch, "d");
	remove_deep(&scratch, "e");
	scratch_done(&scratch);
}

/* Much longer than PATH_MAX. Paths too long for a reply are not walked, and the result says so. */
TEST(test_long_path)
{
	const size_t deepest = (LIMIT_WALK_PATH_BYTES + 1) / 101;
	struct scratch scratch = scratch_new();
	struct log log = {0};
	struct walk_end end;
	char name[101];

	memset(name, 'd', 100);
	name[100] = '\0';
	make_deep(&scratch, name, deepest + 10, false);
	assert_int_equal(run_walk(&scratch, ".", true, &log, &end), 0);
	assert_true(end.truncated);
	assert_int_equal(end.unreadable, 0);
	assert_int_equal(log.visits, 4 * deepest + 3);
	remove_deep(&scratch, name);
	scratch_done(&scratch);
}

#define MOVED_DEPTH (2 * LIMIT_WALK_OPEN_LEVELS)

/* Puts a tree of the same names in the place of a level that was closed. */
static void swap_upper_level(const struct scratch *scratch)
{
	struct scratch upper = {.fd = openat(scratch->fd, "d", O_PATH | O_DIRECTORY)};

	assert_int_equal(renameat(upper.fd, "d", scratch->fd, "moved"), 0);
	make_deep(&upper, "d", MOVED_DEPTH, false);
	close(upper.fd);
}

TEST(test_moved)
{
	struct scratch scratch = scratch_new();
	char deepest[2 * MOVED_DEPTH];
	struct log log = {.act_at = deepest, .act = swap_upper_level, .scratch = &scratch};
	size_t before = open_descriptors();
	struct walk_end end;

	make_deep(&scratch, "d", MOVED_DEPTH, false);
	for (size_t i = 0; i < MOVED_DEPTH; i++)
		memcpy(deepest + 2 * i, "d/", 2);
	deepest[sizeof(deepest) - 1] = '\0';
	assert_int_equal(run_walk(&scratch, ".", true, &log, &end), 0);
	/* Each level that was closed and has moved lost its remaining entries, "y" and "z". */
	assert_int_equal(end.unreadable, MOVED_DEPTH - LIMIT_WALK_OPEN_LEVELS - 1);
	assert_int_equal(log.visits, 4 * MOVED_DEPTH - 2 * end.unreadable);
	assert_int_equal(open_descriptors(), before);
	remove_deep(&scratch, "d");
	assert_int_equal(renameat(scratch.fd, "moved", scratch.fd, "d"), 0);
	remove_deep(&scratch, "d");
	scratch_done(&scratch);
}

static void link_to_outside(const struct scratch *scratch)
{
	assert_int_equal(unlinkat(scratch->fd, "in/trap", AT_REMOVEDIR), 0);
	assert_int_equal(symlinkat("../outside", scratch->fd, "in/trap"), 0);
}

/* A directory becomes a link between the visit and the descent. */
TEST(test_swapped_for_link)
{
	struct scratch scratch = scratch_new();
	struct log log = {.act_at = "in/trap", .act = link_to_outside, .scratch = &scratch};
	struct walk_end end;

	scratch_text(&scratch, "outside/secret", "");
	scratch_parents(&scratch, "in/trap/");
	assert_int_equal(run_walk(&scratch, "in", true, &log, &end), 0);
	assert_int_equal(log.visits, 1);
	assert_int_equal(end.unreadable, 1);
	scratch_done(&scratch);
}
