/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
#include "worker/files/edit/patch_plan.h"

#include "common/wire/wire_files.h"

#include "tests/lib/patch_parts.h"
#include "tests/lib/unit.h"

TEST(test_read)
{
	struct patch patch;

	assert_int_equal(
		patch_read(&patch, encode_parts("Aa\n+x|y|\nDb\nUc\nMd\nUe\nH\n@k\n-a|\nE\n")), 0);
	assert_int_equal(patch.n_files, 4);
	assert_int_equal(patch.files[0].operation, FILES_ADD);
	assert_true(text_equal(patch.files[0].lines, TEXT_LITERAL("x\ny\n")));
	assert_int_equal(patch.files[1].operation, FILES_DELETE);
	assert_int_equal(patch.files[2].operation, FILES_MOVE);
	assert_true(text_equal(patch.files[2].to, TEXT_LITERAL("d")));
	assert_int_equal(patch.files[2].n_parts, 0);
	assert_int_equal(patch.files[3].operation, FILES_UPDATE);
	assert_int_equal(patch.files[3].n_parts, 4);
	patch_done(&patch);
}

TEST(test_read_refuses)
{
	static const char *const wrong[] = {"", "Ua\n", "H\n", "+a|\n", "Ma\n", "Ua\nH\n",
		"Ua\nH\n@k\n", "Ua\n-a|\n", "Ua\nH\n-a\n", "Ua\nH\n-\n", "Ua\nHx\n-a|\n",
		"Ua\nH\n-a|\nEx\n", "Ua\nH\nE\n", "Ua\nH\n-a|\n@k\n", "Ua\nH\n-a|\nE\n-b|\n",
		"Ua\nH\n-a|\nMb\n", "Ua\nMb\nMc\n", "Aa\n-a|\n", "Aa\n+a|\n+b|\n", "Aa\nMb\n",
		"Da\n-a|\n", "U\n", "Ua\nM\n", "Aa\n+a\n", "Xa\n", "Ua\nH\n-a|\n-b|\n",
		"Ua\nH\n@\n-a|\n", "Ua\nH\n@a|b\n-a|\n", "Ua\nH\n-a|\nE\nE\n", "Ua\nH\nH\n-a|\n"};
	struct text whole = encode_parts("Ua\nH\n-a|\n+b|\n");
	struct patch patch;

	for (size_t len = 0; len < whole.len; len++)
		if (len != 6 + 5 + 7) /* which is whole without its last part */
			assert_int_equal(
				patch_read(&patch, (struct text){whole.data, len}), -EBADMSG);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		if (patch_read(&patch, encode_parts(wrong[i])) != -EBADMSG)
			fail_msg("%s", wrong[i]);
}

/* Applies the hunks, in the form of encode_parts() without the file, to @original. */
static bool apply(const char *hunks, const char *original, size_t room,
	struct patch_outcome *outcome, struct patch_failure *failure)
{
	char parts[1024];
	struct patch patch;
	bool made;

	snprintf(parts, sizeof(parts), "Uf\n%s", hunks);
	assert_int_equal(patch_read(&patch, encode_parts(parts)), 0);
	made = patch_apply(&patch.files[0], text_from(original), room, outcome, failure);
	patch_done(&patch);
	return made;
}

