/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * An index of any bytes; then these bytes after good entries, which take more than one reading. If
 * an index is accepted, every directory above a tracked file counts as having tracked files, and
 * the empty name is not tracked. Good entries are tracked whatever comes after them.
 *
 * Input: the index.
 */
#include "common/cleanup.h"
#include "common/limits.h"
#include "tests/fuzz/fuzz.h"
#include "worker/files/walk/git_index.h"

#include <sys/mman.h>
#include <unistd.h>

#define HEADER_BYTES 12
#define GOOD_BYTES   72 /* of an entry whose name has 6 */
#define GOOD_ENTRIES (LIMIT_GIT_INDEX_PIECE / GOOD_BYTES + 100)

static struct git_index *opened(struct text first, struct text second)
{
	struct git_index *index = NULL;
	int fd = memfd_create("index", MFD_CLOEXEC);

	CHECK(fd >= 0);
	CHECK(write(fd, first.data, first.len) == (ssize_t)first.len);
	CHECK(write(fd, second.data, second.len) == (ssize_t)second.len);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	CHECK(git_index_from(fd, first.len + second.len, &index) == 0);
	return index;
}

/* Looks up the strings in the input, among them the names of the index. */
static void ask(struct git_index *index, struct text bytes)
{
	for (size_t at = 0; at + 1 < bytes.len && at < 4096; at++) {
		struct text path = {bytes.data + at, strnlen(bytes.data + at, bytes.len - at)};
		const char *slash = memrchr(path.data, '/', path.len);

		/* No question ends in a slash. */
		if (slash && slash > path.data && slash < path.data + path.len - 1 &&
			git_index_tracks(index, path))
			CHECK(git_index_tracks(
				index, (struct text){path.data, (size_t)(slash - path.data)}));
	}
	CHECK(!git_index_tracks(index, TEXT_LITERAL("")));
}

/* A version 2 index of good entries that announces as many more as the first byte of @bytes. */
static void after_good_ones(struct text bytes)
{
	static char good[HEADER_BYTES + GOOD_ENTRIES * GOOD_BYTES] = "DIRC\0\0\0\2";
	const size_t entries = GOOD_ENTRIES + (bytes.len > 0 ? (uint8_t)bytes.data[0] : 0);
	struct git_index *index;
	char name[8];

	for (size_t i = 0; i < 4; i++)
		good[8 + i] = (char)(entries >> (24 - 8 * i));
	for (size_t i = 0; i < GOOD_ENTRIES; i++) {
		char *entry = good + HEADER_BYTES + i * GOOD_BYTES;

		entry[61] = 6; /* the flags, after what stat(2) told and the object name */
		snprintf(entry + 62, GOOD_BYTES - 62, "%04zu/a", i);
	}
	index = opened((struct text){good, sizeof(good)}, bytes);
	if (!index) /* more entries than a file of its size can have */
		return;
	for (size_t i = GOOD_ENTRIES; i-- > 0; i -= i % 97) {
		snprintf(name, sizeof(name), "%04zu/a", i);
		CHECK(git_index_tracks(index, (struct text){name, 6}) == 1);
		CHECK(git_index_tracks(index, (struct text){name, 4}) == 1);
	}
	ask(index, bytes);
	git_index_free(index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct text bytes = fuzz_text(data, size);
	struct git_index *index = opened(bytes, TEXT_LITERAL(""));

	if (index)
		ask(index, bytes);
	git_index_free(index);
	after_good_ones(bytes);
	return 0;
}
