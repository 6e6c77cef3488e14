/* links: cloister-gate-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * Lines that sessions run, read back as words for a list of processes. A line that is words, and
 * only such a line, is written again as it was.
 *
 * Input: the line.
 */
#include "gate/e2b/shell_line.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text line = fuzz_text(data, size), rest = line;
	struct byte_queue again = {0};
	int r;

	do {
		struct byte_queue word = {0};

		r = shell_line_take(&rest, &word);
		CHECK(r >= 0);
		if (r > 0)
			CHECK(shell_line_append(&again, byte_queue_peek(&word)) == 0);
		byte_queue_free(&word);
	} while (r > 0);
	CHECK(text_equal(byte_queue_peek(&again), (struct text){line.data, line.len - rest.len}));
	byte_queue_free(&again);
	return 0;
}
