// SPDX-License-Identifier: Apache-2.0
/* links: cloister-worker-core */
/* A command init without a reader, and one without a command. Needs root, or skips. */
#include "tests/lib/unit.h"
#include "worker/commands/command_init.h"
#include "worker/commands/command_ruleset.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>

#define CALL 77

struct fixture {
	struct command_init init;
	struct command_report *report;
	int up[2];
	int null_fd;
};

static char *const no_env[] = {NULL};
static const struct command_ruleset no_ruleset;

static void prepare(struct fixture *f)
{
	sigset_t all;

	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		skip();
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	f->report = mmap(NULL, sizeof(*f->report), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(f->report != MAP_FAILED);
	f->init.report = f->report;
	f->init.ruleset = &no_ruleset;
	f->init.stack = aligned_alloc(65536, COMMAND_INIT_STACK);
	assert_int_equal(pipe2(f->up, O_CLOEXEC), 0);
	f->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	f->init.start = (struct command_start){
		.command = "exit 0",
		.env = no_env,
		.fds = {f->null_fd, f->null_fd, f->null_fd, -1},
		.cgroup_fd = -1,
		.call = CALL,
		.report_fd = f->up[1],
	};
}

static void finish(struct fixture *f)
{
	int status;

	assert_int_equal(waitpid(f->init.pid, &status, 0), f->init.pid);
	free(f->init.stack);
}

TEST(test_what_could_not_be_reported_is_not_reported)
{
	struct fixture f = {0};

	prepare(&f);
	close(f.up[0]);
	assert_int_equal(command_init_make(&f.init), 0);
	command_init_go(&f.init);
	finish(&f);
	assert_int_equal(atomic_load(&f.report->over), 1);
	assert_int_equal(f.report->ended.end, COMMAND_END_EXIT);
	/* The worker must report it. */
	assert_int_equal(atomic_load(&f.report->reported), 0);
}

/* An entry is reused and still holds its last report. */
TEST(test_an_init_without_a_command_reports_nothing)
{
	char bytes[256];
	struct fixture f = {0};

	if (!COMMAND_INIT_SHARES_MEMORY)
		skip();
	prepare(&f);
	/* No /proc can be mounted in the init's namespace. */
	assert_int_equal(chroot("/dev/shm"), 0);
	assert_int_equal(command_init_make(&f.init), 0);
	finish(&f);
	fcntl(f.up[0], F_SETFL, O_NONBLOCK);
	assert_true(read(f.up[0], bytes, sizeof(bytes)) < 0);
	assert_int_equal(atomic_load(&f.report->reported), 0);
	assert_false(command_init_go(&f.init));
}
