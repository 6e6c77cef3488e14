/* links: cloister-gate-core */
/* SPDX-License-Identifier: Apache-2.0 */

#include "gate/e2b/shell_line.h"
#include "tests/lib/unit.h"

static const char *const words[] = {
	"", "a", "a b", "'", "''", "a'b'c", "$(x) `y` \"z\" \\", "\n\t", "'a"};

TEST(test_words_are_read_back)
{
	struct byte_queue line = {0};
	struct text rest;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		assert_int_equal(shell_line_append(&line, text_from(words[i])), 0);
	rest = byte_queue_peek(&line);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		struct byte_queue word = {0};

		assert_int_equal(shell_line_take(&rest, &word), 1);
		assert_true(text_equal(byte_queue_peek(&word), text_from(words[i])));
		byte_queue_free(&word);
	}
	assert_int_equal(rest.len, 0);
	byte_queue_free(&line);
}

TEST(test_a_shell_reads_the_same_words)
{
	char script[512];
	struct byte_queue line = {0};
	char output[256] = "", expected[256] = "";
	FILE *shell;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		assert_int_equal(shell_line_append(&line, text_from(words[i])), 0);
		strcat(expected, words[i]);
		strcat(expected, "|");
	}
	snprintf(script, sizeof(script), "printf '%%s|' %.*s", (int)byte_queue_peek(&line).len,
		byte_queue_peek(&line).data);
	shell = popen(script, "r");
	assert_non_null(shell);
	assert_true(fread(output, 1, sizeof(output) - 1, shell) > 0);
	assert_int_equal(pclose(shell), 0);
	assert_string_equal(output, expected);
	byte_queue_free(&line);
}

TEST(test_other_lines_are_no_words)
{
	static const char *const lines[] = {
		"", "a", "'", "'a", "'a'", "'a'b ", "'a'\\'b' ", "'a'\\"};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct text line = text_from(lines[i]);
		struct byte_queue word = {0};

		assert_int_equal(shell_line_take(&line, &word), 0);
		assert_true(line.data == lines[i]);
		byte_queue_free(&word);
	}
}
