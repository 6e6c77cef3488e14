/* links: cloister-unpack-core */
// SPDX-License-Identifier: Apache-2.0
/* The template that an archive becomes, against random hostile entries: whatever comes in whatever
 * order, nothing outside of it changes, nothing is written through a link, and what is there when
 * an entry is accepted is what the entry says. */
#include "worker/unpack/unpack_tree.h"

#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"

#include <ftw.h>

#define ROUNDS  1000
#define ENTRIES 24
#define BYTES   (64 * MIB)

static uint64_t seed = 20261125;

static unsigned pick(unsigned n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(seed >> 33) % n;
}

struct fixture {
	struct scratch scratch; /* "to", the template, and beside it "out" */
	int root;
	struct unpack_tree tree;
};

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	fixture->scratch = scratch_new();
	scratch_text(&fixture->scratch, "out/file", "outside");
	assert_return_code(mkdirat(fixture->scratch.fd, "to", 0700), errno);
	fixture->root = openat(fixture->scratch.fd, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(unpack_tree_init(&fixture->tree, fixture->root, BYTES, 100000), 0);
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	unpack_tree_done(&fixture->tree);
	close(fixture->root);
	scratch_done(&fixture->scratch);
	free(fixture);
	return 0;
}

FIXTURE(set_up, tear_down)

static struct unpack_entry entry_of(const char *path)
{
	return (struct unpack_entry){.path = path, .mode = 06755, .modified = {.tv_sec = 1000}};
}

static int put(struct unpack_tree *tree, const char *path, const char *content)
{
	const struct unpack_entry entry = entry_of(path);
	struct unpack_file file;
	int r = unpack_tree_file(tree, &entry, &file), closed;

	if (r < 0)
		return r;
	r = unpack_file_write(tree, &file, content, strlen(content), 0);
	closed = unpack_file_close(tree, &file, &entry, strlen(content));
	return r < 0 ? r : closed;
}

static int put_directory(struct unpack_tree *tree, const char *path)
{
	const struct unpack_entry entry = entry_of(path);

	return unpack_tree_directory(tree, &entry);
}

static int put_symlink(struct unpack_tree *tree, const char *path, const char *target)
{
	const struct unpack_entry entry = entry_of(path);

	return unpack_tree_symlink(tree, &entry, target);
}

static int put_link(struct unpack_tree *tree, const char *path, const char *target)
{
	const struct unpack_entry entry = entry_of(path);

	return unpack_tree_link(tree, &entry, target);
}

static void assert_refused(struct fixture *fixture, int r, enum unpack_fault fault)
{
	assert_int_equal(r, -UNPACK_REFUSAL);
	assert_int_equal(fixture->tree.report.fault, fault);
}

/* Paths. */

TEST(test_paths)
{
	static const struct {
		const char *path;
		enum unpack_fault fault;
	} cases[] = {{"/x", UNPACK_ABSOLUTE}, {"//x", UNPACK_ABSOLUTE}, {"..", UNPACK_CLIMBS},
		{"../out/file", UNPACK_CLIMBS}, {"a/../x", UNPACK_CLIMBS}, {"a/..", UNPACK_CLIMBS},
		{"./..//x", UNPACK_CLIMBS}, {"", UNPACK_NAME}, {NULL, UNPACK_NAME}};
	struct fixture *fixture = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_refused(fixture, put(&fixture->tree, cases[i].path, "x"), cases[i].fault);
		assert_refused(
			fixture, put_directory(&fixture->tree, cases[i].path), cases[i].fault);
		assert_refused(
			fixture, put_symlink(&fixture->tree, cases[i].path, "x"), cases[i].fault);
		assert_refused(
			fixture, put_link(&fixture->tree, "y", cases[i].path), cases[i].fault);
	}
	assert_int_equal(put(&fixture->tree, ".//a/./b//c", "x"), 0);
	assert_return_code(faccessat(fixture->root, "a/b/c", F_OK, 0), errno);
	assert_int_equal(put_directory(&fixture->tree, "./"), 0);
	assert_refused(fixture, put(&fixture->tree, ".", "x"), UNPACK_SWAPPED);
	/* Names with dots are names. */
	assert_int_equal(put(&fixture->tree, "..a/...", "x"), 0);
}

