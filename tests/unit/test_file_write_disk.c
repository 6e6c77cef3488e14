/* links: cloister-files-core PkgConfig::SECCOMP */
// SPDX-License-Identifier: Apache-2.0
/* Writing where the disk is full, has no inodes or fails: the old content stays. */
#include "worker/files/edit/file_edit.h"
#include "worker/files/edit/file_patch.h"
#include "worker/files/file_write.h"

#include <sched.h>
#include <seccomp.h>
#include <sys/mount.h>

#include "tests/lib/unit.h"
#include "tests/lib/write_fixture.h"

static void write_line(const char *path, const char *line)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	(void)!write(fd, line, strlen(line));
}

#define NO_TMPFS 77

/* Mounts a tmpfs with @options over "small", in own namespaces; false: not possible. */
static bool mount_small(const char *path, const char *options)
{
	char map[64];
	uid_t uid = getuid();

	snprintf(map, sizeof(map), "%d %d 1\n", (int)uid, (int)uid);
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return false;
	write_line("/proc/self/setgroups", "deny");
	write_line("/proc/self/uid_map", map);
	write_line("/proc/self/gid_map", map);
	return mount("tmpfs", path, "tmpfs", 0, options) == 0;
}

/* Runs in a child: a full disk keeps the old content and gets nothing new. */
static int fill_disk(const struct fixture *fixture)
{
	static char large[MIB];
	char path[128];
	int wrong = 0;

	snprintf(path, sizeof(path), "%s/small", fixture->visible);
	if (!mount_small(path, "size=256k"))
		return NO_TMPFS;
	for (int i = 0; i < 2; i++) {
		struct root root = fixture->root;
		_cleanup_close_ int small = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		struct answer answer;

		root.fd = open(fixture->visible, O_PATH | O_DIRECTORY | O_CLOEXEC);
		root.proc_self_fd =
			i == 0 ? open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
		put_file(small, "file", "old\n");
		write_announced(&root, "small/file", (struct text){large, sizeof(large)},
			sizeof(large), &answer);
		wrong += answer.end.error != TOOL_NO_SPACE || count_entries(small) != 1 ||
			 strcmp(get_file(small, "file"), "old\n") != 0;
		answer_done(&answer);
		close(root.fd);
	}
	return wrong;
}

/* Runs in a child: if there is space but no inode, the sentence says so, and no directory stays. */
static int use_up_inodes(const struct fixture *fixture)
{
	static const char *const paths[] = {"small/f", "small/a/b/c/f", "small/a/b/f"};
	char path[128];
	int wrong = 0;

	snprintf(path, sizeof(path), "%s/small", fixture->visible);
	/* The root takes one inode, and "file" another. */
	if (!mount_small(path, "size=1m,nr_inodes=4"))
		return NO_TMPFS;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct root root = fixture->root;
		_cleanup_close_ int small = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		struct answer answer;

		root.fd = open(fixture->visible, O_PATH | O_DIRECTORY | O_CLOEXEC);
		root.proc_self_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
		put_file(small, "file", "old\n");
		if (i != 1) {
			put_file(small, "file2", "");
			put_file(small, "file3", "");
		}
		write_announced(&root, paths[i], TEXT_LITERAL("x"), 1, &answer);
		wrong += answer.end.error != TOOL_NO_SPACE ||
			 !memmem(answer.end.message.data, answer.end.message.len, "inode", 5);
		unlinkat(small, "file2", 0);
		unlinkat(small, "file3", 0);
		wrong += count_entries(small) != 1;
		answer_done(&answer);
		close(root.fd);
		close(root.proc_self_fd);
	}
	return wrong;
}

