// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the worker. The caller is hostile: it can change its memory and descriptors while it
 * waits. So nothing that is looked at here is left to the caller's own system call, except
 * socket(2), whose arguments are registers.
 *
 * chmod(2) with S_ISGID: the worker has the caller's id, groups and root, and no capability that
 * concerns files. It makes the change on a descriptor of its own, for a directory as it was asked
 * and for anything else without the bit. The kernel also clears the bit without an error, for
 * callers outside the file's group (inode(7)).
 *
 * Sockets of NETLINK_ROUTE: any process may let one join multicast groups, by an argument of
 * bind(2) in memory. Each join, each end of a member and each message then goes through all members
 * of the host, with interrupts off, and nothing counts them. So a workspace has a few.
 * netlink(7), rtnetlink(7).
 */
#include "worker/commands/unotify.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/filters/filter_cookie.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define CALL_FCHMODAT2 452
#define PAGE           4096U

/* The kernel copies its own structures, which may grow. seccomp_unotify(2), "Notes" */
union request {
	struct seccomp_notif notif;
	char room[512];
};

union answer {
	struct seccomp_notif_resp resp;
	char room[512];
};

/*
 * Counts the netlink sockets of the workspace's network namespace; two can be cloisterd's (0104).
 * The lines are "PROTOCOL SIZE SOCKETS …". Returns UINT_MAX if they cannot be counted.
 * proc_pid_net(5)
 */
static unsigned count_sockets(void)
{
	FILE *lines = fopen("/proc/net/protocols", "re");
	unsigned count = UINT_MAX;
	char line[256];

	if (!lines)
		return count;
	while (fgets(line, sizeof(line), lines))
		if (sscanf(line, "NETLINK %*u %u", &count) == 1)
			break;
	fclose(lines);
	return count;
}

/* The sockets are counted anew when so many have been made as there may be. */
static int decide_socket(struct unotify *notify)
{
	if (notify->sockets >= LIMIT_NETLINK_SOCKETS)
		notify->sockets = count_sockets();
	if (notify->sockets >= LIMIT_NETLINK_SOCKETS)
		return -ENFILE;
	notify->sockets++;
	return 0;
}

/* Reads the string at @address of the process. Returns 0 or -errno. */
static int read_path(pid_t pid, uint64_t address, char path[PATH_MAX])
{
	const size_t first = PAGE - address % PAGE;
	const struct iovec to = {path, PATH_MAX};
	const uint64_t addresses[] = {address, address + first};
	struct iovec from[] = {{.iov_len = first}, {.iov_len = PATH_MAX - first}};
	ssize_t n;

	for (size_t i = 0; i < ARRAY_SIZE(from); i++)
		memcpy(&from[i].iov_base, &addresses[i], sizeof(from[i].iov_base));
	n = process_vm_readv(pid, &to, 1, from, first < PATH_MAX ? 2 : 1, 0);
	if (n < 0)
		return -errno;
	return memchr(path, '\0', (size_t)n) ? 0 : n < PATH_MAX ? -EFAULT : -ENAMETOOLONG;
}

static int open_at(const char *path)
{
	int fd = open(path, O_PATH | O_CLOEXEC);

	return fd >= 0 ? fd : errno == ENOENT ? -EBADF : -errno;
}

/* Opens what the process's descriptor @fd, or AT_FDCWD, refers to. proc_pid_fd(5) */
static int open_of(pid_t pid, int fd)
{
	char path[64];

	if (fd == AT_FDCWD)
		snprintf(path, sizeof(path), "/proc/%d/cwd", pid);
	else
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	return open_at(path);
}

/* As C libraries without fchmodat2(2) name a file that they have opened. */
static bool is_own_descriptor(const char *path, int *ret)
{
	static const char prefix[] = "/proc/self/fd/";
	char *end;
	long number;

	if (strncmp(path, prefix, sizeof(prefix) - 1) != 0 || path[sizeof(prefix) - 1] < '0' ||
		path[sizeof(prefix) - 1] > '9')
		return false;
	number = strtol(path + sizeof(prefix) - 1, &end, 10);
	if (*end != '\0' || number > INT_MAX)
		return false;
	*ret = (int)number;
	return true;
}

/* The arguments of the calls that change a mode. */
struct change {
	bool by_name;
	int directory; /* the file, if it is not named */
	uint64_t path;
	mode_t mode;
	int flags;
};

static struct change change_of(const struct seccomp_data *data)
{
	const __u64 *args = data->args;

	if (data->nr == SYS_fchmod)
		return (struct change){false, (int)args[0], 0, (mode_t)args[1], 0};
	if (data->nr == SYS_fchmodat)
		return (struct change){true, (int)args[0], args[1], (mode_t)args[2], 0};
	if (data->nr == CALL_FCHMODAT2)
		return (struct change){true, (int)args[0], args[1], (mode_t)args[2], (int)args[3]};
	return (struct change){true, AT_FDCWD, args[0], (mode_t)args[1], 0}; /* chmod(2) */
}

/*
 * Opens the file that the caller names. Links of /proc would lead to the worker's descriptors: its
 * /proc is not the caller's.
 */
static int open_named(const struct unotify *notify, pid_t pid, const struct change *change)
{
	_cleanup_close_ int directory = -1;
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
	char path[PATH_MAX];
	int fd = change->directory, r;

	if (change->flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	if (!change->by_name)
		return fd == AT_FDCWD ? -EBADF : open_of(pid, fd);
	r = read_path(pid, change->path, path);
	if (r < 0)
		return r;
	if (is_own_descriptor(path, &fd) || (path[0] == '\0' && change->flags & AT_EMPTY_PATH))
		return open_of(pid, fd);
	if (path[0] != '/') {
		directory = open_of(pid, fd);
		if (directory < 0)
			return directory;
	}
	how.flags |= change->flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0U;
	fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof(how), notify->cookie);
	return fd < 0 ? -errno : fd;
}

static bool still_waits(const struct unotify *notify, uint64_t id)
{
	return ioctl(notify->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

static int change_mode(const struct unotify *notify, const struct seccomp_notif *notif)
{
	const struct change change = change_of(&notif->data);
	_cleanup_close_ int fd = open_named(notify, (pid_t)notif->pid, &change);
	char path[32];
	struct stat stat_buf;

	if (fd < 0)
		return fd;
	/* Otherwise the files of another process may have been opened, which has its number. */
	if (!still_waits(notify, notif->id))
		return -ESRCH;
	if (fstat(fd, &stat_buf) < 0)
		return -errno;
	if (S_ISLNK(stat_buf.st_mode))
		return -EOPNOTSUPP;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (syscall(SYS_fchmodat, AT_FDCWD, path,
		    change.mode & ~(S_ISDIR(stat_buf.st_mode) ? 0U : (mode_t)S_ISGID),
		    notify->cookie) < 0)
		return -errno;
	return 0;
}

void unotify_answer(struct unotify *notify)
{
	union request request = {0};
	union answer answer = {0};
	int r;

	/* Fails if the caller has been killed meanwhile. */
	if (ioctl(notify->listener, SECCOMP_IOCTL_NOTIF_RECV, &request) < 0)
		return;
	answer.resp.id = request.notif.id;
	if (request.notif.data.nr == SYS_socket) {
		r = decide_socket(notify);
		answer.resp.flags = r == 0 ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0;
	} else {
		r = change_mode(notify, &request.notif);
	}
	answer.resp.error = r;
	(void)ioctl(notify->listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}
