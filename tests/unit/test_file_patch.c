/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/* Patches that are held, and patches that are taken back. This program's own renameat2() plays a
 * file system that cannot exchange two files, and lets another process come in between. */
#include "worker/files/edit/file_patch.h"

#include "worker/files/edit/patch_look.h"
#include "worker/files/walk/dir_marks.h"

#include <sys/syscall.h>

#include "tests/lib/files_fixture.h"
#include "tests/lib/patch_parts.h"
#include "tests/lib/unit.h"

#define CALL  0x2a
#define FIRST "Ua\nH\n-a|\n+A|\n"
#define BOTH  FIRST "Ub\nH\n-b|\n+B|\n"

static int ws; /* where the hook works */
static bool can_exchange;
static void (*after_first)(void); /* runs once, when a file has its new content */

int renameat2(int old_dir, const char *old_name, int new_dir, const char *new_name, unsigned flags)
{
	if (flags & RENAME_EXCHANGE && !can_exchange) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_renameat2, old_dir, old_name, new_dir, new_name, flags);
}

/* The first system call after a file has been changed, and before the next one is. */
int fstatat(int dir, const char *name, struct stat *ret, int flags)
{
	void (*act)(void) = after_first;

	if (act && strcmp(name, "b") == 0 && strcmp(get_file(ws, "a"), "A\n") == 0) {
		after_first = NULL;
		act();
	}
	return (int)syscall(SYS_newfstatat, dir, name, ret, flags);
}

static struct file_patch *begin(const struct root *root, const char *parts, bool look)
{
	struct text encoded = encode_parts(parts);
	struct file_patch *patch;

	assert_int_equal(
		file_patch_begin(root, &(struct files_patch){.size = encoded.len, .look = look},
			CALL, &patch),
		0);
	file_patch_append(patch, encoded.data, encoded.len);
	return patch;
}

/* Applies @parts, as they were told if @held. */
static void apply(struct fixture *fixture, const char *parts, bool held, struct answer *answer)
{
	struct file_patch *patch = begin(&fixture->root, parts, false);

	answer_begin(answer, CALL);
	if (!held || file_patch_hold(patch, answer->reply))
		assert_int_equal(file_patch_commit(patch, answer->reply), 0);
	file_patch_free(patch);
	answer_parse(answer, CALL);
}

static void put_both(struct fixture *fixture, bool exchange, void (*act)(void))
{
	ws = fixture->ws;
	put_file(ws, "a", "a\n");
	put_file(ws, "b", "b\n");
	can_exchange = exchange;
	after_first = act;
}

static void assert_both(const char *a, const char *b)
{
	assert_null(after_first);
	assert_string_equal(get_file(ws, "a"), a);
	assert_string_equal(get_file(ws, "b"), b);
	assert_int_equal(count_entries(ws), 2);
}

static void change_second(void)
{
	put_file(ws, "b", "other\n");
}

static void change_both(void)
{
	put_file(ws, "a", "newest\n");
	change_second();
}

GROUP_FIXTURE(fixture_leave_root, NULL)

FIXTURE(fixture_setup, fixture_teardown)

TEST(test_made)
{
	for (int i = 0; i < 4; i++) {
		struct answer answer;

		put_both(*state, i & 1, NULL);
		apply(*state, BOTH, i & 2, &answer);
		assert_error(&answer, TOOL_OK);
		assert_both("A\n", "B\n");
		answer_done(&answer);
	}
}

/* With an exchange of names, and without. */
TEST(test_taken_back)
{
	for (int i = 0; i < 2; i++) {
		struct answer answer;

		put_both(*state, i, change_second);
		apply(*state, BOTH, true, &answer);
		assert_error(&answer, TOOL_STALE_FILE);
		assert_non_null(memmem(answer.end.message.data, answer.end.message.len,
			"Nothing of the patch was done", 29));
		assert_both("a\n", "other\n");
		answer_done(&answer);
	}
}

/* What another process has written to a file that was changed is not taken away. */
TEST(test_not_taken_back)
{
	for (int i = 0; i < 2; i++) {
		struct answer answer;

		put_both(*state, i, change_both);
		apply(*state, BOTH, true, &answer);
		assert_error(&answer, TOOL_STALE_FILE);
		assert_non_null(memmem(answer.end.message.data, answer.end.message.len,
			"1 could not be put back", 23));
		assert_both("newest\n", "other\n");
		answer_done(&answer);
	}
}

