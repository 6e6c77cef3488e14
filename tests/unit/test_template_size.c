/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* The record of a template's size: what is read is what was noted, and nothing else. */
#include "supervisor/workspace/templates/template_size.h"

#include "tests/lib/scratch_fixture.h"
#include "tests/lib/unit.h"

FIXTURE(scratch_set_up, scratch_tear_down)

TEST(test_a_record)
{
	assert_int_equal(template_size(scratch.fd, "t"), -1);
	assert_int_equal(template_size_note(scratch.fd, "t", 12345678901234), 0);
	assert_int_equal(template_size_note(scratch.fd, "tt", 0), 0);
	assert_int_equal(template_size(scratch.fd, "t"), 12345678901234);
	assert_int_equal(template_size(scratch.fd, "tt"), 0);
	template_size_forget(scratch.fd, "t");
	assert_int_equal(template_size(scratch.fd, "t"), -1);
	assert_int_equal(faccessat(scratch.fd, ".size-t", F_OK, 0), -1);
	assert_int_equal(template_size(scratch.fd, "tt"), 0);
	template_size_forget(scratch.fd, "t");
}

/* A death between the two names, and names that no cloisterd has made. */
TEST(test_what_is_no_record)
{
	static const char *const names[] = {"x", "-1", "1x", " 1", "1234567890123456789", "..."};
	char path[64];

	assert_int_equal(mkdirat(scratch.fd, ".size-t", 0700), 0);
	assert_int_equal(template_size(scratch.fd, "t"), -1);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), ".size-t/%s", names[i]);
		assert_int_equal(mkdirat(scratch.fd, path, 0700), 0);
	}
	assert_int_equal(template_size(scratch.fd, "t"), -1);
	assert_int_equal(template_size_note(scratch.fd, "t", 7), 0);
	assert_int_equal(template_size(scratch.fd, "t"), 7);
	assert_int_equal(symlinkat(".size-t", scratch.fd, ".size-link"), 0);
	assert_int_equal(template_size(scratch.fd, "link"), -1);
	assert_true(template_size_note(scratch.fd, "link", 7) < 0);
}
