// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the client. As root it opens the directory, gives root up for good for the directory's
 * owner, and uses nothing of the directory before that. From then on it has the owner's id but
 * still root's terminal, environment and descriptors: the owner can neither trace it nor take a
 * descriptor of it at any instant, and the cloisterd that it starts, which the owner can trace
 * until that has locked itself down, has nothing of root's.
 */
#include "client/private_instance.h"

#include "client/command.h"
#include "client/log_relay.h"
#include "client/owned_directory.h"
#include "common/cleanup.h"
#include "common/fixed_fds.h"
#include "common/host_root.h"
#include "common/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* What cloisterd needs to end a command that resists, and a little more. */
#define END_MS (LIMIT_TERM_GRACE_MS + LIMIT_KILL_REPORT_MS + 5000)

/* Room for "--only-root=" and three numbers. */
#define ROOT_OPTION_BYTES 96

struct private_instance {
	/* Only where root was left. */
	struct owned_directory directory; /* what root named; fd -1: nothing */
	char **environment;               /* of the cloisterd */
	struct log_relay *relay;
	pid_t pid; /* 0: not started */
	int pidfd;
};

struct account {
	uid_t uid;
	gid_t gid;
	const char *name; /* NULL: not in the user database */
	const char *home;
};

/* Fills in what the user database knows of @account's uid. Valid until the next look-up. */
static void look_up(struct account *account)
{
	const struct passwd *entry = getpwuid(account->uid);

	account->home = "/";
	if (!entry)
		return;
	account->gid = entry->pw_gid;
	account->name = entry->pw_name;
	account->home = entry->pw_dir;
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

	return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

/* credentials(7): groups first, while we still may. */
static int change_ids(const struct account *account)
{
	int r = account->name ? initgroups(account->name, account->gid) : setgroups(0, NULL);

	if (r < 0 || setresgid(account->gid, account->gid, account->gid) < 0 ||
		setresuid(account->uid, account->uid, account->uid) < 0)
		return -errno;
	return 0;
}

/*
 * The user may not trace us, ptrace(2), nor use what else takes the same right (/proc/PID/fd,
 * pidfd_getfd(2), core dumps), at any instant: changing ids makes us what fs.suid_dumpable says,
 * which can be dumpable, and until we have said that we are not, we keep capabilities that the user
 * has not. Giving them up leaves the attribute as it is.
 */
static int become(const struct account *account)
{
	int r = prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ? -errno : change_ids(account);

	if (r == 0 &&
		(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) < 0))
		r = -errno;
	/* Whoever has our session keyring has its keys, whatever their owner: keyrings(7). */
	if (r == 0 && syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
		r = -errno;
	return r < 0 ? r : drop_capabilities();
}

static bool is_kept(const char *variable)
{
	static const char *const kept[] = {
		"PATH=", "LANG=", "TZ=", "ASAN_OPTIONS=", "UBSAN_OPTIONS="};

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (strncmp(variable, kept[i], strlen(kept[i])) == 0)
			return true;
	return strncmp(variable, "LC_", 3) == 0;
}

static void free_environment(char **environment)
{
	for (size_t i = 0; environment && environment[i]; i++)
		free(environment[i]);
	free(environment);
}

static bool add_variable(char **variable, const char *name, const char *value)
{
	if (asprintf(variable, "%s=%s", name, value) < 0)
		*variable = NULL;
	return *variable;
}

/* What the cloisterd is started with, which the user can read: nothing of root's but what any
 * program of the user's could know, and the user's own home and name. NULL: out of memory. */
static char **make_environment(const struct account *account)
{
	char **made, **next;
	size_t n = 0;
	bool whole;

	while (environ[n])
		n++;
	next = made = calloc(n + 4, sizeof(*made));
	whole = made && add_variable(next++, "HOME", account->home);
	if (whole && account->name)
		whole = add_variable(next++, "USER", account->name) &&
			add_variable(next++, "LOGNAME", account->name);
	for (char **variable = environ; whole && *variable; variable++)
		if (is_kept(*variable))
			whole = (*next++ = strdup(*variable));
	if (whole)
		return made;
	free_environment(made);
	return NULL;
}

/* As root: opens what @workspace names (NULL: nothing), and becomes its owner (or nobody). */
static int leave_root(struct private_instance *instance, const char *workspace)
{
	struct account account = {.uid = 65534, .gid = 65534}; /* the kernel's overflow ids */
	int r = workspace ? owned_directory_open(workspace, &instance->directory) : 0;

	if (r < 0)
		return r;
	/* A user without a name has no group either: the directory's may be one of which the user
	 * is no member. */
	if (workspace)
		account.uid = instance->directory.uid;
	look_up(&account);
	r = become(&account);
	if (r < 0) {
		complain("cannot become uid %u: %s", (unsigned)account.uid, strerror(-r));
		return r;
	}
	instance->environment = make_environment(&account);
	if (!instance->environment) {
		complain("out of memory");
		return -ENOMEM;
	}
	return 0;
}

/* Writes the path of the first cloisterd that we may execute into @path. */
static int find_cloisterd(char path[static PATH_MAX])
{
	static const char *const beside[] = {"cloisterd", "../sbin/cloisterd"};
	static const char *const installed[] = {
		CLOISTER_SBINDIR "/cloisterd", "/usr/sbin/cloisterd"};
	char self[PATH_MAX];
	char *slash;
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[len > 0 ? len : 0] = '\0';
	slash = strrchr(self, '/');
	for (size_t i = 0; slash && i < ARRAY_SIZE(beside); i++) {
		int n = snprintf(path, PATH_MAX, "%.*s/%s", (int)(slash - self), self, beside[i]);

		if (n < PATH_MAX && access(path, X_OK) == 0)
			return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(installed); i++) {
		snprintf(path, PATH_MAX, "%s", installed[i]);
		if (access(path, X_OK) == 0)
			return 0;
	}
	complain("uid %u finds no cloisterd that it may execute, neither beside this program nor "
		 "in %s "
		 "(is a directory above it closed to that user?)",
		(unsigned)geteuid(), CLOISTER_SBINDIR);
	return -ENOENT;
}

/*
 * In the child. Its own session keeps a terminal's Ctrl-C for us, who pass it on as a cancellation,
 * and keeps the terminal of a root that we were out of the reach of TIOCSTI. @errors is what it
 * writes to: after root a pipe, because the exec makes it the user's to trace.
 */
__attribute__((noreturn)) static void exec_cloisterd(
	const struct private_instance *instance, const char *path, int connection, int errors)
{
	const struct owned_directory *directory = &instance->directory;
	char root[ROOT_OPTION_BYTES];
	char *argv[] = {(char[]){"cloisterd"}, (char[]){"--connection-fd=3"}, NULL, NULL};
	sigset_t none;
	int null;

	setsid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	if (directory->fd >= 0) {
		snprintf(root, sizeof(root), "--only-root=%ju:%ju:%ju", (uintmax_t)directory->dev,
			(uintmax_t)directory->ino, (uintmax_t)directory->uid);
		argv[2] = root;
	}
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(errors, STDOUT_FILENO) < 0 ||
		dup2(errors, STDERR_FILENO) < 0)
		goto fail;
	/* dup2 onto itself would keep close-on-exec. */
	if (connection == FD_PRIVATE_CONNECTION ? fcntl(connection, F_SETFD, 0) < 0
						: dup2(connection, FD_PRIVATE_CONNECTION) < 0)
		goto fail;
	if (close_range(FD_PRIVATE_CONNECTION + 1, ~0U, 0) < 0 || chdir("/") < 0)
		goto fail;
	execve(path, argv, instance->environment ? instance->environment : environ);
fail:
	complain("cannot start %s: %s", path, strerror(errno));
	_exit(STATUS_OWN_FAILURE);
}

