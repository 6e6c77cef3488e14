/* links: cloister-common */
/* SPDX-License-Identifier: Apache-2.0 */

#include "common/base64.h"
#include "tests/lib/unit.h"

/* RFC 4648 section 10, and the last two digits of the alphabet. */
TEST(test_vectors)
{
	static const char *const vectors[][2] = {
		{"", ""},
		{"f", "Zg=="},
		{"fo", "Zm8="},
		{"foo", "Zm9v"},
		{"foob", "Zm9vYg=="},
		{"fooba", "Zm9vYmE="},
		{"foobar", "Zm9vYmFy"},
		{"\xff\xef\xfe\xfb", "/+/++w=="},
	};

	for (size_t i = 0; i < ARRAY_SIZE(vectors); i++) {
		struct text plain = text_from(vectors[i][0]), encoded = text_from(vectors[i][1]);
		char buffer[16];
		size_t len = SIZE_MAX;

		assert_true(base64_encoded_size(plain.len) == encoded.len);
		assert_true(base64_encode(plain, buffer) == encoded.len);
		assert_true(text_equal((struct text){buffer, encoded.len}, encoded));
		assert_int_equal(base64_decode(encoded, buffer, &len), 0);
		assert_true(text_equal((struct text){buffer, len}, plain));
	}
}

TEST(test_round_trip)
{
	unsigned char bytes[256];
	char encoded[512], decoded[256];

	srandom(1);
	for (size_t len = 0; len <= sizeof(bytes); len++) {
		size_t decoded_len;

		for (size_t i = 0; i < len; i++)
			bytes[i] = (unsigned char)random();
		size_t n = base64_encode((struct text){(const char *)bytes, len}, encoded);

		assert_true(n == base64_encoded_size(len));
		assert_true(base64_decoded_size(n) >= len);
		assert_int_equal(
			base64_decode((struct text){encoded, n}, decoded, &decoded_len), 0);
		assert_true(decoded_len == len);
		assert_memory_equal(decoded, bytes, len);
	}
}

/* Of all pairs of characters, only those that the encoder writes before "==" are decoded. */
TEST(test_only_canonical_decodes)
{
	unsigned int accepted = 0;

	for (unsigned int pair = 0; pair < 65536; pair++) {
		char group[4] = {(char)(pair >> 8), (char)pair, '=', '='}, again[4];
		char out[3];
		size_t len;

		if (base64_decode((struct text){group, 4}, out, &len) < 0)
			continue;
		accepted++;
		assert_true(len == 1);
		base64_encode((struct text){out, 1}, again);
		assert_memory_equal(again, group, 4);
	}
	assert_int_equal(accepted, 256);
}

TEST(test_refused)
{
	static const char *const texts[] = {"Z", "Zg", "Zg=", "Zg===", "=",
		"====", "Z===", "=Zg=", "Zm8", "Zm9=", "Zh==", "Zm9v\n", "Zm 9v", "Zm9-", "Zm9_",
		"Zg==Zm9v", "Zm8=Zm9v", "Z=9v", "Zm=v", "Zm9v=", "\x80\x80\x80\x80", "Zm9v===="};
	char out[16];
	size_t len = 77;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(base64_decode(text_from(texts[i]), out, &len), -EINVAL);
	assert_int_equal(base64_decode((struct text){"Zm9\0", 4}, out, &len), -EINVAL);
	assert_true(len == 77);
}

/* Puts each wrong character in each place. "=" is right only at the end. */
TEST(test_every_character_in_every_place)
{
	for (size_t at = 0; at < 12; at++)
		for (unsigned int c = 0; c < 256; c++) {
			bool fine = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
				    (c >= '0' && c <= '9') || c == '+' || c == '/' ||
				    (c == '=' && at == 11);
			char encoded[12], decoded[9], again[12];
			size_t len;

			/* "8" leaves no bits over where "=" replaces the last digit. */
			memcpy(encoded, "Zm9vZm9vZm88", sizeof(encoded));
			encoded[at] = (char)c;
			if ((base64_decode((struct text){encoded, 12}, decoded, &len) == 0) != fine)
				fail_msg("%u at %zu", c, at);
			if (!fine)
				continue;
			assert_int_equal(base64_encode((struct text){decoded, len}, again), 12);
			assert_memory_equal(again, encoded, 12);
		}
}
