/* links: cloister-gate-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * A JSON Web Token and a set of keys. A token that is taken is of one of the keys, and names a
 * tenant by a word; it is in force. One more character, and it is not taken.
 *
 * Input: a line with the token, and the set.
 */
#include "common/keys/gate_key.h"
#include "gate/jwt.h"
#include "tests/fuzz/fuzz.h"

#define NOW 1700000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct jwt_rules rules = {
		"https://as.example", "https://gate.example/mcp", "tenant"};
	struct text rest = fuzz_text(data, size), token = text_take(&rest, '\n');
	struct jwt_bearer bearer;
	const char *fault = NULL;
	struct jwt_keys *keys = jwt_keys_read(rest, &fault);
	char *longer = malloc(token.len + 1);

	CHECK(!keys == (fault != NULL));
	if (keys && !jwt_check(keys, &rules, token, NOW, &bearer)) {
		CHECK(jwt_is_text(token) && jwt_keys_have(keys, bearer.key) &&
			bearer.expires > NOW);
		CHECK(gate_key_is_word(text_from(bearer.tenant), LIMIT_CONFIG_NAME_BYTES));
		memcpy(longer, token.data, token.len);
		longer[token.len] = 'A';
		CHECK(jwt_check(keys, &rules, (struct text){longer, token.len + 1}, NOW, &bearer));
	}
	free(longer);
	jwt_keys_free(keys);
	return 0;
}
