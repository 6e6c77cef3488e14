/* links: cloister-gate-core */
/* SPDX-License-Identifier: Apache-2.0 */

#include "gate/e2b/sandbox_id.h"
#include "tests/lib/unit.h"

static const struct sandbox_key key = {
	"0123456789abcdef", (const uint8_t *)"a secret of thirty-two bytes 123"};
static const struct sandbox_key other_key = {
	"0123456789abcdef", (const uint8_t *)"a secret of thirty-two bytes 124"};

TEST(test_an_id_can_be_a_label_of_a_host_name)
{
	char id[SANDBOX_ID_LETTERS + 1], another[SANDBOX_ID_LETTERS + 1];
	struct text tenant = TEXT_LITERAL("lab");

	assert_int_equal(sandbox_id_make(tenant, id), 0);
	assert_int_equal(sandbox_id_make(tenant, another), 0);
	assert_int_equal(strlen(id), SANDBOX_ID_LETTERS);
	assert_true(sandbox_id_valid(text_from(id)));
	assert_string_not_equal(id, another);
	assert_true(sandbox_id_of_tenant(text_from(id), tenant));
	assert_true(sandbox_id_of_tenant(text_from(another), tenant));
	assert_false(sandbox_id_of_tenant(text_from(id), TEXT_LITERAL("lab2")));
}

TEST(test_what_is_no_id)
{
	static const char *const wrong[] = {"", "abc", "abcdefghijklmnopqrs",
		"abcdefghijklmnopqrstu", "abcdefghijklmnopqrs1", "Abcdefghijklmnopqrst",
		"abcdefghij/lmnopqrst", "abcdefghij.lmnopqrst", "../../../../../etc/a"};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_false(sandbox_id_valid(text_from(wrong[i])));
	assert_false(sandbox_id_valid((struct text){"abcdefghij\0lmnopqrst", 20}));
	assert_true(sandbox_id_valid(TEXT_LITERAL("abcdefghijklmnopqrst")));
}

/* The parts of what is signed cannot be shifted from one to the next. */
TEST(test_a_token_fits_one_sandbox_and_one_use)
{
	struct text id = TEXT_LITERAL("abcdefghijklmnopqrst"), generation = TEXT_LITERAL("12");
	char token[SANDBOX_TOKEN_LETTERS + 1];
	struct text given = {token, SANDBOX_TOKEN_LETTERS};

	sandbox_token_make(key, SANDBOX_TOKEN_ACCESS, id, generation, token);
	assert_true(sandbox_token_fits(key, SANDBOX_TOKEN_ACCESS, id, generation, given));
	assert_false(sandbox_token_fits(key, SANDBOX_TOKEN_TRAFFIC, id, generation, given));
	assert_false(sandbox_token_fits(key, SANDBOX_TOKEN_ACCESS, id, TEXT_LITERAL("1"), given));
	assert_false(sandbox_token_fits(key, SANDBOX_TOKEN_ACCESS,
		TEXT_LITERAL("abcdefghijklmnopqrs1"), TEXT_LITERAL("2"), given));
	assert_false(sandbox_token_fits(other_key, SANDBOX_TOKEN_ACCESS, id, generation, given));
	given.len--;
	assert_false(sandbox_token_fits(key, SANDBOX_TOKEN_ACCESS, id, generation, given));
	assert_false(
		sandbox_token_fits(key, SANDBOX_TOKEN_ACCESS, id, generation, (struct text){0}));
}

/* What E2B's own client makes of these words, in its test "static signing key comparison". */
TEST(test_signatures_are_those_of_the_clients)
{
	struct text path = TEXT_LITERAL("hello.txt"), user = TEXT_LITERAL("user");
	struct text token = TEXT_LITERAL("0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0");
	char signature[SANDBOX_SIGNATURE_LETTERS + 1];

	sandbox_signature_make(
		path, TEXT_LITERAL("read"), user, token, (struct text){0}, signature);
	assert_string_equal(signature, "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
	assert_true(sandbox_signature_fits(
		path, TEXT_LITERAL("read"), user, token, (struct text){0}, text_from(signature)));
	assert_false(sandbox_signature_fits(
		path, TEXT_LITERAL("write"), user, token, (struct text){0}, text_from(signature)));
	assert_false(sandbox_signature_fits(
		path, TEXT_LITERAL("read"), user, token, TEXT_LITERAL("1"), text_from(signature)));
	assert_false(sandbox_signature_fits(path, TEXT_LITERAL("read"), user, token,
		(struct text){0}, (struct text){signature, 10}));
}
