// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the client. As root it gives that up for good before anything of the directory or its
 * owner is used; from then on it is that owner's process like any other and trusts them with
 * nothing of root's.
 */
#include "client/private_instance.h"

#include "client/command.h"
#include "common/cleanup.h"
#include "common/fixed_fds.h"
#include "common/host_root.h"
#include "common/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* What cloisterd needs to end a command that resists, and a little more. */
#define END_MS (LIMIT_TERM_GRACE_MS + LIMIT_KILL_REPORT_MS + 5000)

struct private_instance {
	pid_t pid;
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

/* credentials(7): groups first, while we still may. */
static int become(const struct account *account)
{
	int r;

	r = account->name ? initgroups(account->name, account->gid) : setgroups(0, NULL);
	if (r < 0 || setresgid(account->gid, account->gid, account->gid) < 0 ||
		setresuid(account->uid, account->uid, account->uid) < 0)
		return -errno;
	return 0;
}

/* Root's home and its XDG directories (sockets, state, configuration) are not the new user's. */
static int change_environment(const struct account *account)
{
	static const char *const roots[] = {"XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME",
		"XDG_CACHE_HOME", "XDG_DATA_HOME", "LOGNAME", "USER"};

	for (size_t i = 0; i < ARRAY_SIZE(roots); i++)
		unsetenv(roots[i]);
	if (setenv("HOME", account->home, 1) < 0)
		return -errno;
	if (account->name &&
		(setenv("USER", account->name, 1) < 0 || setenv("LOGNAME", account->name, 1) < 0))
		return -errno;
	return 0;
}

int private_instance_leave_root(const char *directory)
{
	struct account account = {.uid = 65534, .gid = 65534}; /* the kernel's overflow ids */
	struct stat st;
	int r;

	if (!host_root_is_us())
		return 0;
	if (directory) {
		if (stat(directory, &st) < 0) {
			r = -errno;
			complain("%s: %s", directory, strerror(errno));
			return r;
		}
		if (st.st_uid == 0) {
			complain("root owns %s, and cloister runs nothing as root: give it to an "
				 "ordinary user (chown -R USER %s) or run cloister as one",
				directory, directory);
			return -EPERM;
		}
		account.uid = st.st_uid;
		account.gid = st.st_gid != 0 ? st.st_gid : (gid_t)st.st_uid;
	}
	look_up(&account);
	r = become(&account);
	if (r == 0)
		r = change_environment(&account);
	if (r < 0)
		complain("cannot become uid %u: %s", (unsigned)account.uid, strerror(-r));
	return r;
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
 * and keeps the terminal of a root that we were out of the reach of TIOCSTI.
 */
__attribute__((noreturn)) static void exec_cloisterd(const char *path, int connection)
{
	char *const argv[] = {(char[]){"cloisterd"}, (char[]){"--connection-fd=3"}, NULL};
	sigset_t none;
	int null;

	setsid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		goto fail;
	/* dup2 onto itself would keep close-on-exec. */
	if (connection == FD_PRIVATE_CONNECTION ? fcntl(connection, F_SETFD, 0) < 0
						: dup2(connection, FD_PRIVATE_CONNECTION) < 0)
		goto fail;
	if (close_range(FD_PRIVATE_CONNECTION + 1, ~0U, 0) < 0 || chdir("/") < 0)
		goto fail;
	execv(path, argv);
fail:
	complain("cannot start %s: %s", path, strerror(errno));
	_exit(STATUS_OWN_FAILURE);
}

int private_instance_start(struct private_instance **ret_instance, int *ret_fd)
{
	_cleanup_free_ struct private_instance *instance = calloc(1, sizeof(*instance));
	_cleanup_close_ int ours = -1;
	_cleanup_close_ int theirs = -1;
	char path[PATH_MAX];
	int pair[2];
	int r;

	if (!instance)
		return -ENOMEM;
	r = find_cloisterd(path);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		goto fail;
	ours = pair[0];
	theirs = pair[1];
	instance->pid = fork();
	if (instance->pid < 0)
		goto fail;
	if (instance->pid == 0)
		exec_cloisterd(path, theirs);
	instance->pidfd = pidfd_open(instance->pid, 0); /* ours to reap, so the pid is still its */
	*ret_fd = TAKE_FD(ours);
	*ret_instance = TAKE_PTR(instance);
	return 0;
fail:
	r = -errno;
	complain("cannot start %s: %s", path, strerror(errno));
	return r;
}

void private_instance_end(struct private_instance *instance)
{
	struct pollfd end;
	int n;

	if (!instance)
		return;
	end = (struct pollfd){.fd = instance->pidfd, .events = POLLIN};
	do
		n = poll(&end, 1, END_MS);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		kill(instance->pid, SIGKILL);
	while (waitpid(instance->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close_fd(&instance->pidfd);
	free(instance);
}
