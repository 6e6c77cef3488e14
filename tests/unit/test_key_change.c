/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
#include "supervisor/call/keys/key_change.h"
#include "tests/lib/unit.h"

#define BEFORE KEY_CHANGE_BEFORE
#define AFTER  KEY_CHANGE_AFTER

TEST(test_compare)
{
	static const struct {
		const char *before, *after, *found;
		unsigned all, first, second;
	} cases[] = {
		{"a", "b", "a", BEFORE, BEFORE, 0},
		{"a", "b", "b", AFTER, AFTER, 0},
		{"a", "b", "c", 0, 0, 0},
		{"a", "b", "", 0, 0, 0},
		{"a", "b", "ab", 0, 0, 0},
		{"", "b", "", 0, 0, 0}, /* a file that was too large to compare */
		{"a", "a", "a", BEFORE | AFTER, BEFORE | AFTER, 0},
		{"a c", "b d", "a c", BEFORE, BEFORE, BEFORE},
		{"a c", "b d", "b d", AFTER, AFTER, AFTER},
		{"a c", "b d", "b c", 0, AFTER, BEFORE},
		{"a c", "b d", "d b", 0, 0, 0},
		{"a c", "b d", "a", 0, BEFORE, 0},
		{"a c", "b d", "a c e", 0, BEFORE, BEFORE},
		{"a c", "b d", " c", 0, 0, BEFORE},
		{"a ", "b ", "b ", 0, AFTER, 0},
		{"a c", "a d", "a d", AFTER, BEFORE | AFTER, AFTER},
		{"v/absent c", "absent/w d", "absent/w d", AFTER, AFTER, AFTER},
		{"v/absent c", "absent/w d", "v/w d", 0, 0, AFTER},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct key_change *change =
			key_change_new(text_from(cases[i].before), text_from(cases[i].after));

		assert_string_equal(change->before, cases[i].before);
		assert_string_equal(change->after, cases[i].after);
		assert_int_equal(key_change_compare_all(change, cases[i].found), cases[i].all);
		assert_int_equal(key_change_compare(change, cases[i].found, 0), cases[i].first);
		assert_int_equal(key_change_compare(change, cases[i].found, 1), cases[i].second);
		assert_int_equal(key_change_compare(change, cases[i].found, 3), 0);
		free(change);
	}
}
