// SPDX-License-Identifier: Apache-2.0
/* Every errno of a file system: its code, and what to do next. */
#include "common/errors.h"
#include "tests/lib/unit.h"

struct errno_case {
	int error_number;
	const char *code;
	const char *words; /* of the sentence */
};

static const struct errno_case cases[] = {
	{ENOENT, "NOT_FOUND", "list_directory shows"},
	{ENOTDIR, "NOT_A_DIRECTORY", "list_directory shows"},
	{EISDIR, "IS_A_DIRECTORY", "name a file"},
	{EACCES, "PERMISSION_DENIED", "the workspace's user may not"},
	{EPERM, "PERMISSION_DENIED", "immutable"},
	{EROFS, "PERMISSION_DENIED", "read-only"},
	{ENOKEY, "PERMISSION_DENIED", "key"},
	{ELOOP, "TOO_MANY_LINKS", "use the path"},
	{ENAMETOOLONG, "NAME_TOO_LONG", "use a shorter one"},
	{EILSEQ, "INVALID_ARGUMENTS", "UTF-8"},
	{ENOSPC, "NO_SPACE", "remove what is not needed"},
	{EMLINK, "NO_SPACE", "directories"},
	{EDQUOT, "QUOTA_EXCEEDED", "remove what is not needed"},
	{EFBIG, "FILE_TOO_LARGE", "too large"},
	{EOVERFLOW, "FILE_TOO_LARGE", "too large"},
	{ENXIO, "NOT_A_REGULAR_FILE", "not a regular file"},
	{EXDEV, "PATH_OUTSIDE_WORKSPACE", "outside workspace"},
	{EBUSY, "BUSY", "try again later"},
	{ETXTBSY, "BUSY", "try again"},
	{EMFILE, "BUSY", "try again later"},
	{ENFILE, "BUSY", "try again later"},
	{ENOMEM, "EXECUTION_ERROR", "Out of memory"},
	{EIO, "EXECUTION_ERROR", "input/output"},
	{ESTALE, "EXECUTION_ERROR", "try again"},
	{ENOTCONN, "EXECUTION_ERROR", "ask the user"},
	{ETIMEDOUT, "EXECUTION_ERROR", "ask the user"},
	{EINVAL, "EXECUTION_ERROR", "try another way"},
	{0, "EXECUTION_ERROR", "try another way"},
	{-1, "EXECUTION_ERROR", "try another way"},
	{1 << 20, "EXECUTION_ERROR", "try another way"},
};

TEST(test_errno_table)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *sentence = tool_errno_sentence(cases[i].error_number);

		assert_string_equal(tool_error_name(tool_error_from_errno(cases[i].error_number)),
			cases[i].code);
		if (!strstr(sentence, cases[i].words))
			fail_msg("%d: %s", cases[i].error_number, sentence);
	}
}

/* Each code has a name and a sentence, also an invalid code from a hostile peer. */
TEST(test_every_code)
{
	for (unsigned error = 0; error < TOOL_ERROR_COUNT + 2; error++) {
		assert_true(strlen(tool_error_name(error)) > 1);
		assert_true(strlen(tool_error_sentence(error)) > 1);
	}
	assert_string_equal(tool_error_name(TOOL_ERROR_COUNT), "EXECUTION_ERROR");
}
