// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd at start. NSS is used here and never after lock-down, because it loads
 * libraries and connects sockets.
 */
#include "supervisor/host/startup.h"

#include "common/cleanup.h"
#include "common/host_root.h"
#include "common/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <malloc.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SUPERVISOR_NICE (-10)
#define AUTOGROUP_NICE  (-20) /* 87 times a command's session */

/*
 * Keeps the capabilities that writing the spawner's id maps needs; the others go with the change of
 * user.
 */
static int keep_mapping_capabilities(void)
{
	static const cap_value_t keep[] = {CAP_SETUID, CAP_SETGID};
	cap_t kept = cap_init();
	int r = !kept || cap_set_flag(kept, CAP_PERMITTED, ARRAY_SIZE(keep), keep, CAP_SET) < 0 ||
				cap_set_flag(kept, CAP_EFFECTIVE, ARRAY_SIZE(keep), keep, CAP_SET) <
					0 ||
				cap_set_proc(kept) < 0
			? -errno
			: 0;

	if (kept)
		cap_free(kept);
	return r;
}

static int become_user(const struct passwd *entry, bool keep_mapping)
{
	if (prctl(PR_SET_KEEPCAPS, keep_mapping, 0, 0, 0) < 0 ||
		initgroups(entry->pw_name, entry->pw_gid) < 0 ||
		setresgid(entry->pw_gid, entry->pw_gid, entry->pw_gid) < 0 ||
		setresuid(entry->pw_uid, entry->pw_uid, entry->pw_uid) < 0)
		return -errno;
	if (keep_mapping && keep_mapping_capabilities() < 0)
		return -EPERM;
	/* The user must not get variables of root's. */
	setenv("HOME", entry->pw_dir, 1);
	unsetenv("XDG_RUNTIME_DIR");
	unsetenv("XDG_STATE_HOME");
	return 0;
}

int startup_leave_root(const char *user, bool keep_mapping, const char **ret_message)
{
	bool host_root = host_root_is_us();
	const struct passwd *entry;

	/*
	 * Root of a container is an ordinary user, but in system mode the spawner's maps have no
	 * room for it.
	 */
	if (geteuid() != 0 || (!host_root && !user && !keep_mapping))
		return 0;
	if (!host_root && !user) {
		*ret_message =
			"cloisterd does not run as root in system mode, not even as the root of a "
			"container: name the user to become (user = in the configuration)";
		return -EPERM;
	}
	if (!user) {
		*ret_message =
			"cloisterd does not run as root: start it as an ordinary user, or name the "
			"user to become with --user NAME";
		return -EPERM;
	}
	entry = getpwnam(user);
	if (!entry || entry->pw_uid == 0) {
		*ret_message =
			entry ? "the user to become must not be root" : "there is no such user";
		return -EINVAL;
	}
	*ret_message = "cannot become the user: cloisterd needs CAP_SETUID and CAP_SETGID for that";
	return become_user(entry, keep_mapping);
}

void startup_reset_signals(void)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		/* the kernel does not allow it for some, which need no reset */
		(void)signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

void startup_close_inherited(unsigned keep)
{
	int fd = 0;

	while (fd >= 0 && fd <= STDERR_FILENO)
		fd = open("/dev/null", O_RDWR);
	if (fd > STDERR_FILENO)
		close(fd);
	close_range(STDERR_FILENO + 1 + keep, ~0U, 0);
}

void startup_raise_limits(void)
{
	static const int limits[] = {RLIMIT_NOFILE, RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE};
	struct rlimit limit;

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		if (getrlimit((__rlimit_resource_t)limits[i], &limit) < 0)
			continue;
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit((__rlimit_resource_t)limits[i], &limit);
	}
}

uint64_t startup_file_limit(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) < 0 ? UINT64_MAX : limit.rlim_cur;
}

int startup_check_file_limit(const char **ret_message)
{
	static char message[192];
	const uint64_t limit = startup_file_limit();

	if (limit >= LIMIT_DESCRIPTORS_MIN)
		return 0;
	snprintf(message, sizeof(message),
		"the limit of open files is %llu, and cloisterd needs at least %d: raise it with "
		"ulimit -n, or with LimitNOFILE= in its unit",
		(unsigned long long)limit, LIMIT_DESCRIPTORS_MIN);
	*ret_message = message;
	return -EMFILE;
}

void startup_come_first(void)
{
	/* Without CAP_SYS_ADMIN the kernel allows ten a second for the whole host. */
	const struct timespec pause = {.tv_nsec = 100 * 1000000L};
	int nice = getpriority(PRIO_PROCESS, 0);
	_cleanup_close_ int fd = -1;

	if (nice > 0)
		return;
	if (nice == 0)
		(void)setpriority(PRIO_PROCESS, 0, SUPERVISOR_NICE);
	if (getsid(0) == getpid())
		fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
	for (int i = 0; fd >= 0 && i < 5; i++)
		if (dprintf(fd, "%d", AUTOGROUP_NICE) >= 0 || errno != EAGAIN ||
			nanosleep(&pause, NULL) < 0)
			break;
}

void startup_keep_memory(void)
{
	(void)mallopt(M_TRIM_THRESHOLD, LIMIT_MEMORY_KEPT_BYTES);
	/*
	 * Setting a threshold disables malloc's own adjustment of it; buffers of answers must stay
	 * below.
	 */
	(void)mallopt(M_MMAP_THRESHOLD, LIMIT_MEMORY_HEAP_BYTES);
}

char *startup_tenant_name(void)
{
	const struct passwd *entry = getpwuid(geteuid());
	char *name;

	if (entry)
		return strdup(entry->pw_name);
	return asprintf(&name, "%u", (unsigned)geteuid()) < 0 ? NULL : name;
}

int startup_find_user(const char *name, uid_t *ret)
{
	const struct passwd *entry = getpwnam(name);

	if (!entry)
		return -ENOENT;
	*ret = entry->pw_uid;
	return 0;
}

/* Makes every parent directory of @path. */
static int make_parents(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return 0;
}

int startup_make_parent(const char *path)
{
	_cleanup_free_ char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	return copy[0] == '\0' ? -EINVAL : make_parents(copy);
}

int startup_make_directory(const char *path, int *ret_fd)
{
	int fd, r = startup_make_parent(path);

	if (r < 0)
		return r;
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

/* Returns the pid that the holder of the lock wrote; 0: none yet. */
static long read_holder(int fd)
{
	char number[16];
	ssize_t n = pread(fd, number, sizeof(number) - 1, 0);

	number[n > 0 ? n : 0] = '\0';
	return strtol(number, NULL, 10);
}

int startup_sign_lock(int fd)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());

	return ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)len, 0) < 0 ? -errno : 0;
}

bool startup_is_lock(int state, int fd)
{
	struct stat named, given;

	return fstatat(state, "lock", &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &given) == 0 &&
	       S_ISREG(given.st_mode) && named.st_dev == given.st_dev &&
	       named.st_ino == given.st_ino;
}

int startup_lock_state(const char *directory, int *ret_fd, long *ret_holder)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;

	if (asprintf(&path, "%s/lock", directory) < 0)
		return -ENOMEM;
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return -errno;
		*ret_holder = read_holder(fd);
		return -EBUSY;
	}
	if (startup_sign_lock(fd) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}