TEST(test_links)
{
	struct fixture *fixture = *state;
	struct unpack_tree *tree = &fixture->tree;

	assert_int_equal(put_symlink(tree, "l", "../out"), 0);
	assert_refused(fixture, put(tree, "l/file", "x"), UNPACK_THROUGH_LINK);
	assert_refused(fixture, put_directory(tree, "l/d"), UNPACK_THROUGH_LINK);
	assert_refused(fixture, put_link(tree, "x", "l/file"), UNPACK_THROUGH_LINK);
	assert_refused(fixture, put_directory(tree, "l"), UNPACK_SWAPPED);
	assert_int_equal(put_directory(tree, "d"), 0);
	assert_refused(fixture, put_symlink(tree, "d", "../out"), UNPACK_SWAPPED);
	assert_int_equal(put(tree, "f", "x"), 0);
	assert_refused(fixture, put(tree, "f/g", "x"), UNPACK_THROUGH_FILE);
	/* A link to a link is one to the link itself, and a file in its place changes nothing. */
	assert_int_equal(put_link(tree, "m", "l"), 0);
	assert_int_equal(put(tree, "m", "x"), 0);
	assert_int_equal(put_symlink(tree, "n", "../out/file"), 0);
	assert_int_equal(put(tree, "n", "x"), 0);
}

/* In layers, what another has brought gives way. */
TEST(test_layers)
{
	struct fixture *fixture = *state;
	struct unpack_tree *tree = &fixture->tree;

	unpack_tree_next_layer(tree);
	assert_int_equal(put(tree, "d/f", "1"), 0);
	assert_refused(fixture, put_symlink(tree, "d", "../out"), UNPACK_SWAPPED);
	assert_int_equal(put_symlink(tree, "l", "../out"), 0);
	unpack_tree_next_layer(tree);
	assert_refused(fixture, put(tree, "l/file", "x"), UNPACK_THROUGH_LINK);
	assert_int_equal(unpack_tree_hide(tree, "l/file", false), 0);
	assert_int_equal(unpack_tree_hide(tree, "l", true), 0);
	assert_int_equal(put_symlink(tree, "d", "../out"), 0);
	assert_refused(fixture, put_directory(tree, "d"), UNPACK_SWAPPED);
	assert_int_equal(put(tree, "e/f/g", "2"), 0);
	assert_refused(fixture, put(tree, "e", "2"), UNPACK_SWAPPED);
	unpack_tree_next_layer(tree);
	assert_int_equal(put(tree, "e", "3"), 0);
	assert_int_equal(unpack_tree_hide(tree, "d", false), 0);
	assert_int_equal(faccessat(fixture->root, "d", F_OK, AT_SYMLINK_NOFOLLOW), -1);
	assert_refused(fixture, unpack_tree_hide(tree, "../out/file", false), UNPACK_CLIMBS);
	assert_refused(fixture, unpack_tree_hide(tree, "/", true), UNPACK_ABSOLUTE);
}

/* Bounds. */

TEST(test_bounds)
{
	struct fixture *fixture = *state;
	struct unpack_tree *tree = &fixture->tree;
	const struct unpack_entry entry = entry_of("f");
	struct unpack_file file;

	assert_int_equal(unpack_tree_file(tree, &entry, &file), 0);
	/* Bytes that are far apart cost their pages, those in one page one. */
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(unpack_file_write(tree, &file, "x", 1, i * 2), 0);
	assert_int_equal(tree->bytes, 4096);
	for (uint64_t i = 1; i < 100; i++)
		assert_int_equal(unpack_file_write(tree, &file, "x", 1, i * 1000000), 0);
	assert_int_equal(tree->bytes, 100 * 4096);
	assert_refused(fixture, unpack_file_write(tree, &file, "x", 1, 0), UNPACK_DAMAGED);
	assert_refused(fixture, unpack_file_write(tree, &file, "x", 1, UINT64_MAX), UNPACK_DAMAGED);
	assert_refused(
		fixture, unpack_file_close(tree, &file, &entry, UINT64_MAX), UNPACK_FILE_SIZE);
	assert_int_equal(file.fd, -1);
	tree->max_files = tree->files + 1;
	assert_int_equal(put(tree, "g", "x"), 0);
	assert_refused(fixture, put(tree, "h", "x"), UNPACK_FILES);
	assert_refused(fixture, put(tree, "i/j", "x"), UNPACK_FILES);
	tree->max_bytes = tree->bytes;
	tree->max_files = 1000;
	assert_refused(fixture, put(tree, "h", "x"), UNPACK_BYTES);
}

TEST(test_modes)
{
	struct fixture *fixture = *state;
	const struct unpack_entry shut = {.path = "d", .mode = 02000, .modified = {.tv_sec = 1000}};
	struct stat stat_buf;

	assert_int_equal(put(&fixture->tree, "f", "x"), 0);
	assert_return_code(fstatat(fixture->root, "f", &stat_buf, 0), errno);
	assert_int_equal(stat_buf.st_mode & 07777, 0755);
	/* A directory without permissions has its files first. */
	assert_int_equal(unpack_tree_directory(&fixture->tree, &shut), 0);
	assert_int_equal(put_directory(&fixture->tree, "d/e"), 0);
	assert_int_equal(put(&fixture->tree, "d/e/f", "x"), 0);
	assert_int_equal(unpack_tree_finish(&fixture->tree), 0);
	assert_return_code(fstatat(fixture->root, "d", &stat_buf, 0), errno);
	assert_int_equal(stat_buf.st_mode & 07777, 0);
	assert_int_equal(stat_buf.st_mtim.tv_sec, 1000);
	assert_return_code(fchmodat(fixture->root, "d", 0700, 0), errno);
	assert_return_code(fstatat(fixture->root, "d/e", &stat_buf, 0), errno);
	assert_int_equal(stat_buf.st_mode & 07777, 0755);
}

