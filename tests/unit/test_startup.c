/* links: cloister-supervisor */
/* fakes: child */
// SPDX-License-Identifier: Apache-2.0
/* What cloisterd takes, gives up and sets before lock-down. Each case is tried in a child; the
 * accounts, and whether root is the host's, are the test's. */
#include "supervisor/host/startup.h"

#include "common/host_root.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/child.h"

#include <grp.h>
#include <pwd.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#define USER  40001
#define GROUP 40002

/* The host that the test plays. */
static struct {
	uid_t euid; /* UINT32_MAX: the kernel's */
	bool host_root;
	int nice, set_nice; /* INT32_MIN: it was not set */
	bool leads_session;
	int autogroup[2]; /* a pipe in place of its file; -1: it cannot be opened */
	unsigned busy;    /* after how many pauses the pipe, which is full, is empty */
	unsigned pauses;
} host;

static char full[65536]; /* what fills the pipe */

static int reset(void **state)
{
	(void)state;
	host.euid = UINT32_MAX;
	host.host_root = true;
	host.set_nice = INT32_MIN;
	host.leads_session = false;
	host.autogroup[0] = host.autogroup[1] = -1;
	host.busy = host.pauses = 0;
	return 0;
}

FIXTURE(reset, NULL)

/* Replaces common/host_root.c. */
bool host_root_is_us(void)
{
	return host.host_root;
}

/* Replace the C library's. */

uid_t geteuid(void)
{
	return host.euid == UINT32_MAX ? (uid_t)syscall(SYS_geteuid) : host.euid;
}

struct passwd *getpwnam(const char *name)
{
	static char user_name[] = "cloister-test", root_name[32] = "toor", home[] = "/nowhere";
	static struct passwd user = {
		.pw_name = user_name, .pw_uid = USER, .pw_gid = GROUP, .pw_dir = home};
	static struct passwd root = {.pw_name = root_name, .pw_dir = home};

	return strcmp(name, user_name) == 0 ? &user : strcmp(name, root_name) == 0 ? &root : NULL;
}

struct passwd *getpwuid(uid_t uid)
{
	return uid == USER ? getpwnam("cloister-test") : NULL;
}

int initgroups(const char *name, gid_t group)
{
	const gid_t groups[] = {group, GROUP + 1};

	CHECK(strcmp(name, "cloister-test") == 0);
	return setgroups(ARRAY_SIZE(groups), groups);
}

int getpriority(__priority_which_t which, id_t who)
{
	assert_true(which == PRIO_PROCESS && who == 0);
	return host.nice;
}

int setpriority(__priority_which_t which, id_t who, int nice)
{
	assert_true(which == PRIO_PROCESS && who == 0);
	host.set_nice = nice;
	return 0;
}

pid_t getsid(pid_t pid)
{
	assert_int_equal(pid, 0);
	return getpid() + !host.leads_session;
}

int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list rest;

	if (strcmp(path, "/proc/self/autogroup") == 0) {
		assert_int_equal(flags & O_ACCMODE, O_WRONLY);
		return fcntl(host.autogroup[1], F_DUPFD_CLOEXEC, 0);
	}
	va_start(rest, flags);
	if (flags & O_CREAT)
		mode = va_arg(rest, mode_t);
	va_end(rest);
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
	(void)left;
	assert_in_range(time->tv_nsec, 100000000, 200000000);
	if (++host.pauses == host.busy)
		assert_true(read(host.autogroup[0], full, sizeof(full)) > 0);
	return 0;
}

static void runs(void (*act)(const void *row), const void *row, size_t number)
{
	const int status = child_run(act, row);

	if (status != 0)
		fail_msg("row %zu: status %x", number, status);
}

/* Root. */

struct leaving {
	uid_t euid;
	bool host_root;
	const char *user; /* NULL: none is configured */
	bool keep_mapping;
	int result;
	const char *message; /* what it says, among others */
};

