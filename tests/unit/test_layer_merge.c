/* links: cloister-spawner-core */
// SPDX-License-Identifier: Apache-2.0
/* Two layers of an overlay become one that shows the same. */
#include "worker/spawner/job/layer_merge.h"

#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"

#include <sys/xattr.h>

#define OPAQUE "user.overlay.opaque"

struct fixture {
	struct scratch scratch;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->scratch = scratch_new();
	scratch_parents(&f->scratch, "low/");
	scratch_parents(&f->scratch, "high/");
	scratch_parents(&f->scratch, "to/");
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	scratch_done(&f->scratch);
	free(f);
	return 0;
}

FIXTURE(set_up, tear_down)

static void whiteout(const struct fixture *f, const char *path)
{
	scratch_parents(&f->scratch, path);
	assert_int_equal(mknodat(f->scratch.fd, path, S_IFCHR, 0), 0);
}

static void set(const struct fixture *f, const char *path, const char *name, const char *value)
{
	char full[512];

	snprintf(full, sizeof(full), "%s/%s", f->scratch.path, path);
	if (setxattr(full, name, value, strlen(value), 0) < 0)
		skip(); /* a file system without them */
}

static const char *attribute(const struct fixture *f, const char *path, const char *name)
{
	static char value[64];
	char full[512];
	ssize_t size;

	snprintf(full, sizeof(full), "%s/%s", f->scratch.path, path);
	size = getxattr(full, name, value, sizeof(value) - 1);
	value[size < 0 ? 0 : size] = '\0';
	return value;
}