static void in_small_tmpfs(
	const struct fixture *fixture, int (*function)(const struct fixture *fixture))
{
	int status;
	pid_t pid;

	assert_int_equal(mkdirat(fixture->ws, "small", 0755), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(function(fixture));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_TMPFS) {
		print_message("user namespaces are not allowed here: no small tmpfs\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

GROUP_FIXTURE(fixture_leave_root, NULL)

FIXTURE(fixture_setup, fixture_teardown)

TEST(test_disk_full)
{
	in_small_tmpfs(*state, fill_disk);
}

TEST(test_no_inodes)
{
	in_small_tmpfs(*state, use_up_inodes);
}

/* The results of replacing and of creating "file" if @syscall fails with @error_number. */
struct broken_case {
	int syscall, error_number;
	bool durable;
	enum tool_error error;
};

static int write_broken(const struct fixture *fixture, const struct broken_case *broken)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	const struct files_write request = {.path = TEXT_LITERAL("file"),
		.size = 3,
		.create_dirs = true,
		.durable = broken->durable};
	struct file_write *staged = NULL;
	struct root root = fixture->root;
	struct answer answer;

	/* The parent's descriptor would refer to the parent. */
	root.proc_self_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	answer_begin(&answer, CALL);
	if (file_write_begin(&root, &request, CALL, &staged) < 0)
		return 1;
	if (seccomp_rule_add(filter, SCMP_ACT_ERRNO((unsigned)broken->error_number),
		    broken->syscall, 0) < 0 ||
		seccomp_load(filter) < 0)
		return 2;
	file_write_append(staged, "new", 3);
	file_write_commit(staged, answer.reply);
	file_write_free(staged);
	if (broken->syscall == SCMP_SYS(write))
		/* the answer cannot be written either: the caller checks the file alone */
		return 0;
	answer_parse(&answer, CALL);
	if (answer.end.error != broken->error)
		fprintf(stderr, "%s\n", tool_error_name(answer.end.error));
	/* The sentence must be the errno's, as in tool_errno_sentence(). */
	if (answer.end.error != TOOL_OK &&
		!text_equal(
			answer.end.message, text_from(tool_errno_sentence(broken->error_number))))
		return 4;
	return answer.end.error == broken->error ? 0 : 3;
}

/* Disk errors have codes, the old content stays, and only durable writes wait. */
/* Forks, because a filter stays. False in the parent, when the child has exited with 0. */
static bool is_child(void)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		return true;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return false;
}

TEST(test_disk_errors)
{
	static const struct broken_case cases[] = {
		{SCMP_SYS(fsync), EIO, true, TOOL_EXECUTION_ERROR},
		{SCMP_SYS(fsync), ENOSPC, true, TOOL_NO_SPACE},
		{SCMP_SYS(fsync), EDQUOT, true, TOOL_QUOTA_EXCEEDED},
		{SCMP_SYS(fsync), EIO, false, TOOL_OK},
		{SCMP_SYS(linkat), EDQUOT, true, TOOL_QUOTA_EXCEEDED},
		{SCMP_SYS(linkat), ENOSPC, false, TOOL_NO_SPACE},
		{SCMP_SYS(linkat), EROFS, true, TOOL_PERMISSION_DENIED},
		{SCMP_SYS(renameat), EDQUOT, true, TOOL_QUOTA_EXCEEDED},
		{SCMP_SYS(renameat), EROFS, true, TOOL_PERMISSION_DENIED},
		{SCMP_SYS(renameat), EPERM, true, TOOL_PERMISSION_DENIED},
		{SCMP_SYS(renameat), EACCES, true, TOOL_PERMISSION_DENIED},
		{SCMP_SYS(renameat), EBUSY, true, TOOL_BUSY},
		{SCMP_SYS(renameat), ETXTBSY, true, TOOL_BUSY},
		{SCMP_SYS(renameat), ESTALE, true, TOOL_EXECUTION_ERROR},
		{SCMP_SYS(linkat), EMLINK, true, TOOL_NO_SPACE},
		{SCMP_SYS(linkat), EILSEQ, true, TOOL_INVALID_ARGUMENTS},
		{SCMP_SYS(linkat), ENOMEM, true, TOOL_EXECUTION_ERROR},
		{SCMP_SYS(linkat), ENAMETOOLONG, true, TOOL_NAME_TOO_LONG},
		{SCMP_SYS(linkat), ELOOP, true, TOOL_TOO_MANY_LINKS},
		{SCMP_SYS(write), EDQUOT, true, TOOL_QUOTA_EXCEEDED},
	};
	const struct fixture *fixture = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		put_file(fixture->ws, "file", "old");
		if (is_child())
			_exit(write_broken(fixture, &cases[i]));
		assert_string_equal(
			get_file(fixture->ws, "file"), cases[i].error == TOOL_OK ? "new" : "old");
		assert_int_equal(count_entries(fixture->ws), 1);
	}
}

/* Prepares a change of "file" that an earlier call may have made. Returns whether it is held. */
static bool hold(const struct root *root, unsigned kind, bool durable, bool look)
{
	static const char edit_body[] = "\0\3\0\0\0old\3\0\0\0new", patch_body[] = "D\4\0\0\0file";
	const struct files_write write = {.path = TEXT_LITERAL("file"),
		.size = 3,
		.durable = durable,
		.held = true,
		.look = look};
	const struct files_edit edit = {.path = TEXT_LITERAL("file"),
		.size = sizeof(edit_body) - 1,
		.durable = durable,
		.held = true,
		.look = look};
	const struct files_patch patch = {
		.size = sizeof(patch_body) - 1, .durable = durable, .held = true, .look = look};
	struct file_write *staged;
	struct file_edit *edited;
	struct file_patch *patched;
	struct answer answer;
	bool held;

	answer_begin(&answer, CALL);
	if (kind == 0 && file_write_begin(root, &write, CALL, &staged) == 0) {
		file_write_append(staged, "new", 3);
		held = file_write_hold(staged, answer.reply);
		file_write_free(staged);
		return held;
	}
	if (kind == 1 && file_edit_begin(root, &edit, CALL, &edited) == 0) {
		file_edit_append(edited, edit_body, sizeof(edit_body) - 1);
		held = file_edit_hold(edited, answer.reply);
		file_edit_free(edited);
		return held;
	}
	if (kind != 2 || file_patch_begin(root, &patch, CALL, &patched) < 0)
		_exit(9);
	file_patch_append(patched, patch_body, sizeof(patch_body) - 1);
	held = file_patch_hold(patched, answer.reply);
	file_patch_free(patched);
	return held;
}

/* In a child: of what is looked at for a durable call, nothing is told before the disk has it. */
static int hold_broken(const struct fixture *fixture, unsigned kind)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	struct root root = fixture->root;

	root.proc_self_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (!hold(&root, kind, true, true))
		return 1;
	if (seccomp_rule_add(filter, SCMP_ACT_ERRNO(EIO), SCMP_SYS(fsync), 0) < 0 ||
		seccomp_load(filter) < 0)
		return 2;
	if (hold(&root, kind, true, true))
		return 3;
	if (!hold(&root, kind, false, true))
		return 4;
	/* A patch writes its new files to disk before it is held; one that deletes has none. */
	return hold(&root, kind, true, false) ? 0 : 5;
}

TEST(test_what_is_found_is_on_the_disk)
{
	const struct fixture *fixture = *state;

	for (unsigned kind = 0; kind < 3; kind++) {
		put_file(fixture->ws, "file", "old");
		if (is_child())
			_exit(hold_broken(fixture, kind));
		assert_string_equal(get_file(fixture->ws, "file"), "old");
	}
}
