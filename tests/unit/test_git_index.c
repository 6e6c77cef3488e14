/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/* An index that is read in pieces: paths are asked in any order, and the file may be cut off. What
 * a small one has is compared with git itself in test_gitignore.c. */
#include "tests/lib/unit.h"
#include "worker/files/walk/git_index.h"

#include <sys/mman.h>

#define NAMES 3000

/* Returns the length of the name with this number, put into @name; they are in git's order. */
static size_t name_of(size_t number, char name[128])
{
	return (size_t)snprintf(name, 128, "%04zu/%0*zu.o", number, (int)(1 + number % 50), number);
}

/* Where the tail of a name begins that is put after another one. */
static size_t common_part(const char *one, const char *other)
{
	size_t len = 0;

	while (one[len] != '\0' && one[len] == other[len])
		len++;
	return len;
}

/* Puts an entry with the name @name, after one with @before, as gitformat-index(5) has it. */
static void put_entry(
	FILE *file, unsigned version, size_t hash_bytes, const char *name, const char *before)
{
	const size_t len = strlen(name), fixed = 40 + hash_bytes + 2;
	const size_t kept = version == 4 ? common_part(name, before) : 0;
	size_t zeros = 1;

	for (size_t i = 0; i < fixed - 2; i++)
		putc('#', file);
	putc(0, file);
	putc((int)len, file);
	if (version == 4) /* what of the name before is dropped; less than 128 here */
		putc((int)(strlen(before) - kept), file);
	else
		zeros = 8 - (fixed + len) % 8;
	fwrite(name + kept, 1, len - kept, file);
	for (size_t i = 0; i < zeros; i++)
		putc(0, file);
}

/* Returns an open index of these names, which has *@ret_size bytes. */
static int index_file(unsigned version, size_t hash_bytes, size_t names, size_t *ret_size)
{
	char before[128] = "", name[128];
	int fd = memfd_create("index", MFD_CLOEXEC);
	FILE *file = fdopen(dup(fd), "w");
	struct stat st;

	assert_non_null(file);
	fwrite((char[]){'D', 'I', 'R', 'C', 0, 0, 0, (char)version, 0, 0, (char)(names >> 8),
		       (char)names},
		1, 12, file);
	for (size_t i = 0; i < names; i++) {
		name_of(i, name);
		put_entry(file, version, hash_bytes, name, before);
		memcpy(before, name, sizeof(before));
	}
	for (size_t i = 0; i < hash_bytes; i++)
		putc('#', file);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	*ret_size = (size_t)st.st_size;
	return fd;
}

static int tracks(struct git_index *index, size_t number)
{
	char name[128];

	return git_index_tracks(index, (struct text){name, name_of(number, name)});
}

/* That of a name, its directory, and of names beside them. */
static void check(struct git_index *index, size_t number)
{
	char name[128];
	struct text path = {name, name_of(number, name)};

	assert_int_equal(git_index_tracks(index, path), 1);
	assert_int_equal(git_index_tracks(index, (struct text){name, 4}), 1);
	assert_int_equal(git_index_tracks(index, (struct text){name, 3}), 0);
	assert_int_equal(git_index_tracks(index, (struct text){name, path.len - 1}), 0);
	name[path.len - 1] = 'p';
	assert_int_equal(git_index_tracks(index, path), 0);
}

TEST(test_any_order)
{
	static const size_t steps[] = {1, 7, NAMES - 1, 1699};

	for (size_t i = 0; i < 2 * 2 * ARRAY_SIZE(steps); i++) {
		const size_t step = steps[i / 4];
		struct git_index *index;
		size_t size;
		int fd = index_file(i & 1 ? 4 : 2, i & 2 ? 32 : 20, NAMES, &size);

		assert_true(size > 3 * LIMIT_GIT_INDEX_PIECE);
		assert_int_equal(git_index_from(fd, size, &index), 0);
		assert_non_null(index);
		for (size_t n = 0, number = step - 1; n < NAMES; n++, number += step)
			check(index, number % NAMES);
		assert_int_equal(git_index_tracks(index, TEXT_LITERAL("zz")), 0);
		assert_int_equal(tracks(index, NAMES), 0);
		assert_int_equal(tracks(index, 0), 1);
		git_index_free(index);
	}
}

/* No more is read than a path needs. */
TEST(test_as_far_as_is_needed)
{
	struct git_index *index;
	size_t size;
	int fd = index_file(2, 20, NAMES, &size), other = dup(fd);

	assert_int_equal(git_index_from(fd, size, &index), 0);
	assert_int_equal(lseek(other, 0, SEEK_CUR), LIMIT_GIT_INDEX_PIECE);
	assert_int_equal(tracks(index, 10), 1);
	assert_int_equal(lseek(other, 0, SEEK_CUR), LIMIT_GIT_INDEX_PIECE);
	assert_int_equal(tracks(index, NAMES / 2), 1);
	assert_in_range(
		lseek(other, 0, SEEK_CUR), 2 * LIMIT_GIT_INDEX_PIECE, size - LIMIT_GIT_INDEX_PIECE);
	assert_int_equal(tracks(index, NAMES), 0);
	assert_int_equal(lseek(other, 0, SEEK_CUR), size);
	git_index_free(index);
	close(other);
}

/* An index that is cut off, or has a fault, counts up to there; at once, there is none. */
TEST(test_faults)
{
	static const char fault[256];
	struct git_index *index;
	size_t size, tracked = 0;

	for (size_t i = 0; i < 2; i++) {
		int fd = index_file(2, 20, NAMES, &size), other = dup(fd);

		assert_int_equal(git_index_from(fd, size, &index), 0);
		if (i == 0) /* after it was opened */
			assert_int_equal(ftruncate(other, LIMIT_GIT_INDEX_PIECE * 3 / 2), 0);
		else
			assert_int_equal(
				pwrite(other, fault, sizeof(fault), LIMIT_GIT_INDEX_PIECE * 3 / 2),
				sizeof(fault));
		assert_int_equal(tracks(index, NAMES - 1), 0);
		for (tracked = 0; tracked < NAMES && tracks(index, tracked); tracked++)
			;
		assert_in_range(tracked, LIMIT_GIT_INDEX_PIECE / 128, NAMES / 2);
		for (size_t number = tracked; number < NAMES; number++)
			assert_int_equal(tracks(index, number), 0);
		git_index_free(index);
		close(other);
	}
	for (size_t cut = 0; cut < 200; cut++) {
		int fd = index_file(2, 20, 2, &size);

		assert_int_equal(git_index_from(fd, size - cut, &index), 0);
		assert_int_equal(index != NULL, cut == 0);
		git_index_free(index);
		if (size - cut < 12)
			break;
	}
}
