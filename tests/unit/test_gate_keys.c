/* links: cloister-gate-core */
/* SPDX-License-Identifier: Apache-2.0 */

#include "common/cleanup.h"
#include "common/keys/gate_key.h"
#include "gate/failures.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdio.h>

TEST(test_a_key_is_itself_and_nothing_else)
{
	char text[GATE_KEY_LENGTH + 1], other[GATE_KEY_LENGTH + 1], id[GATE_KEY_ID_DIGITS + 1];
	struct gate_key key = {.tenant = "t"}, second = {.tenant = "t"};

	assert_int_equal(gate_key_make(&key, text), 0);
	assert_int_equal(gate_key_make(&second, other), 0);
	assert_true(gate_key_is_text(text_from(text)));
	assert_true(gate_key_matches(&key, text_from(text)));
	assert_false(gate_key_matches(&key, text_from(other)));
	assert_string_not_equal(text, other);
	gate_key_id(text_from(text), id);
	assert_string_equal(id, key.id);
	assert_null(strstr(text, id)); /* the id is no part of the key */
	for (size_t i = 0; i < GATE_KEY_LENGTH; i++) {
		char changed = text[i];

		text[i] = changed == '0' ? '1' : '0';
		assert_false(gate_key_matches(&key, text_from(text)));
		text[i] = changed;
	}
}

TEST(test_texts)
{
	static const char *const texts[] = {"", "e2b_", "e2b_0123",
		"e2b_000000000000000000000000000000000000000",
		"e2b_00000000000000000000000000000000000000000",
		"e2b_000000000000000000000000000000000000000G",
		"E2B_0000000000000000000000000000000000000000",
		"xyz_0000000000000000000000000000000000000000"};

	assert_true(gate_key_is_text(text_from("e2b_0123456789abcdef0123456789abcdef01234567")));
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_false(gate_key_is_text(text_from(texts[i])));
}

TEST(test_a_file_is_read_as_it_was_written)
{
	struct gate_key keys[2] = {
		{.tenant = "blue", .expires = 4000000000, .workspace = "w-1", .name = "n@h"},
		{.tenant = "green"}};
	_cleanup_(gate_key_list_done) struct gate_key_list read = {0};
	const struct gate_key_list list = {keys, 2};
	char text[GATE_KEY_LENGTH + 1];
	_cleanup_free_ char *content = NULL;
	unsigned line = 0;

	for (size_t i = 0; i < 2; i++)
		assert_int_equal(gate_key_make(&keys[i], text), 0);
	content = gate_keys_write(&list);
	assert_non_null(content);
	assert_null(strstr(content, text + 4));
	assert_int_equal(gate_keys_parse(text_from(content), &read, &line), 0);
	assert_int_equal(read.count, 2);
	assert_memory_equal(read.items, keys, sizeof(keys));
}

#define REST                                    \
	"1 0 00000000000000000000000000000000 " \
	"0000000000000000000000000000000000000000000000000000000000000000"

TEST(test_lines_that_are_no_keys)
{
	static const char *const lines[] = {
		"0123456789abcdef",
		"0123456789abcde t * * " REST,
		"0123456789abcdeg t * * " REST,
		"0123456789abcdef * * * " REST,
		"0123456789abcdef t/u * * " REST,
		"0123456789abcdef t  * " REST,
		"0123456789abcdef t * * " REST " more",
		"0123456789abcdef t * * -1 0 00000000000000000000000000000000 00",
		"0123456789abcdef t * * x 0 00000000000000000000000000000000 00",
		"0123456789abcdef tttttttttttttttttttttttttttttttttttttttttttttttttt * * " REST,
	};
	struct gate_key_list read = {0};
	char content[512];
	unsigned line;

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		snprintf(content, sizeof(content), "# comment\n\n%s\n", lines[i]);
		if (gate_keys_parse(text_from(content), &read, &line) != -EBADMSG || line != 3)
			fail_msg("%s", lines[i]);
	}
	snprintf(content, sizeof(content), "0123456789abcdef t * * %s", REST);
	assert_int_equal(gate_keys_parse(text_from(content), &read, &line), 0);
	assert_int_equal(read.count, 1);
	gate_key_list_done(&read);
}

TEST(test_failures_are_counted_for_a_minute)
{
	struct gate_failures *failures = gate_failures_new();
	struct gate_peer peer = {{1}}, other = {{2}};

	assert_non_null(failures);
	for (uint64_t n = 1; n <= 5; n++)
		assert_int_equal(gate_failures_count(failures, &peer, 1000), n);
	assert_int_equal(gate_failures_count(failures, &other, 1000), 1);
	assert_int_equal(gate_failures_count(failures, &peer, 60999), 6);
	assert_int_equal(gate_failures_count(failures, &peer, 61000), 1);
	/* Many addresses push the oldest out, and nothing else. */
	assert_int_equal(gate_failures_count(failures, &other, 62000), 1);
	for (uint32_t i = 0; i < LIMIT_GATE_ADDRESSES - 2; i++) {
		struct gate_peer many = {{3, (uint8_t)(i >> 8), (uint8_t)i}};

		assert_int_equal(gate_failures_count(failures, &many, 63000), 1);
	}
	assert_int_equal(gate_failures_count(failures, &other, 64000), 2);
	assert_int_equal(gate_failures_count(failures, &(struct gate_peer){{9}}, 64000), 1);
	assert_int_equal(gate_failures_count(failures, &other, 64000), 3);
	/* To ask counts nothing. */
	assert_int_equal(gate_failures_have(failures, &other, 64000), 3);
	assert_int_equal(gate_failures_have(failures, &other, 121999), 3);
	assert_int_equal(gate_failures_have(failures, &other, 122000), 0);
	assert_int_equal(gate_failures_have(failures, &(struct gate_peer){{10}}, 64000), 0);
	assert_int_equal(gate_failures_count(failures, &peer, 64000), 1); /* it was the oldest */
	gate_failures_free(failures);
}
