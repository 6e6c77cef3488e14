/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
#include "worker/files/file_write.h"

#include <sys/xattr.h>

#include "tests/lib/rounds.h"
#include "tests/lib/unit.h"
#include "tests/lib/write_fixture.h"

#define TEMPORARY ".cloister-000000000000002a"

static enum tool_error write_text(
	const struct root *root, const char *path, const char *content, bool *ret_created)
{
	struct text text = text_from(content);
	struct answer answer;
	enum tool_error error;

	write_announced(root, path, text, text.len, &answer);
	error = answer.end.error;
	if (error == TOOL_OK) {
		assert_int_equal(answer.end.size, text.len);
		*ret_created = answer.end.created;
	} else {
		assert_true(answer.end.message.len > 0 || strlen(tool_error_sentence(error)) > 0);
	}
	answer_done(&answer);
	return error;
}

static void assert_written(const struct fixture *fixture, const struct root *root, const char *path,
	const char *name, bool created)
{
	bool was_created = !created;

	assert_string_equal(
		tool_error_name(write_text(root, path, "new content\n", &was_created)), "OK");
	assert_int_equal(was_created, created);
	assert_string_equal(get_file(fixture->ws, name), "new content\n");
	assert_false(exists_at(fixture->ws, TEMPORARY));
}

static void assert_refused(const struct root *root, const char *path, enum tool_error error)
{
	bool created;

	assert_string_equal(tool_error_name(write_text(root, path, "new content\n", &created)),
		tool_error_name(error));
}