TEST(test_places)
{
	static const struct {
		const char *original, *hunks, *expected; /* NULL: refused */
		enum tool_error error;
		const char *kind;
	} rows[] = {
		{"a\nb\n", "H\n-a|\n+c|\n", "c\nb\n", TOOL_OK, NULL},
		{"a\na\n", "H\n-a|\n+c|\n", NULL, TOOL_AMBIGUOUS_MATCH, "several"},
		{"a\na\n", "H\n-a|\n+c|\nE\n", "a\nc\n", TOOL_OK, NULL},
		{"a\na\n", "H\n-a|a|\n+c|\n", "c\n", TOOL_OK, NULL},
		{"ba\na\n", "H\n-a|\n+c|\n", "ba\nc\n", TOOL_OK, NULL},
		{"ba\n", "H\n-a|\n+c|\n", NULL, TOOL_NO_MATCH, "part"},
		{"ab\n", "H\n-a|\n+c|\n", NULL, TOOL_NO_MATCH, "different"},
		{"x\na\ny\na\n", "H\n@y\n-a|\n+c|\n", "x\na\ny\nc\n", TOOL_OK, NULL},
		{"x\na\ny\na\n", "H\n@x\n-a|\n+c|\n", "x\nc\ny\na\n", TOOL_OK, NULL},
		{"x\nb\na\ny\na\n", "H\n@x\n-a|\n+c|\n", NULL, TOOL_AMBIGUOUS_MATCH, "several"},
		{"x\na\nx\na\n", "H\n@x\n-a|\n+c|\n", NULL, TOOL_AMBIGUOUS_MATCH, "several"},
		{"y\nx\na\nx\na\n", "H\n@y\n@x\n-a|\n+c|\n", NULL, TOOL_AMBIGUOUS_MATCH, "several"},
		{"x\na\ny\nx\na\n", "H\n@y\n@x\n-a|\n+c|\n", "x\na\ny\nx\nc\n", TOOL_OK, NULL},
		{"a\nx\n", "H\n@x\n-a|\n+c|\n", NULL, TOOL_NO_MATCH, "anchor"},
		{"a\n", "H\n@x\n-a|\n+c|\n", NULL, TOOL_NO_MATCH, "anchor"},
		{"xy\na\n", "H\n@x\n-a|\n+c|\n", NULL, TOOL_NO_MATCH, "anchor"},
		{" x \na\n", "H\n@x\n-a|\n+c|\n", " x \nc\n", TOOL_OK, NULL},
		{"a\nb\n", "H\n-a|\n+c|\nE\n", NULL, TOOL_NO_MATCH, "end"},
		{"a\n", "H\n+c|\n", NULL, TOOL_AMBIGUOUS_MATCH, "no_lines"},
		{"a\n", "H\n@a\n+c|\n", "a\nc\n", TOOL_OK, NULL},
		{"a\na\n", "H\n@a\n+c|\n", NULL, TOOL_AMBIGUOUS_MATCH, "no_lines"},
		{"a\na\n", "H\n+c|\nE\n", "a\na\nc\n", TOOL_OK, NULL},
		{"", "H\n+c|\n", "c\n", TOOL_OK, NULL},
		{"", "H\n-c|\n", NULL, TOOL_NO_MATCH, "absent"},
		{"a\nb", "H\n-b|\n+c|d|\n", "a\nc\nd", TOOL_OK, NULL},
		{"a\nb", "H\n-b|\n", "a", TOOL_OK, NULL},
		{"a", "H\n-a|\n", "", TOOL_OK, NULL},
		{"a", "H\n+b|\nE\n", "a\nb", TOOL_OK, NULL},
		{"a\r\nb\r\n", "H\n a|\n-b|\n+c|d|\n", "a\r\nc\r\nd\r\n", TOOL_OK, NULL},
		{"a\r\nb", "H\n-b|\n+c|\n", "a\r\nc", TOOL_OK, NULL},
		{"a\r\nb\n", "H\n-a|\n+c|\n", NULL, TOOL_NO_MATCH, "line_endings"},
		{"a\r\nb\r\n", "H\n-a\r|\n+c|\n", "c\nb\r\n", TOOL_OK, NULL},
		{"a\nb\nc\n", "H\n-a|\n+x|\n b|\nH\n b|\n-c|\n+y|\n", "x\nb\ny\n", TOOL_OK, NULL},
		{"a\nb\nc\n", "H\n-c|\n+y|\nH\n-a|\n+x|\n", "x\nb\ny\n", TOOL_OK, NULL},
		{"a\nb\n", "H\n-a|b|\n+x|\nH\n-b|\n", NULL, TOOL_EDITS_OVERLAP, "overlap"},
		{"a\nb\n", "H\n a|\n+x|\nH\n+y|\n b|\n", NULL, TOOL_EDITS_OVERLAP, "overlap"},
		{"a\nb\n", "H\n-a|\n+x|\nH\n-b|\n+y|\n", "x\ny\n", TOOL_OK, NULL},
		{"a\nb\n", "H\n-a|\n+a|\n", NULL, TOOL_INVALID_ARGUMENTS, "unchanged"},
		{"a\nb\nc\n", "H\n+x|\n-a|\n+y|\n b|\n-c|\n+z|\n", "x\ny\nb\nz\n", TOOL_OK, NULL},
		{"a\n", "H\n-a|\n+0123456789|\n", NULL, TOOL_FILE_TOO_LARGE, "too_large"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct patch_outcome outcome;
		struct patch_failure failure;
		bool made = apply(rows[i].hunks, rows[i].original, 14 - 4, &outcome, &failure);

		if (made != (rows[i].expected != NULL) ||
			(made && !text_equal((struct text){outcome.content, outcome.len},
					 text_from(rows[i].expected))) ||
			(!made && (failure.error != rows[i].error ||
					  strcmp(failure.kind, rows[i].kind) != 0)))
			fail_msg("%zu: %s: %s %s", i, rows[i].hunks,
				made ? outcome.content : tool_error_name(failure.error),
				made ? "" : failure.sentence);
		free(outcome.content);
	}
}

TEST(test_lines_are_counted)
{
	struct patch_outcome outcome;
	struct patch_failure failure;

	assert_true(apply(
		"H\n a|\n-b|c|\n+x|\nH\n+y|z|\nE\n", "a\nb\nc\nd\n", 100, &outcome, &failure));
	assert_int_equal(outcome.added, 3);
	assert_int_equal(outcome.removed, 2);
	assert_int_equal(outcome.len, 10);
	free(outcome.content);
}

TEST(test_failures_name_lines)
{
	struct patch_outcome outcome;
	struct patch_failure failure;

	assert_false(apply("H\n-x|\n+y|\nH\n-a|\n+b|\n", "a\nx\na\n", 100, &outcome, &failure));
	assert_int_equal(failure.hunk, 2);
	assert_int_equal(failure.n_lines, 2);
	assert_int_equal(failure.lines[0], 1);
	assert_int_equal(failure.lines[1], 3);
	/* The last line to copy has no newline that the file does not have. */
	assert_false(apply("H\n-  last|\n+y|\n", "a\n\tlast", 100, &outcome, &failure));
	assert_true(text_equal(failure.closest, TEXT_LITERAL("\tlast")));
}
