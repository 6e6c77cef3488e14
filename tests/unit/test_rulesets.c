/* links: cloister-supervisor cloister-worker-core cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/* Landlock alone: each attempt is made under one process's ruleset and no other confinement, in a
 * child that runs as the user of the test, perhaps root. Skips on a kernel without Landlock. */
#include "common/landlock.h"
#include "supervisor/host/lockdown.h"
#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"
#include "worker/commands/command_ruleset.h"
#include "worker/confine.h"
#include "worker/files/files_confine.h"

#include <sys/syscall.h>
#include <sys/un.h>

#define NAMES_BYTES 64

/* Has "in", where more is allowed, and "out"; both hold "file" and "dir". */
static struct scratch scratch;

static int set_up(void **state)
{
	(void)state;
	setenv("TMPDIR", "/tmp", 1); /* stand() takes only this from what commands may write */
	scratch = scratch_new();
	scratch_text(&scratch, "in/file", "");
	scratch_text(&scratch, "out/file", "");
	scratch_parents(&scratch, "in/dir/");
	scratch_parents(&scratch, "out/dir/");
	return fchmodat(scratch.fd, "in/file", 0755, 0) |
	       fchmodat(scratch.fd, "out/file", 0755, 0) | chdir(scratch.path);
}

static int tear_down(void **state)
{
	(void)state;
	scratch_done(&scratch);
	return 0;
}

/* Attempts: 0 or -errno. */

static int try_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static int result(long r)
{
	return r < 0 ? -errno : 0;
}

static int read_in(void)
{
	return try_open("in/file", O_RDONLY);
}

static int read_out(void)
{
	return try_open("out/file", O_RDONLY);
}

static int list_out(void)
{
	return try_open("out", O_RDONLY | O_DIRECTORY);
}

static int hold_out(void)
{
	return try_open("out", O_PATH | O_DIRECTORY);
}

static int write_in(void)
{
	return try_open("in/file", O_WRONLY | O_TRUNC);
}

static int write_out(void)
{
	return try_open("out/file", O_WRONLY);
}

static int truncate_out(void)
{
	return result(truncate("out/file", 0));
}

static int make_in(void)
{
	int r = try_open("in/new", O_WRONLY | O_CREAT | O_EXCL);

	return r < 0 ? r : result(unlink("in/new"));
}

static int make_out(void)
{
	return try_open("out/new", O_WRONLY | O_CREAT | O_EXCL);
}

static int make_directory_in(void)
{
	return mkdir("in/d", 0755) < 0 ? -errno : result(rmdir("in/d"));
}

static int make_directory_out(void)
{
	return result(mkdir("out/d", 0755));
}

static int remove_out(void)
{
	return result(unlink("out/file"));
}

static int move_out(void)
{
	return result(rename("in/file", "out/moved"));
}

static int move_in(void)
{
	return rename("in/file", "in/dir/file") < 0 ? -errno
						    : result(rename("in/dir/file", "in/file"));
}

static int link_in(void)
{
	return symlink("x", "in/link") < 0 ? -errno : result(unlink("in/link"));
}

static int make_fifo_in(void)
{
	return mkfifo("in/fifo", 0644) < 0 ? -errno : result(unlink("in/fifo"));
}

/* Makes a whiteout, the only device that needs no privilege. */
static int make_device_in(void)
{
	return mknod("in/node", S_IFCHR | 0644, 0) < 0 ? -errno : result(unlink("in/node"));
}

/* ENOEXEC shows that it may be executed. */
static int execute_in(void)
{
	static char *const none[] = {NULL};

	return result(execve("in/file", none, none)) == -EACCES ? -EACCES : 0;
}

static int use_null(void)
{
	return try_open("/dev/null", O_WRONLY | O_TRUNC);
}

static int name_itself(void)
{
	return try_open("/proc/self/comm", O_WRONLY | O_TRUNC);
}

static int signal_parent(void)
{
	return result(kill(getppid(), 0));
}

/* The test listens at this name. */
static struct sockaddr_un abstract = {
	.sun_family = AF_UNIX, .sun_path = "\0cloister test_rulesets"};

static int connect_abstract(void)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return result(connect(fd, (struct sockaddr *)&abstract, sizeof(abstract)));
}

enum who {
	COMMAND = 1,
	FILES = 2,
	CLOISTERD = 4,
	ALL = COMMAND | FILES | CLOISTERD,
};

static const struct attempt {
	const char *name;
	int (*act)(void);
	unsigned may; /* bit mask of processes */
	int abi;      /* the ABI from which on the others may not; 0: any */
	int error;    /* the errno that they get; 0: EACCES */
} attempts[] = {
	{"read in it", read_in, COMMAND | FILES, 0, 0},
	{"read beside it", read_out, COMMAND | FILES, 0, 0},
	{"list beside it", list_out, COMMAND | FILES, 0, 0},
	{"hold a directory beside it", hold_out, ALL, 0, 0},
	{"write in it", write_in, COMMAND | FILES, 0, 0},
	{"write beside it", write_out, 0, 0, 0},
	{"truncate beside it", truncate_out, FILES, 3, 0},
	{"make a file in it", make_in, COMMAND | FILES, 0, 0},
	{"make a file beside it", make_out, 0, 0, 0},
	{"make a directory in it", make_directory_in, ALL, 0, 0},
	{"make a directory beside it", make_directory_out, 0, 0, 0},
	{"remove a file beside it", remove_out, 0, 0, 0},
	{"move a file out of it", move_out, 0, 2, EXDEV},
	{"move a file in it", move_in, COMMAND | FILES, 2, EXDEV},
	/* file.move may rename these; the filter of files processes lets none be made. */
	{"make a link in it", link_in, COMMAND | FILES, 0, 0},
	{"make a fifo in it", make_fifo_in, COMMAND | FILES, 0, 0},
	{"make a device in it", make_device_in, 0, 0, 0},
	{"execute in it", execute_in, COMMAND, 0, 0},
	{"use /dev/null", use_null, COMMAND, 0, 0},
	{"write to its own proc", name_itself, COMMAND, 0, 0},
	{"signal who is outside", signal_parent, CLOISTERD, 6, EPERM},
	{"connect to who is outside", connect_abstract, 0, 6, EPERM},
};

