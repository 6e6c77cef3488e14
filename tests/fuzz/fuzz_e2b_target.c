/* links: cloister-gate-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * Hosts that name a port of a sandbox, and paths. A host has one reading, which is written again as
 * it was; a path that was cleaned is clean, and has no "..".
 *
 * Input: the host, or the path behind a slash.
 */
#include "gate/e2b/target.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text text = fuzz_text(data, size), rest;
	struct target target;
	char again[64];
	char *path, *cleaned, *twice;

	if (target_of_host(text, TEXT_LITERAL("a.b"), &target)) {
		snprintf(again, sizeof(again), "%u-%.*s.a.b", target.port, SANDBOX_ID_LETTERS,
			target.id.data);
		CHECK(target.port > 0 && text_equal(text_from(again), text));
	}
	path = malloc(size + 2);
	path[0] = '/';
	memcpy(path + 1, data, size);
	path[size + 1] = '\0';
	cleaned = malloc(size + 2);
	twice = malloc(size + 2);
	path_clean(path, cleaned);
	CHECK(cleaned[0] == '/' && strlen(cleaned) <= strlen(path));
	rest = text_from(cleaned + 1);
	while (rest.len > 0) {
		struct text name = text_take(&rest, '/');

		CHECK(name.len > 0 && !text_equal(name, TEXT_LITERAL(".")) &&
			!text_equal(name, TEXT_LITERAL("..")));
	}
	path_clean(cleaned, twice);
	CHECK(strcmp(cleaned, twice) == 0);
	free(path);
	free(cleaned);
	free(twice);
	return 0;
}
