// SPDX-License-Identifier: Apache-2.0
/* links: cloister-chain */
#include "common/chain/audit_chain.h"
#include "tests/lib/unit.h"

static void assert_digest(const char *text, size_t times, const char *expected)
{
	struct audit_digest *digest = audit_digest_new();
	char hex[AUDIT_HASH_DIGITS + 1];

	assert_non_null(digest);
	for (size_t i = 0; i < times; i++)
		audit_digest_add(digest, text_from(text));
	audit_digest_end(digest, hex);
	assert_string_equal(hex, expected);
}

/* The examples of NIST for FIPS 180-4. */
TEST(test_the_digest_is_sha256)
{
	assert_digest("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_digest("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	assert_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
		"248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	assert_digest("aaaaaaaaaa", 100000,
		"cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static size_t make(const struct audit_chain *last, const char *members, char *out,
	struct audit_chain *ret_next)
{
	size_t len = audit_chain_line(last, text_from(members), out, ret_next);

	assert_int_equal(out[len - 1], '\n');
	return len - 1;
}

TEST(test_lines_are_linked)
{
	struct audit_chain first = audit_chain_new(), second, third;
	char line[512];
	struct audit_link link;
	size_t len;

	len = make(&first, "\"a\":1", line, &second);
	assert_int_equal(audit_link_read((struct text){line, len}, &link), 0);
	assert_int_equal(link.self.seq, 1);
	assert_string_equal(link.prev, first.hash);
	assert_int_equal(strspn(link.prev, "0"), AUDIT_HASH_DIGITS);
	len = make(&second, "\"a\":1", line, &third);
	assert_int_equal(audit_link_read((struct text){line, len}, &link), 0);
	assert_int_equal(link.self.seq, 2);
	assert_string_equal(link.prev, second.hash);
	assert_string_equal(link.self.hash, third.hash);
	assert_string_not_equal(second.hash, third.hash);
}

TEST(test_any_changed_bit_shows)
{
	struct audit_chain last = {.seq = 41}, next;
	struct audit_link link;
	char line[512];
	size_t len;

	memset(last.hash, 'a', AUDIT_HASH_DIGITS);
	len = make(&last, "\"event\":\"x\"", line, &next);
	for (size_t i = 0; i < len * 8; i++) {
		line[i / 8] ^= (char)(1 << i % 8);
		assert_int_not_equal(audit_link_read((struct text){line, len}, &link), 0);
		line[i / 8] ^= (char)(1 << i % 8);
	}
	assert_int_equal(audit_link_read((struct text){line, len}, &link), 0);
}

TEST(test_parts_of_lines_are_none)
{
	struct audit_chain last = audit_chain_new(), next;
	struct audit_link link;
	char line[512];
	size_t len = make(&last, "\"event\":\"x\"", line, &next);

	for (size_t i = 0; i < len; i++) {
		/* In a block of exactly its size, so that a sanitizer notices a read past its end.
		 */
		char *copy = malloc(i + 1);

		assert_non_null(copy);
		memcpy(copy, line, i);
		assert_int_equal(audit_link_read((struct text){copy, i}, &link), -EBADMSG);
		free(copy);
	}
	line[len] = 'x';
	assert_int_equal(audit_link_read((struct text){line, len + 1}, &link), -EBADMSG);
}
