/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/* What other processes do in the instant of an exchange. This program's own renameat2() stops an
 * edit there, and a child does what another cloister instance or a program of the tenant would do.
 */
#include "worker/files/file_exchange.h"

#include "worker/files/file_sweep.h"
#include "worker/files/file_write.h"
#include "worker/files/walk/dir_marks.h"
#include "worker/files/walk/file_source.h"

#include <sys/syscall.h>

#include "tests/lib/files_fixture.h"
#include "tests/lib/unit.h"

#define CALL       0x2a
#define OTHER_CALL 0x77
#define TEMPORARY  ".cloister-000000000000002a"

static struct fixture *at; /* where the hooks work */
static void (*before_exchange)(void);
static void (*after_exchange)(void);
static void (*before_unlink)(void);

/* Each hook runs once. */
static void run_hook(void (**hook)(void))
{
	void (*act)(void) = *hook;

	*hook = NULL;
	if (act)
		act();
}

int renameat2(int old_dir, const char *old_name, int new_dir, const char *new_name, unsigned flags)
{
	long r;

	if (flags & RENAME_EXCHANGE)
		run_hook(&before_exchange);
	r = syscall(SYS_renameat2, old_dir, old_name, new_dir, new_name, flags);
	if (r == 0 && flags & RENAME_EXCHANGE)
		run_hook(&after_exchange);
	return (int)r;
}

int unlinkat(int dir, const char *name, int flags)
{
	run_hook(&before_unlink);
	return (int)syscall(SYS_unlinkat, dir, name, flags);
}

/* Adds @line to the file as an edit does: it replaces only what it has read. */
static enum tool_error add_line(const struct root *root, uint64_t call, const char *line)
{
	struct file_source source = FILE_SOURCE_NONE;
	struct file_write *staged = NULL;
	struct files_write request = {.path = TEXT_LITERAL("file")};
	enum tool_error error;

	source.fd = openat(at->ws, "file", O_RDONLY | O_CLOEXEC);
	assert_true(source.fd >= 0);
	assert_int_equal(file_source_read(&source), 0);
	request.size = source.len + strlen(line);
	assert_int_equal(file_write_begin(root, &request, call, &staged), 0);
	file_write_expect(staged, source.fd, file_source_text(&source));
	file_write_append(staged, source.content, source.len);
	file_write_append(staged, line, strlen(line));
	error = file_write_publish(staged);
	file_write_free(staged);
	file_source_done(&source);
	return error;
}

