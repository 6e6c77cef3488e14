/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/*
 * Records of the journal from any bytes, as a crash or a bad disk may leave them. A record that is
 * read is written as the same bytes, and no beginning of it is a record.
 *
 * Input: the bytes of a file. With its first byte odd, the length and the checksum of the record
 * are made right, so that the members are reached.
 */
#include "common/limits.h"
#include "supervisor/journal/journal_record.h"
#include "tests/fuzz/fuzz.h"

static void check(struct text bytes)
{
	static char again[LIMIT_JOURNAL_RECORD_BYTES];
	struct journal_record record, shorter;
	int len = journal_record_get(bytes, &record);

	if (len <= 0)
		return;
	CHECK((size_t)len <= bytes.len && (size_t)len <= sizeof(again));
	CHECK(journal_record_get((struct text){bytes.data, (size_t)len - 1}, &shorter) < 0);
	CHECK(journal_record_put(&record, again, sizeof(again)) == (size_t)len);
	CHECK(memcmp(bytes.data, again, (size_t)len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text rest = fuzz_text(data, size);
	bool repair = fuzz_byte(&rest) & 1;
	char *copy = fuzz_copy(rest);

	if (repair && rest.len > 8)
		journal_record_head(copy, rest.len);
	check((struct text){copy, rest.len});
	free(copy);
	return 0;
}
