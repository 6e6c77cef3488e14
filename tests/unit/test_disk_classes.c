/* links: cloister-config */
// SPDX-License-Identifier: Apache-2.0
/* What a line of disk_classes says, and how the classes divide a range of ids. */
#include "common/config/disk_classes.h"
#include "tests/lib/unit.h"

TEST(test_good_lines)
{
	struct disk_classes classes = {.count = 0};

	assert_null(disk_classes_add_line(&classes, " small:4G:400k:22000,\tlarge:50G:5M:8000 "));
	assert_null(disk_classes_add_line(&classes, "x:1048576:16:1"));
	assert_int_equal(classes.count, 3);
	assert_string_equal(classes.items[0].name, "small");
	assert_int_equal(classes.items[0].bytes, 4 * GIB);
	assert_int_equal(classes.items[0].files, 400000);
	assert_int_equal(classes.items[0].ids, 22000);
	assert_int_equal(classes.items[1].files, 5000000);
	assert_int_equal(classes.items[2].bytes, 1 * MIB);
	assert_int_equal(disk_classes_ids(&classes), 30001);
	assert_ptr_equal(disk_classes_find(&classes, NULL), &classes.items[0]);
	assert_ptr_equal(disk_classes_find(&classes, ""), &classes.items[0]);
	assert_ptr_equal(disk_classes_find(&classes, "large"), &classes.items[1]);
	assert_null(disk_classes_find(&classes, "smal"));
}

TEST(test_mistakes)
{
	static const struct {
		const char *word, *why;
	} wrong[] = {
		{"", "NAME:SIZE:FILES:IDS"},
		{"a", "NAME:SIZE:FILES:IDS"},
		{"a:1M:20", "NAME:SIZE:FILES:IDS"},
		{"a:1M:20:5:6", "NAME:SIZE:FILES:IDS"},
		{"a:1M:20:5:", "NAME:SIZE:FILES:IDS"},
		{":1M:20:5", "NAME:SIZE:FILES:IDS"},
		{"a/b:1M:20:5", "NAME:SIZE:FILES:IDS"},
		{"a:1X:20:5", "NAME:SIZE:FILES:IDS"},
		{"a:1M:20K:5", "NAME:SIZE:FILES:IDS"},
		{"a:1M:-1:5", "NAME:SIZE:FILES:IDS"},
		{"a:1M:k:5", "NAME:SIZE:FILES:IDS"},
		{"a:1M:20:", "NAME:SIZE:FILES:IDS"},
		{"a:99999999999999999999T:20:5", "NAME:SIZE:FILES:IDS"},
		{"a:1M:18446744073709551615M:5", "NAME:SIZE:FILES:IDS"},
		{"a:1023K:20:5", "size of a class"},
		{"a:16385T:20:5", "size of a class"},
		{"a:1M:15:5", "number of files"},
		{"a:1M:4295M:5", "number of files"},
		{"a:1M:20:0", "number of ids"},
		{"a:1M:20:60001", "number of ids"},
		{"there:1M:20:5", "given twice"},
	};
	char name[LIMIT_CONFIG_NAME_BYTES + 32];

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct disk_classes classes = {.count = 0};
		const char *why;

		assert_null(disk_classes_add(&classes, "there:1M:20:5"));
		why = disk_classes_add(&classes, wrong[i].word);
		if (!why || !strstr(why, wrong[i].why) || classes.count != 1)
			fail_msg("%s: %s", wrong[i].word, why ? why : "is taken");
	}
	for (int len = LIMIT_CONFIG_NAME_BYTES; len <= LIMIT_CONFIG_NAME_BYTES + 1; len++) {
		struct disk_classes classes = {.count = 0};

		snprintf(name, sizeof(name), "%0*d:1M:20:5", len, 1);
		assert_int_equal(!disk_classes_add(&classes, name), len == LIMIT_CONFIG_NAME_BYTES);
	}
}

TEST(test_how_many)
{
	struct disk_classes classes = {.count = 0};
	char word[64];

	for (int i = 0; i <= LIMIT_DISK_CLASSES; i++) {
		snprintf(word, sizeof(word), "c%d:1M:20:5", i);
		assert_int_equal(!disk_classes_add(&classes, word), i < LIMIT_DISK_CLASSES);
	}
}

static void check(struct id_span span, uint32_t first, uint32_t count)
{
	assert_int_equal(span.first, first);
	assert_int_equal(span.count, count);
}

/* The spans follow each other in the upper half, and never leave it. */
TEST(test_spans)
{
	struct disk_classes classes = {.count = 0};

	assert_null(disk_classes_add_line(&classes, "a:1M:20:10 b:1M:20:5 c:1M:20:20"));
	check(disk_classes_managed(100), 51, 50);
	check(disk_classes_managed(101), 51, 51);
	check(disk_classes_managed(1), 1, 1);
	check(disk_classes_span(&classes, NULL, 100), 51, 50);
	check(disk_classes_span(&classes, &classes.items[0], 100), 51, 10);
	check(disk_classes_span(&classes, &classes.items[1], 100), 61, 5);
	check(disk_classes_span(&classes, &classes.items[2], 100), 66, 20);
	/* Of a range that is too small the last ones get less, or nothing. */
	check(disk_classes_span(&classes, &classes.items[2], 60), 46, 15);
	check(disk_classes_span(&classes, &classes.items[1], 20), 21, 0);
	check(disk_classes_span(&classes, &classes.items[2], 20), 21, 0);
}
