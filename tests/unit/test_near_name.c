/* SPDX-License-Identifier: Apache-2.0 */

#include "common/near_name.h"
#include "tests/lib/unit.h"

static unsigned distance(const char *wanted, const char *there)
{
	return near_name_distance(text_from(wanted), text_from(there));
}

TEST(test_distances)
{
	static const struct {
		const char *wanted, *there;
		unsigned distance;
	} rows[] = {
		{"a.py", "a.py", 0},
		{"readme.md", "README.md", 0},
		{"my-file", "my_file", 0},
		{"big.js", "big.py", 1},
		{"big", "big.py", 1},
		{"bgi.py", "big.py", 1},
		{"bog.py", "big.py", 1},
		{"main.c", "amin.c", 1},
		{"utlis.py", "utils.py", 1},
		{"test_mian.py", "test_main.py", 1},
		{"timeout", "timeout_ms", 2},
		{"documentation", "doc", 2},
		{"kitten", "sitting", NEAR_NAME_FAR},
		{"a", "b", NEAR_NAME_FAR},
		{"abc", "xyz", NEAR_NAME_FAR},
		{"", "a", NEAR_NAME_FAR},
		{"a", "", NEAR_NAME_FAR},
		{".a", ".b", NEAR_NAME_FAR},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(distance(rows[i].wanted, rows[i].there), rows[i].distance);
}

/* Names of every length, also beyond the bound. The sanitizers watch for reads past the ends. */
TEST(test_lengths)
{
	char a[2 * LIMIT_NEAR_NAME_BYTES], b[2 * LIMIT_NEAR_NAME_BYTES];

	memset(a, 'a', sizeof(a));
	memset(b, 'a', sizeof(b));
	for (size_t len = 4; len < sizeof(a); len++) {
		unsigned expected = len <= LIMIT_NEAR_NAME_BYTES ? 1 : NEAR_NAME_FAR;

		b[1] = 'b';
		assert_int_equal(
			near_name_distance((struct text){a, len}, (struct text){b, len}), expected);
		b[1] = 'a';
		assert_int_equal(
			near_name_distance((struct text){a, len}, (struct text){b, len}), 0);
	}
}