static void leave(const void *row)
{
	const struct leaving *leaving = row;
	const char *message = "";
	uid_t ids[3] = {0}, before = getuid();

	host.euid = leaving->euid;
	host.host_root = leaving->host_root;
	CHECK(startup_leave_root(leaving->user, leaving->keep_mapping, &message) ==
		leaving->result);
	CHECK(strstr(message, leaving->message) != NULL);
	CHECK(leaving->result < 0 || *message == '\0');
	CHECK(getresuid(&ids[0], &ids[1], &ids[2]) == 0);
	CHECK(ids[0] == before && ids[2] == before);
}

/* Who has to be root for what, and who must not. */
TEST(test_who_may_be_root)
{
	enum { HOST = true, CONTAINER = false, SYSTEM = true, OWN = false };
	static const struct leaving rows[] = {
		{1000, HOST, NULL, OWN, 0, ""},
		{1000, HOST, "cloister-test", SYSTEM, 0, ""},
		{1000, HOST, "missing", OWN, 0, ""},
		{0, HOST, NULL, OWN, -EPERM, "--user NAME"},
		{0, HOST, NULL, SYSTEM, -EPERM, "--user NAME"},
		{0, HOST, "missing", OWN, -EINVAL, "no such user"},
		{0, HOST, "toor", OWN, -EINVAL, "must not be root"},
		{0, HOST, "toor", SYSTEM, -EINVAL, "must not be root"},
		{0, CONTAINER, NULL, OWN, 0, ""},
		{0, CONTAINER, NULL, SYSTEM, -EPERM, "user = in the configuration"},
		{0, CONTAINER, "toor", OWN, -EINVAL, "must not be root"},
		{0, CONTAINER, "missing", SYSTEM, -EINVAL, "no such user"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		runs(leave, &rows[i], i);
}

static bool has_capability(cap_t caps, cap_value_t value, cap_flag_t flag)
{
	cap_flag_value_t set;

	CHECK(cap_get_flag(caps, value, flag, &set) == 0);
	return set == CAP_SET;
}

static void become(const void *row)
{
	const bool keep = *(const bool *)row;
	const char *message = "";
	gid_t groups[8];
	uid_t uids[3];
	gid_t gids[3];
	cap_t caps;

	setenv("HOME", "/root", 1);
	setenv("XDG_RUNTIME_DIR", "/run/user/0", 1);
	setenv("XDG_STATE_HOME", "/root/.state", 1);
	CHECK(startup_leave_root("cloister-test", keep, &message) == 0);
	CHECK(getresuid(&uids[0], &uids[1], &uids[2]) == 0);
	CHECK(getresgid(&gids[0], &gids[1], &gids[2]) == 0);
	CHECK(uids[0] == USER && uids[1] == USER && uids[2] == USER);
	CHECK(gids[0] == GROUP && gids[1] == GROUP && gids[2] == GROUP);
	/* None of root's groups is left. */
	CHECK(getgroups(ARRAY_SIZE(groups), groups) == 2);
	CHECK(groups[0] + groups[1] == GROUP + GROUP + 1);
	CHECK(strcmp(getenv("HOME"), "/nowhere") == 0);
	CHECK(!getenv("XDG_RUNTIME_DIR") && !getenv("XDG_STATE_HOME"));
	caps = cap_get_proc();
	for (cap_value_t value = 0; value <= CAP_LAST_CAP; value++) {
		const bool kept = keep && (value == CAP_SETUID || value == CAP_SETGID);

		CHECK(has_capability(caps, value, CAP_PERMITTED) == kept);
		CHECK(has_capability(caps, value, CAP_EFFECTIVE) == kept);
		CHECK(!has_capability(caps, value, CAP_INHERITABLE));
	}
	cap_free(caps);
	/* There is no way back, but for the capabilities that were to be kept. */
	if (!keep)
		CHECK(setresuid(0, 0, 0) < 0 && setgroups(0, NULL) < 0);
}

static void lack_setgid(const void *row)
{
	const char *message = "";
	cap_t caps = cap_get_proc();
	const cap_value_t lacking = *(const cap_value_t *)row;

	CHECK(cap_set_flag(caps, CAP_EFFECTIVE, 1, &lacking, CAP_CLEAR) == 0);
	CHECK(cap_set_flag(caps, CAP_PERMITTED, 1, &lacking, CAP_CLEAR) == 0);
	CHECK(cap_set_proc(caps) == 0);
	cap_free(caps);
	CHECK(startup_leave_root("cloister-test", true, &message) == -EPERM);
	CHECK(strstr(message, "CAP_SETUID and CAP_SETGID") != NULL);
}

TEST(test_root_becomes_the_user)
{
	static const bool keeps[] = {false, true};
	static const cap_value_t lacking[] = {CAP_SETUID, CAP_SETGID};

	if (syscall(SYS_geteuid) != 0)
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(keeps); i++)
		runs(become, &keeps[i], i);
	for (size_t i = 0; i < ARRAY_SIZE(lacking); i++)
		runs(lack_setgid, &lacking[i], i);
}

/* Signals. */

static void on_signal(int number)
{
	(void)number;
}

static void reset_signals(const void *row)
{
	struct sigaction action;
	sigset_t all, now;

	(void)row;
	signal(SIGCHLD, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGUSR1, on_signal);
	signal(SIGRTMAX, SIG_IGN);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	startup_reset_signals();
	for (int number = 1; number <= SIGRTMAX; number++)
		if (sigaction(number, NULL, &action) == 0)
			CHECK(action.sa_handler == SIG_DFL);
	CHECK(sigprocmask(SIG_SETMASK, NULL, &now) == 0);
	for (int number = 1; number <= SIGRTMAX; number++)
		CHECK(sigismember(&now, number) != 1);
}

TEST(test_no_signal_of_the_launcher_is_left)
{
	runs(reset_signals, NULL, 0);
}

/* Descriptors. */

struct inherited {
	bool standard[3]; /* of 0, 1 and 2: which are open */
	unsigned keep;
	bool lacks; /* the first of those to keep */
};

enum { HIGHEST = 40 };

static bool is_file(int fd, const struct stat *wanted)
{
	struct stat file;

	return fstat(fd, &file) == 0 && file.st_rdev == wanted->st_rdev &&
	       file.st_ino == wanted->st_ino;
}

static void close_inherited(const void *row)
{
	const struct inherited *inherited = row;
	struct stat zero, null;

	CHECK(stat("/dev/zero", &zero) == 0 && stat("/dev/null", &null) == 0);
	CHECK(dup2(open("/dev/zero", O_RDONLY), HIGHEST) == HIGHEST);
	for (int fd = 0; fd < HIGHEST; fd++)
		if (fd > 2 || inherited->standard[fd])
			dup2(HIGHEST, fd);
		else
			close(fd);
	if (inherited->lacks)
		close(3);
	startup_close_inherited(inherited->keep);
	/* stderr is not the test's any more: the status says it. */
	for (int fd = 0; fd <= HIGHEST; fd++) {
		const bool kept = fd < 3 + (int)inherited->keep && !(fd == 3 && inherited->lacks);
		const bool stays = fd > 2 ? kept : inherited->standard[fd];
		const bool is_null = fd <= 2 && !stays;

		if (is_file(fd, &zero) != stays || is_file(fd, &null) != is_null)
			child_end(100 + fd);
	}
}

TEST(test_inherited_descriptors)
{
	static const struct inherited rows[] = {
		{{true, true, true}, 0, false},
		{{true, true, true}, 1, false},
		{{true, true, true}, 5, false},
		{{false, true, true}, 0, false},
		{{true, false, true}, 2, false},
		{{true, true, false}, 2, false},
		{{false, false, false}, 0, false},
		{{false, false, false}, 1, false},
		{{true, true, true}, 1, true},
		{{false, true, true}, 2, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		runs(close_inherited, &rows[i], i);
}

/* Limits. */

static void raise_limits(const void *row)
{
	static const int raised[] = {RLIMIT_NOFILE, RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE};
	struct rlimit limit, stack, core = {0, 4096};

	(void)row;
	for (size_t i = 0; i < ARRAY_SIZE(raised); i++) {
		CHECK(getrlimit((__rlimit_resource_t)raised[i], &limit) == 0);
		limit.rlim_max = limit.rlim_max > 2000 ? 2000 : limit.rlim_max;
		limit.rlim_cur = limit.rlim_max / 2;
		CHECK(setrlimit((__rlimit_resource_t)raised[i], &limit) == 0);
	}
	CHECK(setrlimit(RLIMIT_CORE, &core) == 0 || errno == EPERM);
	CHECK(getrlimit(RLIMIT_STACK, &stack) == 0);
	startup_raise_limits();
	for (size_t i = 0; i < ARRAY_SIZE(raised); i++) {
		CHECK(getrlimit((__rlimit_resource_t)raised[i], &limit) == 0);
		CHECK(limit.rlim_cur == limit.rlim_max && limit.rlim_max <= 2000);
	}
	CHECK(getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_cur == 0);
	CHECK(getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur == stack.rlim_cur);
}

static void check_file_limit(const void *row)
{
	const rlim_t files = *(const rlim_t *)row;
	const struct rlimit limit = {files, files};
	const char *message = NULL;
	char number[32];

	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHECK(startup_file_limit() == files);
	if (files >= LIMIT_DESCRIPTORS_MIN) {
		CHECK(startup_check_file_limit(&message) == 0 && !message);
		return;
	}
	CHECK(startup_check_file_limit(&message) == -EMFILE);
	snprintf(number, sizeof(number), " is %u,", (unsigned)files);
	CHECK(strstr(message, number) != NULL && strstr(message, "LimitNOFILE=") != NULL);
}

TEST(test_limits)
{
	static const rlim_t files[] = {
		64, LIMIT_DESCRIPTORS_MIN - 1, LIMIT_DESCRIPTORS_MIN, LIMIT_DESCRIPTORS_MIN + 1};

	runs(raise_limits, NULL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		runs(check_file_limit, &files[i], i);
}

/* Priority. */

TEST_WITH(test_priority, NULL, NULL)
{
	static const struct {
		int nice;
		bool leads;
		unsigned busy; /* times */
		int set_nice;
		const char *autogroup; /* what is written */
		unsigned pauses;
	} rows[] = {
		{0, false, 0, -10, "", 0},
		{0, true, 0, -10, "-20", 0},
		{0, true, 2, -10, "-20", 2},
		{0, true, 100, -10, "", 5},
		/* The administrator chose one. */
		{-5, true, 0, INT32_MIN, "-20", 0},
		{5, true, 0, INT32_MIN, "", 0},
		{1, false, 0, INT32_MIN, "", 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[16] = "";

		reset(state);
		host.nice = rows[i].nice;
		host.leads_session = rows[i].leads;
		host.busy = rows[i].busy;
		assert_int_equal(pipe2(host.autogroup, O_CLOEXEC | O_NONBLOCK), 0);
		while (host.busy > 0 && write(host.autogroup[1], full, sizeof(full)) > 0)
			;
		startup_come_first();
		assert_int_equal(host.set_nice, rows[i].set_nice);
		assert_int_equal(host.pauses, rows[i].pauses);
		if (host.busy == 0 || host.pauses == host.busy) {
			(void)!read(host.autogroup[0], text, sizeof(text) - 1);
			assert_string_equal(text, rows[i].autogroup);
		}
		close(host.autogroup[0]);
		close(host.autogroup[1]);
	}
}

/* Names. */

TEST(test_names)
{
	_cleanup_free_ char *named = NULL, *numbered = NULL;
	uid_t uid = 1;

	host.euid = USER;
	named = startup_tenant_name();
	assert_string_equal(named, "cloister-test");
	host.euid = 4294967294U;
	numbered = startup_tenant_name();
	assert_string_equal(numbered, "4294967294");
	assert_int_equal(startup_find_user("missing", &uid), -ENOENT);
	assert_int_equal(uid, 1);
	assert_int_equal(startup_find_user("cloister-test", &uid), 0);
	assert_int_equal(uid, USER);
}
