/* links: cloister-gate-core */
/* SPDX-License-Identifier: Apache-2.0 */

#include "gate/e2b/snapshot_name.h"
#include "tests/lib/unit.h"

TEST(test_names_are_read_back)
{
	static const struct snapshot_name all[] = {
		{TEXT_LITERAL("abcdefghijklmnopqrst"), {0}, false, false},
		{TEXT_LITERAL("abcdefghijklmnopqrst"), TEXT_LITERAL("a.b-c_D.9"), true, false},
		{TEXT_LITERAL("abcdefghijklmnopqrst"), {0}, true, true},
		{TEXT_LITERAL("abcdefghijklmnopqrst"), TEXT_LITERAL("abcdefghijklmnopqrstuvwxyz"),
			false, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		char name[SNAPSHOT_NAME_BYTES + 1];
		struct snapshot_name parts;

		assert_int_equal(snapshot_name_make(&all[i], name), 0);
		assert_true(strlen(name) <= SNAPSHOT_NAME_BYTES);
		assert_true(snapshot_name_read(text_from(name), &parts));
		assert_true(text_equal(parts.id, all[i].id));
		assert_true(text_equal(parts.label, all[i].label));
		assert_true(parts.is_rootfs == all[i].is_rootfs);
		assert_true(parts.is_for_forks == all[i].is_for_forks);
		assert_true(snapshot_is_managed(text_from(name)) == !all[i].is_rootfs);
	}
}

TEST(test_other_names)
{
	static const char *const names[] = {"", "base", "snap", "snap.abcdefghijklmnopqrst",
		"snap.abcdefghijklmnopqrst.m", "snap.abcdefghijklmnopqrst.x.12345678",
		"snap.abcdefghijklmnopqrs1.m.12345678", "snap.abcdefghijklmnopqrst.m.1234567",
		"spam.abcdefghijklmnopqrst.m.12345678"};
	struct snapshot_name parts;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_false(snapshot_name_read(text_from(names[i]), &parts));
		assert_false(snapshot_is_managed(text_from(names[i])));
	}
}

TEST(test_labels_that_are_refused)
{
	static const char *const labels[] = {"abcdefghijklmnopqrstuvwxyz1", "a/b", "a b", "\n"};
	char name[SNAPSHOT_NAME_BYTES + 1];

	for (size_t i = 0; i < ARRAY_SIZE(labels); i++) {
		struct snapshot_name parts = {
			TEXT_LITERAL("abcdefghijklmnopqrst"), text_from(labels[i]), false, false};

		assert_int_equal(snapshot_name_make(&parts, name), -EINVAL);
	}
}
