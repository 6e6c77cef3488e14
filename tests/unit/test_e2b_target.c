/* links: cloister-gate-core */
/* SPDX-License-Identifier: Apache-2.0 */

#include "gate/e2b/target.h"
#include "tests/lib/unit.h"

TEST(test_a_host_names_a_port_of_a_sandbox)
{
	struct target target;

	assert_true(target_of_host(TEXT_LITERAL("49983-abcdefghijklmnopqrst.box.example"),
		TEXT_LITERAL("box.example"), &target));
	assert_int_equal(target.port, 49983);
	assert_true(text_equal(target.id, TEXT_LITERAL("abcdefghijklmnopqrst")));
}

TEST(test_other_hosts)
{
	static const char *const hosts[] = {"", "box.example", "49983-abcdefghijklmnopqrst",
		"49983-abcdefghijklmnopqrst.box.exampl", "49983-abcdefghijklmnopqrst.x.box.example",
		"49983-abcdefghijklmnopqrst.evil", "0-abcdefghijklmnopqrst.box.example",
		"65536-abcdefghijklmnopqrst.box.example", "080-abcdefghijklmnopqrst.box.example",
		"+80-abcdefghijklmnopqrst.box.example", "-abcdefghijklmnopqrst.box.example",
		"80-abcdefghijklmnopqrs.box.example", "80-abcdefghijklmnopqrs/.box.example",
		"80-80-abcdefghijklmnopqrst.box.example"};
	struct target target;

	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++)
		assert_false(
			target_of_host(text_from(hosts[i]), TEXT_LITERAL("box.example"), &target));
	assert_false(target_of_host(
		TEXT_LITERAL("80-abcdefghijklmnopqrst."), (struct text){0}, &target));
}

TEST(test_headers)
{
	struct target target;

	assert_true(target_of_headers(
		TEXT_LITERAL("abcdefghijklmnopqrst"), (struct text){0}, 7, &target));
	assert_int_equal(target.port, 7);
	assert_true(target_of_headers(
		TEXT_LITERAL("abcdefghijklmnopqrst"), TEXT_LITERAL("8000"), 7, &target));
	assert_int_equal(target.port, 8000);
	assert_false(target_of_headers(
		TEXT_LITERAL("abcdefghijklmnopqrst"), TEXT_LITERAL("x"), 7, &target));
	assert_false(target_of_headers(
		TEXT_LITERAL("../../../etc/passwd."), (struct text){0}, 7, &target));
}

TEST(test_paths)
{
	static const char *const paths[][2] = {{"/", "/"}, {"/a", "/a"}, {"/a/", "/a"},
		{"//a//b", "/a/b"}, {"/a/./b", "/a/b"}, {"/a/../b", "/b"}, {"/..", "/"},
		{"/../../a", "/a"}, {"/a/..", "/"}, {"/a/b/../..", "/"}, {"/a/...", "/a/..."},
		{"/ab/../cd", "/cd"}, {"/a b", "/a b"}};
	char cleaned[32];

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		path_clean(paths[i][0], cleaned);
		assert_string_equal(cleaned, paths[i][1]);
	}
}