/* Starts it with one end of a connection, whose other end goes to @ret_fd. */
static int start(struct private_instance *instance, int *ret_fd)
{
	_cleanup_close_ int ours = -1, theirs = -1, errors = -1;
	char path[PATH_MAX];
	int pair[2];
	int r = find_cloisterd(path);

	if (r < 0)
		return r;
	if (instance->environment)
		r = log_relay_new(&instance->relay, &errors);
	if (r < 0)
		goto fail;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		r = -errno;
		goto fail;
	}
	ours = pair[0];
	theirs = pair[1];
	instance->pid = fork();
	if (instance->pid < 0) {
		r = -errno;
		instance->pid = 0;
		goto fail;
	}
	if (instance->pid == 0)
		exec_cloisterd(instance, path, theirs, errors >= 0 ? errors : STDERR_FILENO);
	instance->pidfd = pidfd_open(instance->pid, 0); /* ours to reap, so the pid is still its */
	*ret_fd = TAKE_FD(ours);
	return 0;
fail:
	complain("cannot start %s: %s", path, strerror(-r));
	return r;
}

int private_instance_start(
	const char *workspace, struct private_instance **ret_instance, int *ret_fd)
{
	struct private_instance *instance = calloc(1, sizeof(*instance));
	int r;

	if (!instance)
		return -ENOMEM;
	instance->directory.fd = instance->pidfd = -1;
	r = host_root_is_us() ? leave_root(instance, workspace) : 0;
	if (r == 0)
		r = start(instance, ret_fd);
	if (r == 0)
		*ret_instance = instance;
	else
		private_instance_end(instance);
	return r;
}

const char *private_instance_directory(const struct private_instance *instance)
{
	return instance->directory.path;
}

static void wait_for_end(const struct private_instance *instance)
{
	struct pollfd end = {.fd = instance->pidfd, .events = POLLIN};
	int n;

	do
		n = poll(&end, 1, END_MS);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		kill(instance->pid, SIGKILL);
	while (waitpid(instance->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

void private_instance_end(struct private_instance *instance)
{
	if (!instance)
		return;
	if (instance->pid > 0)
		wait_for_end(instance);
	log_relay_free(instance->relay);
	owned_directory_done(&instance->directory);
	close_fd(&instance->pidfd);
	free_environment(instance->environment);
	free(instance);
}