/* Random entries. */

static const char *pick_path(void)
{
	static const char *const paths[] = {"a", "b", "a/b", "a/b/c", "b/c", "c", "./a/", "a//c",
		"..", "../out", "../out/file", "a/../b", "/out", "a/b/c/d", "c/a", "c/file",
		"b/file", "a/file", ".", "a/./b", "a/b/../../../out/file"};

	return paths[pick(ARRAY_SIZE(paths))];
}

static const char *pick_target(void)
{
	static const char *const targets[] = {"..", "../out", "../out/file", "../../out", "a", "b",
		"a/b", ".", "c", "/", "../to", "../../out/file"};

	return targets[pick(ARRAY_SIZE(targets))];
}

static int put_random(struct unpack_tree *tree)
{
	switch (pick(8)) {
	case 0:
		return put_directory(tree, pick_path());
	case 1:
	case 2:
		return put_symlink(tree, pick_path(), pick_target());
	case 3:
		return put_link(tree, pick_path(), pick_path());
	case 4:
		return tree->layers ? unpack_tree_hide(tree, pick_path(), pick(2)) : 0;
	case 5:
		if (pick(4) == 0)
			unpack_tree_next_layer(tree);
		return 0;
	default:
		return put(tree, pick_path(), "inside");
	}
}

/* Whether the only name outside is what it was, and no file of the template is the same. */
static void assert_outside_is_as_before(const struct fixture *fixture)
{
	char text[16] = "";
	struct stat stat_buf;
	int fd = openat(fixture->scratch.fd, "out/file", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(read(fd, text, sizeof(text)), strlen("outside"));
	assert_string_equal(text, "outside");
	assert_return_code(fstat(fd, &stat_buf), errno);
	assert_int_equal(stat_buf.st_nlink, 1);
	close(fd);
	assert_return_code(fstatat(fixture->scratch.fd, "out", &stat_buf, 0), errno);
	assert_int_equal(stat_buf.st_nlink, 2);
	assert_int_equal(unlinkat(fixture->scratch.fd, "out", AT_REMOVEDIR), -1);
	assert_int_equal(errno, ENOTEMPTY);
	assert_return_code(fstatat(fixture->scratch.fd, ".", &stat_buf, 0), errno);
	assert_int_equal(stat_buf.st_nlink, 4);
}

static int check_one(const char *path, const struct stat *stat_buf, int type, struct FTW *place)
{
	(void)path;
	(void)type;
	(void)place;
	return (stat_buf->st_mode & 06000) != 0 ||
	       !(S_ISREG(stat_buf->st_mode) || S_ISDIR(stat_buf->st_mode) ||
		       S_ISLNK(stat_buf->st_mode));
}

/* What is said last of a directory holds, also if the first took all permissions. */
TEST(test_a_directory_that_comes_again)
{
	static const mode_t modes[] = {0, 0100, 0755};
	struct fixture *fixture = *state;
	struct stat stat_buf;

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct unpack_entry entry = entry_of("d");

		entry.mode = modes[i];
		entry.modified.tv_sec = 1000 + (time_t)i;
		assert_int_equal(unpack_tree_directory(&fixture->tree, &entry), 0);
		assert_int_equal(put_directory(&fixture->tree, "d/e"), 0);
		unpack_tree_next_layer(&fixture->tree);
	}
	assert_int_equal(unpack_tree_finish(&fixture->tree), 0);
	assert_return_code(fstatat(fixture->root, "d", &stat_buf, 0), errno);
	assert_int_equal(stat_buf.st_mode & 07777, 0755);
	assert_int_equal(stat_buf.st_mtim.tv_sec, 1002);
}

TEST_WITH(test_random_entries, NULL, NULL)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		void *one = NULL;
		struct fixture *fixture;
		char top[300];

		set_up(&one);
		fixture = one;
		for (unsigned i = 0; i < ENTRIES; i++) {
			int r = put_random(&fixture->tree);

			assert_true(r == 0 || r == -UNPACK_REFUSAL || r == -ENOENT);
		}
		assert_int_equal(unpack_tree_finish(&fixture->tree), 0);
		assert_outside_is_as_before(fixture);
		snprintf(top, sizeof(top), "%s/to", fixture->scratch.path);
		assert_int_equal(nftw(top, check_one, 16, FTW_PHYS), 0);
		tear_down(&one);
	}
}