/* Runs @act in a child, which is another process to leases and marks. Returns its exit status. */
static int in_child(int (*act)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(act());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int sweep(void)
{
	file_sweep(&at->root, &(struct files_sweep){0}, &(struct files_end){0});
	return 0;
}

static void sweep_now(void)
{
	assert_int_equal(in_child(sweep), 0);
}

static int edit_too(void)
{
	struct root root = at->root;

	root.proc_self_fd = -1; /* it is the parent's */
	return (int)add_line(&root, OTHER_CALL, "other\n");
}

/* What another instance's edit answered when it came in the middle of the exchange. */
static enum tool_error other_error;

static void edit_now(void)
{
	other_error = (enum tool_error)in_child(edit_too);
}

/* As mv(1) of a tenant. */
static void move_now(void)
{
	put_file(at->ws, "moved", "moved\n");
	assert_int_equal(renameat(at->ws, "moved", at->ws, "file"), 0);
}

static void assert_file(const char *content)
{
	assert_string_equal(get_file(at->ws, "file"), content);
	assert_int_equal(count_entries(at->ws), 1);
}

static void begin(void **state, void (*before)(void), void (*after)(void))
{
	at = *state;
	put_file(at->ws, "file", "first\n");
	before_exchange = before;
	after_exchange = after;
}

/* As on a file system with O_TMPFILE, and on one without. */
static struct root roots(int i)
{
	struct root root = at->root;

	if (i > 0)
		root.proc_self_fd = -1;
	return root;
}

GROUP_FIXTURE(fixture_leave_root, NULL)

FIXTURE(fixture_setup, fixture_teardown)

/* A workspace that is opened in the middle of an exchange is swept. */
TEST(test_swept_meanwhile)
{
	for (int i = 0; i < 2; i++) {
		begin(state, NULL, sweep_now);
		struct root root = roots(i);

		assert_int_equal(add_line(&root, CALL, "mine\n"), TOOL_OK);
		assert_null(after_exchange);
		assert_file("first\nmine\n");
	}
}

/* The sweep would remove what a program has just written, and the exchange has taken out. */
TEST(test_swept_while_a_file_is_put_back)
{
	for (int i = 0; i < 2; i++) {
		begin(state, move_now, sweep_now);
		struct root root = roots(i);

		assert_int_equal(add_line(&root, CALL, "mine\n"), TOOL_STALE_FILE);
		assert_null(after_exchange);
		assert_file("moved\n");
	}
}

/* An edit that read what is about to be taken back would take away what is put back, and be told
 * that it has succeeded. */
TEST(test_edited_while_a_file_is_put_back)
{
	begin(state, move_now, edit_now);
	assert_int_equal(add_line(&at->root, CALL, "mine\n"), TOOL_STALE_FILE);
	assert_null(after_exchange);
	assert_string_equal(tool_error_name(other_error), "BUSY");
	assert_file("moved\n");
	assert_int_equal(in_child(edit_too), TOOL_OK);
	assert_file("moved\nother\n");
}

/* Edits of other files do not wait, and a turn ends with its edit. */
TEST(test_turns)
{
	at = *state;
	int marks = dir_mark_call(at->ws, CALL), other = dir_mark_call(at->root.fd, OTHER_CALL);

	assert_true(marks >= 0 && other >= 0);
	assert_int_equal(dir_take_turn(marks, "file", CALL), 0);
	assert_int_equal(dir_take_turn(other, "file", OTHER_CALL), -ETIME);
	assert_int_equal(dir_take_turn(other, "another", OTHER_CALL), 0);
	dir_end_turn(marks, "file");
	assert_int_equal(dir_take_turn(other, "file", OTHER_CALL), 0);
	close(other);
	assert_int_equal(dir_take_turn(marks, "another", CALL), 0);
	close(marks);
}

/* Whoever can read the directory can delay edits there, and do no more. */
TEST(test_a_mere_reader)
{
	struct flock all = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	int reader;

	begin(state, NULL, NULL);
	reader = openat(at->ws, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(fcntl(reader, F_OFD_SETLK, &all), 0);
	assert_int_equal(add_line(&at->root, CALL, "mine\n"), TOOL_BUSY);
	assert_file("first\n");
	close(reader);
	assert_int_equal(add_line(&at->root, CALL, "mine\n"), TOOL_OK);
	assert_file("first\nmine\n");
}

/* What a death has left is removed: its marks are gone. */
TEST(test_marks)
{
	at = *state;
	int marks = dir_mark_call(at->ws, CALL);

	assert_true(marks >= 0);
	assert_true(dir_has_call(at->ws, CALL));
	assert_false(dir_has_call(at->ws, OTHER_CALL));
	put_file(at->ws, TEMPORARY, "left\n");
	sweep_now();
	assert_true(exists_at(at->ws, TEMPORARY));
	close(marks);
	assert_false(dir_has_call(at->ws, CALL));
	sweep_now();
	assert_false(exists_at(at->ws, TEMPORARY));
}

/* A directory that cannot be read has no marks; its files can be edited all the same. */
TEST(test_unreadable_directory)
{
	begin(state, NULL, NULL);
	assert_int_equal(fchmod(at->ws, 0300), 0);
	assert_int_equal(dir_mark_call(at->ws, CALL), -EOPNOTSUPP);
	assert_int_equal(add_line(&at->root, CALL, "mine\n"), TOOL_OK);
	assert_int_equal(fchmod(at->ws, 0755), 0);
	assert_file("first\nmine\n");
}

static int open_for_writing(void)
{
	const int fd = openat(at->ws, TEMPORARY, O_WRONLY | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 && errno == EWOULDBLOCK;
}

static void break_lease(void)
{
	assert_true(in_child(open_for_writing));
}

/* Another process opens the file that the sweep has a lease on. */
TEST(test_a_lease_that_is_broken)
{
	at = *state;
	put_file(at->ws, TEMPORARY, "left\n");
	before_unlink = break_lease;
	assert_int_equal(in_child(sweep), 0);
	assert_false(exists_at(at->ws, TEMPORARY));
	before_unlink = NULL;
}
