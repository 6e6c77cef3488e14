// SPDX-License-Identifier: Apache-2.0
/* links: cloister-supervisor */
/* What the names of the directories mean in which the layers of a workspace are. */
#include "supervisor/workspace/layers/layer_names.h"
#include "tests/lib/unit.h"

TEST(test_what_is_written_is_read)
{
	char name[NAME_MAX + 1];
	struct layer_name read;

	layer_name_put(&(struct layer){7, 3}, name);
	assert_string_equal(name, "7-3");
	read = layer_name_read(name);
	assert_int_equal(read.kind, LAYER_NAME_LAYER);
	assert_int_equal(read.number, 7);
	assert_int_equal(read.below, 3);
	layer_name_put_at(999999999, name);
	assert_string_equal(name, "at-999999999");
	read = layer_name_read(name);
	assert_int_equal(read.kind, LAYER_NAME_AT);
	assert_int_equal(read.number, 999999999);
	layer_name_put_preview(3, name);
	assert_string_equal(name, "preview-3");
	read = layer_name_read(name);
	assert_int_equal(read.kind, LAYER_NAME_PREVIEW);
	assert_int_equal(read.number, 3);
	read = layer_name_read("folded-5-3-2");
	assert_int_equal(read.kind, LAYER_NAME_FOLDED);
	assert_int_equal(read.number, 5);
	assert_int_equal(read.low, 3);
	assert_int_equal(read.below, 2);
	read = layer_name_read(LAYERS_FROM "debian");
	assert_int_equal(read.kind, LAYER_NAME_FROM);
	assert_string_equal(read.template, "debian");
}

TEST(test_a_label_comes_back_as_it_was)
{
	static const char *const labels[] = {
		"", "plain", "a/b", "100%", "%2F", "=", "..", "\xc3\xbc \xf0\x9f\x99\x82"};
	char longest[LIMIT_CHECKPOINT_LABEL_BYTES + 1], name[NAME_MAX + 1], label[NAME_MAX + 1];

	for (size_t i = 0; i <= ARRAY_SIZE(labels); i++) {
		/* The longest one, each byte of which is written as three. */
		const char *given = i < ARRAY_SIZE(labels) ? labels[i] : longest;
		struct layer_name read;
		struct text back;

		memset(longest, '/', LIMIT_CHECKPOINT_LABEL_BYTES);
		longest[LIMIT_CHECKPOINT_LABEL_BYTES] = '\0';
		layer_name_put_label(12, text_from(given), name);
		assert_null(strchr(name, '/'));
		read = layer_name_read(name);
		assert_int_equal(read.kind, LAYER_NAME_LABEL);
		assert_int_equal(read.number, 12);
		back = layer_name_read_label(read.label, label);
		assert_int_equal(back.len, strlen(given));
		assert_memory_equal(back.data, given, back.len);
	}
}

TEST(test_what_is_not_written_so_means_nothing)
{
	static const char *const names[] = {"", ".", "..", "c", "c1", "cc1=", "1", "-", "1-", "-1",
		"01-0", "1-00", "1-0x", "1-0-", "+1-0", " 1-0", "1000000000-1", "1-1000000000",
		"c3-1", "at-", "at-x", "at-1-0", "at-01", "at--1", "preview-", "preview-1x",
		"preview-01", "folded-", "folded-5", "folded-5-3", "folded-5-3-", "folded-5-3-2-1",
		"folded-5-3-2x", "folded-05-3-2", "from", "From=x", ".dropped-1", "c01=x"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (layer_name_read(names[i]).kind != LAYER_NAME_OTHER)
			fail_msg("\"%s\" was taken for a layer's name", names[i]);
}
