/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/scratch_fixture.h"
#include "worker/files/file_list.h"

#include "tests/lib/files_reply.h"
#include "tests/lib/unit.h"

static int set_up(void **state)
{
	(void)state;
	scratch = scratch_new();
	scratch_text(&scratch, ".gitignore", "*.o\nbuild/\n");
	scratch_text(&scratch, "src/main.c", "int main;");
	scratch_text(&scratch, "src/main.o", "");
	scratch_text(&scratch, "src/lib/a.c", "abc");
	scratch_text(&scratch, "src/lib/a.h", "");
	scratch_text(&scratch, "build/out", "");
	scratch_text(&scratch, ".git/config", "");
	scratch_text(&scratch, ".cloister-000000000000000a", "");
	scratch_link(&scratch, "link", "src/main.c");
	scratch_link(&scratch, "out", "/etc");
	assert_int_equal(mkfifoat(scratch.fd, "pipe", 0666), 0);
	return 0;
}

FIXTURE(set_up, scratch_tear_down)

static struct answer list(struct files_list request)
{
	struct root root = {
		.fd = scratch.fd, .proc_self_fd = -1, .visible = TEXT_LITERAL("/workspace")};
	struct answer answer = answer_new();

	if (request.path.len == 0)
		request.path = TEXT_LITERAL(".");
	file_list(&root, &request, answer.reply);
	answer_decode(&answer);
	return answer;
}

static void assert_lists(struct files_list request, const char *expected)
{
	answer_has(list(request), expected);
}

TEST(test_one_directory)
{
	assert_lists((struct files_list){.gitignore = true},
		"f .gitignore 11\nl link -> src/main.c\nl out -> /etc\np pipe\nd src\n");
	assert_lists((struct files_list){0},
		"d .git\nf .gitignore 11\nd build\nl link -> src/main.c\nl out -> /etc\n"
		"p pipe\nd src\n");
	assert_lists((struct files_list){.path = TEXT_LITERAL("src"), .gitignore = true},
		"d src/lib\nf src/main.c 9\n");
	assert_lists((struct files_list){.path = TEXT_LITERAL("/workspace/src/lib")},
		"f src/lib/a.c 3\nf src/lib/a.h 0\n");
}

TEST(test_recursive)
{
	assert_lists((struct files_list){.path = TEXT_LITERAL("src"), .recursive = true},
		"d src/lib\nf src/lib/a.c 3\nf src/lib/a.h 0\nf src/main.c 9\nf src/main.o 0\n");
	assert_lists((struct files_list){.recursive = true, .gitignore = true},
		"f .gitignore 11\nl link -> src/main.c\nl out -> /etc\np pipe\nd src\nd src/lib\n"
		"f src/lib/a.c 3\nf src/lib/a.h 0\nf src/main.c 9\n");
}

TEST(test_pattern)
{
	assert_lists((struct files_list){.pattern = TEXT_LITERAL("*.c"), .recursive = true},
		"f src/lib/a.c 3\nf src/main.c 9\n");
	assert_lists((struct files_list){.pattern = TEXT_LITERAL("*.c")}, "");
	assert_lists((struct files_list){.path = TEXT_LITERAL("src"),
			     .pattern = TEXT_LITERAL("lib/*.{c,h}"),
			     .recursive = true},
		"f src/lib/a.c 3\nf src/lib/a.h 0\n");
	assert_lists((struct files_list){.path = TEXT_LITERAL("src"),
			     .pattern = TEXT_LITERAL("src/*.c"),
			     .recursive = true},
		"f src/main.c 9\n");
}

static void assert_refused(struct files_list request, enum tool_error error)
{
	struct answer answer = list(request);

	assert_int_equal(answer.end.error, error);
	assert_string_equal(answer.lines, "");
	answer_done(&answer);
}

TEST(test_refused)
{
	assert_refused(
		(struct files_list){.path = TEXT_LITERAL("src/main.c")}, TOOL_NOT_A_DIRECTORY);
	assert_refused((struct files_list){.path = TEXT_LITERAL("pipe")}, TOOL_NOT_A_DIRECTORY);
	assert_refused((struct files_list){.path = TEXT_LITERAL("nowhere")}, TOOL_NOT_FOUND);
	assert_refused(
		(struct files_list){.path = TEXT_LITERAL("..")}, TOOL_PATH_OUTSIDE_WORKSPACE);
	assert_refused(
		(struct files_list){.path = TEXT_LITERAL("out")}, TOOL_SYMLINK_OUTSIDE_WORKSPACE);
	assert_refused((struct files_list){.pattern = TEXT_LITERAL("[a")}, TOOL_INVALID_PATTERN);
}

TEST(test_end)
{
	struct answer answer = list((struct files_list){.path = TEXT_LITERAL("./src/../src/lib/")});

	assert_true(text_equal(answer.end.path, TEXT_LITERAL("src/lib")));
	answer_done(&answer);
	answer = list((struct files_list){0});
	assert_true(text_equal(answer.end.path, TEXT_LITERAL(".")));
	answer_done(&answer);
}

/* The limit is exact, and "truncated" means that there was at least one entry more. */
TEST(test_cap)
{
	struct files_list request = {.path = TEXT_LITERAL("src"), .recursive = true};
	struct answer answer;

	request.max_entries = 4;
	answer = list(request);
	assert_int_equal(answer.end.count, 4);
	assert_true(answer.end.truncated);
	assert_string_equal(
		answer.lines, "d src/lib\nf src/lib/a.c 3\nf src/lib/a.h 0\nf src/main.c 9\n");
	answer_done(&answer);
	request.max_entries = 5;
	answer = list(request);
	assert_int_equal(answer.end.count, 5);
	assert_false(answer.end.truncated);
	answer_done(&answer);
	request.pattern = TEXT_LITERAL("*.c");
	request.max_entries = 2;
	answer = list(request);
	assert_false(answer.end.truncated);
	answer_done(&answer);
}

TEST(test_cap_of_its_own)
{
	struct files_list request = {
		.path = TEXT_LITERAL("many"), .max_entries = UINT32_MAX, .recursive = true};
	struct answer answer;
	char name[32];

	for (unsigned i = 0; i <= LIMIT_LIST_ENTRIES; i++) {
		snprintf(name, sizeof(name), "many/%u", i);
		scratch_text(&scratch, name, "");
	}
	answer = list(request);
	assert_int_equal(answer.end.count, LIMIT_LIST_ENTRIES);
	assert_true(answer.end.truncated);
	answer_done(&answer);
}
