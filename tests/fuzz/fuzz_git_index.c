/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * An index of any bytes. If it is accepted, every directory above a tracked file counts as having
 * tracked files, and the empty name is not tracked.
 *
 * Input: the index.
 */
#include "tests/fuzz/fuzz.h"
#include "worker/files/git_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct git_index *index = NULL;
	int r = git_index_parse(fuzz_text(data, size), &index);

	CHECK((r == 0) == (index != NULL));
	if (r < 0)
		return 0;
	/* Look up the strings in the input, among them the names of the index. */
	for (size_t at = 0; at + 1 < size && at < 4096; at++) {
		struct text path = {
			(const char *)data + at, strnlen((const char *)data + at, size - at)};
		const char *slash = memrchr(path.data, '/', path.len);

		if (slash && slash > path.data && git_index_tracks(index, path))
			CHECK(git_index_tracks(
				index, (struct text){path.data, (size_t)(slash - path.data)}));
	}
	CHECK(!git_index_tracks(index, TEXT_LITERAL("")));
	git_index_free(index);
	return 0;
}