static void write_everywhere(const struct fixture *fixture, const struct root *root)
{
	char absolute[128];
	struct stat st;

	assert_written(fixture, root, "new", "new", true);
	assert_int_equal(fstatat(fixture->ws, "new", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	assert_int_equal(st.st_nlink, 1);
	put_file(fixture->ws, "new", "a longer old content\n");
	assert_written(fixture, root, "new", "new", false);
	assert_written(fixture, root, "a/b/c.txt", "a/b/c.txt", true);
	snprintf(absolute, sizeof(absolute), "%s/a/d", fixture->visible);
	assert_written(fixture, root, absolute, "a/d", true);

	put_file(fixture->ws, "target", "old\n");
	put_link(fixture->ws, "link", "", "target");
	put_link(fixture->ws, "abslink", fixture->visible, "/target");
	put_link(fixture->ws, "dangling", "", "a/created");
	assert_written(fixture, root, "link", "target", false);
	assert_written(fixture, root, "abslink", "target", false);
	assert_written(fixture, root, "dangling", "a/created", true);
	assert_int_equal(fstatat(fixture->ws, "link", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(count_entries(fixture->ws), 6);
}

GROUP_FIXTURE(fixture_leave_root, NULL)

FIXTURE(fixture_setup, fixture_teardown)

TEST(test_written)
{
	const struct fixture *fixture = *state;

	write_everywhere(fixture, &fixture->root);
	assert_outside_untouched(fixture);
}

/* As on a file system without O_TMPFILE. */
TEST(test_written_by_name)
{
	const struct fixture *fixture = *state;
	struct root root = fixture->root;

	root.proc_self_fd = -1;
	write_everywhere(fixture, &root);
}

TEST(test_empty_and_large)
{
	const struct fixture *fixture = *state;
	static char large[LIMIT_CONTENT_BYTES];
	struct answer answer;
	struct stat st;
	bool created = false;

	assert_int_equal(write_text(&fixture->root, "empty", "", &created), TOOL_OK);
	assert_true(created);
	assert_int_equal(fstatat(fixture->ws, "empty", &st, 0), 0);
	assert_int_equal(st.st_size, 0);
	write_announced(&fixture->root, "./x/../empty", (struct text){large, sizeof(large)},
		sizeof(large), &answer);
	assert_error(&answer, TOOL_NOT_FOUND); /* there is no x */
	answer_done(&answer);
	write_announced(&fixture->root, "./large", (struct text){large, sizeof(large)},
		sizeof(large), &answer);
	assert_error(&answer, TOOL_OK);
	assert_text(answer.end.path, "large");
	assert_int_equal(answer.end.size, sizeof(large));
	answer_done(&answer);
	assert_int_equal(fstatat(fixture->ws, "large", &st, 0), 0);
	assert_int_equal(st.st_size, sizeof(large));
}

TEST(test_refused)
{
	const struct fixture *fixture = *state;
	const struct root *root = &fixture->root;
	struct answer answer;

	assert_int_equal(mkdirat(fixture->ws, "dir", 0755), 0);
	assert_int_equal(mkfifoat(fixture->ws, "fifo", 0644), 0);
	put_file(fixture->ws, "readonly", "old\n");
	assert_int_equal(fchmodat(fixture->ws, "readonly", 0444, 0), 0);
	assert_int_equal(mkdirat(fixture->ws, "closed", 0555), 0);
	put_link(fixture->ws, "out", fixture->base, "/outside/secret");
	put_link(fixture->ws, "outdir", "", "../outside");
	put_link(fixture->ws, "todir", "", "dir");

	assert_refused(root, "dir", TOOL_IS_A_DIRECTORY);
	assert_refused(root, ".", TOOL_IS_A_DIRECTORY);
	assert_refused(root, "todir", TOOL_IS_A_DIRECTORY);
	assert_refused(root, "none/", TOOL_IS_A_DIRECTORY);
	assert_refused(root, "readonly/", TOOL_IS_A_DIRECTORY);
	assert_refused(root, "fifo", TOOL_NOT_A_REGULAR_FILE);
	assert_refused(root, "readonly", TOOL_PERMISSION_DENIED);
	assert_refused(root, "closed/x", TOOL_PERMISSION_DENIED);
	assert_refused(root, "readonly/x", TOOL_NOT_A_DIRECTORY);
	assert_refused(root, "out", TOOL_SYMLINK_OUTSIDE_WORKSPACE);
	assert_refused(root, "outdir/new", TOOL_SYMLINK_OUTSIDE_WORKSPACE);
	assert_refused(root, "/etc/passwd", TOOL_PATH_OUTSIDE_WORKSPACE);
	assert_refused(root, "dir/../../outside/new", TOOL_PATH_OUTSIDE_WORKSPACE);
	assert_refused(root, "", TOOL_INVALID_ARGUMENTS);
	assert_string_equal(get_file(fixture->ws, "readonly"), "old\n");
	assert_int_equal(count_entries(fixture->ws), 7);
	assert_outside_untouched(fixture);

	write_announced(root, "../x", TEXT_LITERAL("x"), 1, &answer);
	assert_error(&answer, TOOL_PATH_OUTSIDE_WORKSPACE);
	assert_text(answer.end.message, "Invalid path: access outside workspace is not allowed");
	answer_done(&answer);
}

/* Content that is too short or too long, and a write that is given up, change nothing. */
static void give_up(const struct fixture *fixture, const struct root *root)
{
	const struct files_write request = {
		.path = TEXT_LITERAL("file"), .size = 5, .create_dirs = true, .durable = true};
	struct file_write *staged = NULL;
	struct answer answer;

	put_file(fixture->ws, "file", "old\n");
	write_announced(root, "file", TEXT_LITERAL("1234"), 5, &answer);
	assert_error(&answer, TOOL_EXECUTION_ERROR);
	answer_done(&answer);
	write_announced(root, "file", TEXT_LITERAL("123456"), 5, &answer);
	assert_error(&answer, TOOL_EXECUTION_ERROR);
	answer_done(&answer);
	assert_int_equal(file_write_begin(root, &request, CALL, &staged), 0);
	file_write_append(staged, "12345", 5);
	file_write_free(staged);
	file_write_free(NULL);
	assert_string_equal(get_file(fixture->ws, "file"), "old\n");
	assert_int_equal(count_entries(fixture->ws), 1);
}

TEST(test_given_up)
{
	const struct fixture *fixture = *state;
	struct root root = fixture->root;

	give_up(fixture, &root);
	root.proc_self_fd = -1;
	give_up(fixture, &root);
}

TEST(test_kept)
{
	const struct fixture *fixture = *state;
	_cleanup_close_ int fd = -1;
	bool has_attributes;
	struct stat st;
	char value[8] = "";

	put_file(fixture->ws, "script", "old\n");
	assert_int_equal(linkat(fixture->ws, "script", fixture->ws, "other", 0), 0);
	fd = openat(fixture->ws, "script", O_RDWR | O_CLOEXEC);
	assert_int_equal(fchmod(fd, 04751), 0);
	has_attributes = fsetxattr(fd, "user.test", "kept", 4, 0) == 0;
	if (!has_attributes)
		print_message("no user attributes on this file system: %s\n", strerror(errno));
	assert_written(fixture, &fixture->root, "script", "script", false);
	assert_string_equal(get_file(fixture->ws, "other"), "old\n");
	close_fd(&fd);

	fd = openat(fixture->ws, "script", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(
		/* without the set-user-ID bit, as write(2) clears it */
		st.st_mode, S_IFREG | 0751);
	assert_int_equal(st.st_nlink, 1);
	if (has_attributes) {
		assert_int_equal(fgetxattr(fd, "user.test", value, sizeof(value)), 4);
		assert_string_equal(value, "kept");
	}
}

/* Whatever mode the old file had, its replacement is never set-user-ID or set-group-ID; nor is a
 * file made in a directory whose group is inherited. */
TEST(test_no_set_id_bits)
{
	static const mode_t modes[] = {04755, 02755, 06755, 06777, 07777, 04000, 02644};
	const struct fixture *fixture = *state;
	struct root root = fixture->root;
	struct stat st;

	assert_int_equal(mkdirat(fixture->ws, "group", 0755), 0);
	assert_int_equal(fchmodat(fixture->ws, "group", 02755, 0), 0);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(modes); i++) {
		mode_t mode = modes[i / 2] | 0600;

		root.proc_self_fd = i % 2 ? -1 : fixture->root.proc_self_fd;
		put_file(fixture->ws, "file", "old\n");
		assert_int_equal(fchmodat(fixture->ws, "file", mode, 0), 0);
		assert_written(fixture, &root, "file", "file", false);
		assert_int_equal(fstatat(fixture->ws, "file", &st, 0), 0);
		assert_int_equal(st.st_mode & 07777, mode & 01777);
		assert_written(fixture, &root, "group/new", "group/new", true);
		assert_int_equal(fstatat(fixture->ws, "group/new", &st, 0), 0);
		assert_int_equal(st.st_mode & 07777, 0644);
		assert_int_equal(unlinkat(fixture->ws, "group/new", 0), 0);
	}
}

static struct file_write *begin(const struct root *root, const char *path, uint64_t call)
{
	const struct files_write request = {
		.path = text_from(path), .size = 3, .create_dirs = true, .durable = true};
	struct file_write *staged = NULL;

	assert_int_equal(file_write_begin(root, &request, call, &staged), 0);
	file_write_append(staged, "new", 3);
	return staged;
}

static enum tool_error commit(struct file_write *staged, uint64_t call)
{
	struct answer answer;
	enum tool_error error;

	answer_begin(&answer, call);
	file_write_commit(staged, answer.reply);
	file_write_free(staged);
	answer_parse(&answer, call);
	error = answer.end.error;
	answer_done(&answer);
	return error;
}

/* Paths deeper than the limit, and the errors of each. */
static void fail_in_new_directories(const struct fixture *fixture, const struct root *root)
{
	char deep[2 * LIMIT_PATH_DEPTH + 64] = "kept/";
	struct answer answer;

	write_announced(root, "a/b/c/file", TEXT_LITERAL("1234"), 5, &answer);
	assert_error(&answer, TOOL_EXECUTION_ERROR);
	answer_done(&answer);
	file_write_free(begin(root, "a/b/c/file", CALL)); /* cancelled */
	file_write_free(begin(root, "./kept//a/./b/file", CALL));
	for (size_t i = 0; i < LIMIT_PATH_DEPTH + 10; i++)
		strcat(deep, "d/");
	strcat(deep, "file");
	assert_refused(root, deep, TOOL_NAME_TOO_LONG);
	assert_refused(root, deep + strlen("kept/"), TOOL_NAME_TOO_LONG);
	assert_refused(root, "closed/a/b/file", TOOL_PERMISSION_DENIED);
	assert_int_equal(count_entries(fixture->ws), 2);
}

/* A failing write removes the directories that it has made. */
TEST(test_directories_taken_back)
{
	const struct fixture *fixture = *state;
	struct root root = fixture->root;
	_cleanup_close_ int kept = -1;

	assert_int_equal(mkdirat(fixture->ws, "kept", 0755), 0);
	assert_int_equal(mkdirat(fixture->ws, "closed", 0555), 0);
	kept = openat(fixture->ws, "kept", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fail_in_new_directories(fixture, &root);
	assert_int_equal(count_entries(kept), 0);
	root.proc_self_fd = -1;
	fail_in_new_directories(fixture, &root);
	assert_int_equal(count_entries(kept), 0);
	assert_written(fixture, &root, "kept/a/file", "kept/a/file", true);
}

/* It removes no directory that is not empty, or was renamed or replaced. */
TEST(test_directories_of_others_stay)
{
	const struct fixture *fixture = *state;
	const struct root *root = &fixture->root;
	struct file_write *staged;

	staged = begin(root, "a/b/c/file", CALL);
	put_file(fixture->ws, "a/b/theirs", "theirs");
	file_write_free(staged);
	assert_true(exists_at(fixture->ws, "a/b/theirs"));
	assert_false(exists_at(fixture->ws, "a/b/c"));

	staged = begin(root, "e/f/g/file", CALL);
	assert_int_equal(renameat(fixture->ws, "e/f", fixture->ws, "moved"), 0);
	assert_int_equal(mkdirat(fixture->ws, "e/f", 0755), 0);
	assert_int_equal(mkdirat(fixture->ws, "e/f/g", 0755), 0);
	file_write_free(staged);
	assert_true(exists_at(fixture->ws, "e/f/g"));
	assert_true(exists_at(fixture->ws, "moved/g"));

	staged = begin(root, "h/i/file", CALL);
	assert_int_equal(renameat(fixture->ws, "h/i", fixture->ws, "h/was"), 0);
	put_link(fixture->ws, "h/i", fixture->base, "/outside");
	file_write_free(staged);
	assert_true(exists_at(fixture->ws, "h/was"));
	assert_outside_untouched(fixture);
}

/* Two writes use one new directory and the first fails: the second makes the directory again. */
TEST(test_directory_of_two_writes)
{
	const struct fixture *fixture = *state;
	struct file_write *first, *second;

	for (int i = 0; i < 2; i++) {
		first = begin(&fixture->root, "new/deep/one", CALL);
		second = begin(&fixture->root, i ? "new/two" : "new/deep/two", CALL + 1);
		file_write_free(first);
		assert_int_equal(commit(second, CALL + 1), TOOL_OK);
		assert_string_equal(get_file(fixture->ws, i ? "new/two" : "new/deep/two"), "new");
		(void)unlinkat(fixture->ws, "new/deep/two", 0);
		(void)unlinkat(fixture->ws, "new/two", 0);
		(void)unlinkat(fixture->ws, "new/deep", AT_REMOVEDIR);
		assert_int_equal(unlinkat(fixture->ws, "new", AT_REMOVEDIR), 0);
	}
}

/* The workspace's directory was removed on the host: the sentence says so. */
TEST(test_root_removed)
{
	static const char *const paths[] = {"file", "a/b/file"};
	const struct fixture *fixture = *state;
	struct root root = fixture->root;
	struct answer answer;
	const char *said;

	assert_int_equal(unlinkat(fixture->base_fd, "ws", AT_REMOVEDIR), 0);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(paths); i++) {
		root.proc_self_fd = i % 2 ? -1 : fixture->root.proc_self_fd;
		write_announced(&root, paths[i / 2], TEXT_LITERAL("x"), 1, &answer);
		assert_error(&answer, TOOL_NOT_FOUND);
		said = answer.end.message.data ? answer.end.message.data : "";
		assert_non_null(memmem(said, answer.end.message.len, "removed from the host", 21));
		answer_done(&answer);
	}
	assert_int_equal(mkdirat(fixture->base_fd, "ws", 0755), 0);
}

/* A file that a tenant creates under the temporary name is neither written to nor in the way. */
TEST(test_temporary_taken)
{
	const struct fixture *fixture = *state;
	struct root root = fixture->root;

	put_file(fixture->ws, "file", "old\n");
	put_link(fixture->ws, TEMPORARY, fixture->base, "/outside/secret");
	assert_written(fixture, &root, "file", "file", false);
	root.proc_self_fd = -1;
	put_link(fixture->ws, TEMPORARY, fixture->base, "/outside/secret");
	assert_written(fixture, &root, "file", "file", false);
	put_link(fixture->ws, TEMPORARY, fixture->base, "/outside/new");
	assert_written(fixture, &root, "new", "new", true);
	assert_outside_untouched(fixture);
}

/* A file appears between begin and commit: it is replaced without an error. */
TEST(test_appears_meanwhile)
{
	const struct fixture *fixture = *state;
	const struct files_write request = {
		.path = TEXT_LITERAL("file"), .size = 1, .create_dirs = true, .durable = true};
	struct file_write *staged = NULL;
	struct answer answer;

	for (int i = 0; i < 3; i++) {
		answer_begin(&answer, CALL);
		assert_int_equal(file_write_begin(&fixture->root, &request, CALL, &staged), 0);
		file_write_append(staged, "n", 1);
		unlinkat(fixture->ws, "file", 0);
		if (i == 0)
			put_file(fixture->ws, "file", "old");
		else if (i == 1)
			assert_int_equal(mkdirat(fixture->ws, "file", 0755), 0);
		else
			put_link(fixture->ws, "file", fixture->base, "/outside/secret");
		file_write_commit(staged, answer.reply);
		file_write_free(staged);
		answer_parse(&answer, CALL);
		assert_error(&answer, i == 0 ? TOOL_OK : i == 1 ? TOOL_IS_A_DIRECTORY : TOOL_BUSY);
		answer_done(&answer);
		if (i == 0)
			assert_string_equal(get_file(fixture->ws, "file"), "n");
		unlinkat(fixture->ws, "file", i == 1 ? AT_REMOVEDIR : 0);
		assert_int_equal(count_entries(fixture->ws), 0);
	}
	assert_outside_untouched(fixture);
}

/* Directories and links change places all the time. */
TEST(test_attacked)
{
	static const char *const paths[] = {"swap/new", "swap/secret", "evil/new", "target",
		"absroot/swap/deeper/new", "absroot/target", "m/a/../../swap/x"};
	const struct fixture *fixture = *state;
	struct root root = fixture->root;
	struct swapper directories, files, depths;
	const size_t enough = rounds(500, 20000);
	size_t written = 0;
	bool created;

	assert_int_equal(mkdirat(fixture->ws, "swap", 0755), 0);
	put_link(fixture->ws, "evil", fixture->base, "/outside");
	put_file(fixture->ws, "target", "inside\n");
	put_link(fixture->ws, "evilfile", fixture->base, "/outside/secret");
	put_link(fixture->ws, "absroot", fixture->visible, "");
	assert_int_equal(mkdirat(fixture->ws, "m", 0755), 0);
	assert_int_equal(mkdirat(fixture->ws, "m/a", 0755), 0);
	assert_int_equal(mkdirat(fixture->ws, "moved", 0755), 0);
	swapper_start(&directories, fixture->ws, "swap", "evil");
	swapper_start(&files, fixture->ws, "target", "evilfile");
	swapper_start(&depths, fixture->ws, "m/a", "moved");
	for (size_t i = 0; written < enough; i++) {
		root.proc_self_fd = i & 8 ? -1 : fixture->root.proc_self_fd;
		if (write_text(&root, paths[i % ARRAY_SIZE(paths)], "tenant\n", &created) ==
			TOOL_OK)
			written++;
	}
	swapper_stop(&directories);
	swapper_stop(&files);
	swapper_stop(&depths);
	assert_outside_untouched(fixture);
	assert_false(exists_at(fixture->ws, TEMPORARY));
}