static int stand(enum who who)
{
	const struct lockdown_place place = {"in", LANDLOCK_ACCESS_FS_READ_DIR |
							   LANDLOCK_ACCESS_FS_MAKE_DIR |
							   LANDLOCK_ACCESS_FS_REMOVE_DIR};
	struct command_ruleset ruleset;
	int fd = -1;
	long r;

	if (who == CLOISTERD)
		return lockdown_ruleset(&place, 1);
	if (who == FILES)
		return files_ruleset_enforce(open("in", O_PATH | O_DIRECTORY | O_CLOEXEC));
	r = command_ruleset_prepare("in", "in", -1, &ruleset);
	/* Commands may write in /tmp, and here "out" lies in it. */
	for (unsigned i = 0; i < ruleset.n_rules; i++) {
		struct stat rule, tmp;

		if (fstat(ruleset.rules[i].parent_fd, &rule) == 0 && stat("/tmp", &tmp) == 0 &&
			rule.st_ino == tmp.st_ino && rule.st_dev == tmp.st_dev)
			ruleset.rules[i].allowed_access = RULESET_READ;
	}
	if (r == 0)
		r = command_ruleset_make(&ruleset, &fd);
	return r < 0 ? (int)r : landlock_ruleset_enforce(fd);
}

/* Returns the result of an attempt under the ruleset of @who, as a positive errno. */
static int outcome(const struct attempt *attempt, enum who who)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		if (confine_no_new_privs() < 0 || stand(who) < 0)
			_exit(255);
		_exit(-attempt->act());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void try_all(enum who who)
{
	int abi = landlock_abi();

	if (abi < RULESET_ABI_RENAMES)
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
		const struct attempt *attempt = &attempts[i];
		int wanted = attempt->may & who    ? 0
			     : abi < attempt->abi  ? 0
			     : attempt->error == 0 ? EACCES
						   : attempt->error;
		int got = outcome(attempt, who);

		if (attempt->error == EXDEV && wanted != 0 && got == EACCES)
			continue;
		if (got != wanted)
			fail_msg("%s: %s", attempt->name, strerror(got));
	}
}

static void test_commands(void **state)
{
	(void)state;
	try_all(COMMAND);
}

/* While the rules are prepared, ".." at the top leads to the host's root. */
static void test_commands_places_are_no_links(void **state)
{
	struct command_ruleset ruleset;

	(void)state;
	if (landlock_abi() < RULESET_ABI_RENAMES)
		skip();
	assert_int_equal(symlink("in", "link"), 0);
	assert_int_equal(command_ruleset_prepare("in", "link", -1, &ruleset), -ELOOP);
}

static void test_files_process(void **state)
{
	(void)state;
	try_all(FILES);
}

static void test_cloisterd(void **state)
{
	(void)state;
	try_all(CLOISTERD);
}

/* Each kernel is asked only for rights that its ABI knows; a newer kernel accepts the same. */
static void test_every_abi(void **state)
{
	const struct landlock_attr all = {
		RULESET_ALL, RULESET_NET, RULESET_SCOPE_SOCKETS | RULESET_SCOPE_SIGNALS};
	static const struct {
		uint64_t files;
		uint64_t net, scoped;
		size_t size;
	} known[] = {
		{0, 0, 0, 8},
		{0x1fff, 0, 0, 8},
		{0x3fff, 0, 0, 8},
		{0x7fff, 0, 0, 8},
		{0x7fff, 3, 0, 16},
		{0xffff, 3, 0, 16},
		{0xffff, 3, 3, 24},
		{0xffff, 3, 3, 24},
		{0xffff, 3, 3, 24},
	};

	(void)state;
	for (int abi = 1; abi < (int)ARRAY_SIZE(known); abi++) {
		size_t size;
		struct landlock_attr attr = landlock_attr_of(abi, all, &size);

		assert_int_equal(attr.files, known[abi].files);
		assert_int_equal(attr.net, known[abi].net);
		assert_int_equal(attr.scoped, known[abi].scoped);
		assert_int_equal(size, known[abi].size);
		if (abi <= landlock_abi()) {
			long fd = syscall(SYS_landlock_create_ruleset, &attr, size, 0);

			assert_true(fd >= 0);
			close((int)fd);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commands),
		cmocka_unit_test(test_commands_places_are_no_links),
		cmocka_unit_test(test_files_process),
		cmocka_unit_test(test_cloisterd),
		cmocka_unit_test(test_every_abi),
	};
	_cleanup_close_ int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(listener, (struct sockaddr *)&abstract, sizeof(abstract)) < 0 ||
		listen(listener, 64) < 0)
		return 1;
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