static int turn; /* a mark on the second file, of another instance */

static void change_first_and_hold_second(void)
{
	put_file(ws, "a", "newest\n");
	assert_int_equal(dir_take_turn(turn, "b", CALL + 1), 0);
}

static void hold_second(void)
{
	assert_int_equal(dir_take_turn(turn, "b", CALL + 1), 0);
}

/* BUSY says that nothing was done, so that the caller tries again. */
TEST(test_not_taken_back_and_busy)
{
	static void (*const acts[])(void) = {hold_second, change_first_and_hold_second};

	for (size_t i = 0; i < 2; i++) {
		struct answer answer;

		put_both(*state, true, acts[i]);
		turn = dir_mark_call(ws, CALL + 1);
		assert_true(turn >= 0);
		apply(*state, BOTH, false, &answer);
		assert_error(&answer, i == 0 ? TOOL_BUSY : TOOL_STALE_FILE);
		assert_both(i == 0 ? "a\n" : "newest\n", "b\n");
		close(turn);
		answer_done(&answer);
	}
}

/* Nothing is left of a patch that is given up. */
TEST(test_withdrawn)
{
	struct fixture *fixture = *state;
	struct file_patch *patch;
	struct answer answer;

	put_both(fixture, true, NULL);
	patch = begin(&fixture->root, BOTH "Adir/new\n+x|\n", true);
	answer_begin(&answer, CALL);
	assert_true(file_patch_hold(patch, answer.reply));
	file_patch_free(patch);
	assert_both("a\n", "b\n");
	reply_error(answer.reply, TOOL_CANCELLED, NULL);
	answer_parse(&answer, CALL);
	assert_int_equal(answer.other_frames, 3 + 3 + 1); /* looked, planned, held */
	answer_done(&answer);
}

TEST(test_parts_that_are_none)
{
	struct fixture *fixture = *state;
	struct file_patch *patch = begin(&fixture->root, "H\n", false);
	struct answer answer;

	answer_begin(&answer, CALL);
	assert_false(file_patch_hold(patch, answer.reply));
	file_patch_free(patch);
	answer_parse(&answer, CALL);
	assert_error(&answer, TOOL_EXECUTION_ERROR);
	answer_done(&answer);
}

TEST(test_look)
{
	const struct {
		uint8_t operation;
		const char *path, *to;
		bool known;
		const char *rest;
	} cases[] = {
		{FILES_UPDATE, "a", "", true, ""},
		{FILES_UPDATE, "none", "", false, "absent"},
		{FILES_ADD, "none/none", "", false, "absent"},
		{FILES_UPDATE, "link", "", true, ""},
		{FILES_DELETE, "link", "", false, ""},
		{FILES_UPDATE, "dir", "", false, ""},
		{FILES_UPDATE, "a/b", "", false, ""},
		{FILES_UPDATE, "fifo", "", false, ""},
		{FILES_UPDATE, "large", "", false, ""},
		{FILES_UPDATE, "../outside/secret", "", false, ""},
		{FILES_MOVE, "a", "none", true, "/absent"},
		{FILES_MOVE, "none", "dir", false, "absent/"},
	};
	struct fixture *fixture = *state;
	char found[FILES_FOUND_BYTES + 1], known[FILES_FOUND_BYTES + 1];
	size_t budget = 4;

	put_both(fixture, true, NULL);
	put_file(ws, "large", "12345");
	put_link(ws, "link", "", "a");
	assert_int_equal(mkdirat(ws, "dir", 0755), 0);
	assert_int_equal(mkfifoat(ws, "fifo", 0644), 0);
	patch_look(&fixture->root,
		&(struct patch_file){.operation = FILES_UPDATE, .path = TEXT_LITERAL("a")}, &budget,
		known);
	assert_int_equal(strlen(known), FILES_VERSION_BYTES);
	assert_int_equal(budget, 2);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct patch_file file = {.operation = cases[i].operation,
			.path = text_from(cases[i].path),
			.to = text_from(cases[i].to)};
		size_t len = cases[i].known ? strlen(known) : 0;

		budget = 4;
		patch_look(&fixture->root, &file, &budget, found);
		assert_int_equal(strncmp(found, known, len), 0);
		assert_string_equal(found + len, cases[i].rest);
	}
}
