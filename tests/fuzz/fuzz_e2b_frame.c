/* links: cloister-gate-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * Messages of a Connect stream. Whatever the length says, a payload is within the input, none is
 * longer than the bound, and a message that was cut is not taken.
 *
 * Input: the client's bytes.
 */
#include "gate/e2b/frame.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { MAX = 100 };
	struct text whole = fuzz_text(data, size), input = whole, payload;
	int r;

	while ((r = frame_take(&input, MAX, &payload)) > 0) {
		uint8_t head[FRAME_HEAD_BYTES];
		const char *begin = payload.data - FRAME_HEAD_BYTES;
		struct text cut = {begin, FRAME_HEAD_BYTES + payload.len - 1}, nothing;

		CHECK(payload.len <= MAX);
		CHECK(begin >= whole.data && payload.data + payload.len == input.data);
		CHECK(input.data + input.len == whole.data + whole.len);
		frame_write_head(0, (uint32_t)payload.len, head);
		CHECK(memcmp(head, begin, sizeof(head)) == 0);
		CHECK(frame_take(&cut, MAX, &nothing) == 0);
	}
	CHECK(r == 0 || r == -EMSGSIZE || r == -EPROTO);
	return 0;
}