static int merge(const struct fixture *f)
{
	int fds[3], r;
	const char *names[] = {"low", "high", "to"};

	for (size_t i = 0; i < 3; i++)
		fds[i] = openat(f->scratch.fd, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = layer_merge(fds[0], fds[1], fds[2]);
	for (size_t i = 0; i < 3; i++)
		close(fds[i]);
	return r;
}

static mode_t mode_of(const struct fixture *f, const char *path)
{
	struct stat stat_buf;

	return fstatat(f->scratch.fd, path, &stat_buf, AT_SYMLINK_NOFOLLOW) < 0 ? 0
										: stat_buf.st_mode;
}

static bool is_whiteout(const struct fixture *f, const char *path)
{
	struct stat stat_buf;

	return fstatat(f->scratch.fd, path, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISCHR(stat_buf.st_mode) && stat_buf.st_rdev == 0;
}

static bool is_same(const struct fixture *f, const char *a, const char *b)
{
	struct stat of_a, of_b;

	return fstatat(f->scratch.fd, a, &of_a, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstatat(f->scratch.fd, b, &of_b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       of_a.st_ino == of_b.st_ino;
}

TEST(test_the_upper_one_counts)
{
	struct fixture *f = *state;

	scratch_text(&f->scratch, "low/both", "low");
	scratch_text(&f->scratch, "low/low", "low");
	scratch_text(&f->scratch, "low/deleted", "low");
	scratch_text(&f->scratch, "low/d/low", "low");
	scratch_text(&f->scratch, "high/both", "high");
	scratch_text(&f->scratch, "high/high", "high");
	scratch_text(&f->scratch, "high/d/e/high", "high");
	scratch_link(&f->scratch, "high/link", "nowhere");
	whiteout(f, "high/deleted");
	whiteout(f, "low/before");
	scratch_text(&f->scratch, "high/again", "high");
	whiteout(f, "low/again");
	assert_int_equal(merge(f), 0);
	assert_true(is_same(f, "to/both", "high/both"));
	assert_true(is_same(f, "to/low", "low/low"));
	assert_true(is_same(f, "to/high", "high/high"));
	assert_true(is_same(f, "to/d/low", "low/d/low"));
	assert_true(is_same(f, "to/d/e/high", "high/d/e/high"));
	assert_true(is_same(f, "to/link", "high/link"));
	assert_true(is_same(f, "to/again", "high/again"));
	/* Layers below the two may have files of these names. */
	assert_true(is_whiteout(f, "to/deleted") && is_whiteout(f, "to/before"));
}

TEST(test_directories_are_as_the_upper_one_has_them)
{
	const struct timespec times[] = {{1000, 1}, {2000, 2}}, others[] = {{3000, 0}, {4000, 0}};
	struct fixture *f = *state;
	struct stat stat_buf;

	scratch_text(&f->scratch, "low/d/x", "");
	scratch_text(&f->scratch, "high/d/y", "");
	set(f, "low/d", "user.low", "gone");
	set(f, "high/d", "user.note", "kept");
	assert_int_equal(fchmodat(f->scratch.fd, "high/d", 01750, 0), 0);
	assert_int_equal(utimensat(f->scratch.fd, "high/d", times, 0), 0);
	assert_int_equal(utimensat(f->scratch.fd, "low/d", others, 0), 0);
	assert_int_equal(merge(f), 0);
	assert_int_equal(mode_of(f, "to/d") & 07777, 01750);
	assert_int_equal(fstatat(f->scratch.fd, "to/d", &stat_buf, 0), 0);
	assert_int_equal(stat_buf.st_mtim.tv_sec, 2000);
	assert_int_equal(stat_buf.st_mtim.tv_nsec, 2);
	assert_string_equal(attribute(f, "to/d", "user.note"), "kept");
	assert_string_equal(attribute(f, "to/d", "user.low"), "");
	assert_string_equal(attribute(f, "to/d", OPAQUE), "");
}

/* What is below the two layers must not show where it did not. */
TEST(test_what_was_hidden_stays_hidden)
{
	struct fixture *f = *state;

	scratch_text(&f->scratch, "low/opaque-low/l", "");
	scratch_text(&f->scratch, "low/opaque-low/deleted", "");
	scratch_text(&f->scratch, "low/opaque-low/sub/l", "");
	set(f, "low/opaque-low", OPAQUE, "y");
	scratch_text(&f->scratch, "high/opaque-low/h", "");
	whiteout(f, "high/opaque-low/deleted");
	whiteout(f, "high/opaque-low/sub/l");
	scratch_text(&f->scratch, "low/opaque-high/l", "");
	scratch_text(&f->scratch, "high/opaque-high/h", "");
	set(f, "high/opaque-high", OPAQUE, "y");
	whiteout(f, "low/was-deleted");
	scratch_text(&f->scratch, "high/was-deleted/h", "");
	scratch_text(&f->scratch, "low/was-file", "");
	scratch_text(&f->scratch, "high/was-file/h", "");
	scratch_text(&f->scratch, "low/becomes-file/l", "");
	scratch_text(&f->scratch, "high/becomes-file", "");
	scratch_text(&f->scratch, "low/plain/l", "");
	scratch_text(&f->scratch, "high/other", "");
	set(f, "low/plain", OPAQUE, "x"); /* means something else */
	assert_int_equal(merge(f), 0);
	assert_string_equal(attribute(f, "to/opaque-low", OPAQUE), "y");
	assert_true(mode_of(f, "to/opaque-low/l") && mode_of(f, "to/opaque-low/h"));
	/* Nothing is below these, and a list would show whiteouts. */
	assert_false(mode_of(f, "to/opaque-low/deleted") || mode_of(f, "to/opaque-low/sub/l"));
	assert_true(S_ISDIR(mode_of(f, "to/opaque-low/sub")));
	assert_string_equal(attribute(f, "to/opaque-high", OPAQUE), "y");
	assert_true(mode_of(f, "to/opaque-high/h"));
	assert_false(mode_of(f, "to/opaque-high/l"));
	assert_string_equal(attribute(f, "to/was-deleted", OPAQUE), "y");
	assert_string_equal(attribute(f, "to/was-file", OPAQUE), "y");
	assert_true(S_ISREG(mode_of(f, "to/becomes-file")));
	assert_string_equal(attribute(f, "to/plain", OPAQUE), "");
	assert_true(mode_of(f, "to/plain/l"));
}

TEST(test_a_tree_that_is_too_deep_is_refused)
{
	char path[4 * LIMIT_CLEAR_DEPTH] = "high/";
	struct fixture *f = *state;

	for (int i = 0; i < LIMIT_CLEAR_DEPTH - 1; i++)
		strcat(path, "d/");
	scratch_parents(&f->scratch, path);
	assert_int_equal(merge(f), 0);
	strcat(path, "d/");
	scratch_parents(&f->scratch, path);
	scratch_parents(&f->scratch, "other/");
	assert_int_equal(renameat(f->scratch.fd, "to", f->scratch.fd, "first"), 0);
	assert_int_equal(renameat(f->scratch.fd, "other", f->scratch.fd, "to"), 0);
	assert_int_equal(merge(f), -ENAMETOOLONG);
}

TEST(test_what_is_there_already_is_told)
{
	struct fixture *f = *state;

	scratch_text(&f->scratch, "high/a", "");
	scratch_text(&f->scratch, "to/a", "");
	assert_int_equal(merge(f), -EEXIST);
}
