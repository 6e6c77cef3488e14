/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A bare cell, with which the opening of a workspace is compared: one process in new namespaces,
 * whose root has the system read-only, /dev, /tmp, /proc and one directory. It executes a program
 * that reports that it runs. There is no second process, check, limit or filter. clone(2),
 * mount_namespaces(7).
 */

#include "tests/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define BARE_READY_FD 30

static inline void bare_check(long result, const char *what)
{
	if (result >= 0)
		return;
	dprintf(2, "bare cell: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static inline void bare_bind(const char *from, const char *root, bool directory)
{
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
	char to[1024];
	int tree, fd;

	snprintf(to, sizeof(to), "%s%s", root, from);
	tree = (int)syscall(SYS_open_tree, AT_FDCWD, from, OPEN_TREE_CLONE | O_CLOEXEC | 0x8000);
	if (tree < 0 && errno == ENOENT)
		return;
	bare_check(tree, from);
	if (!directory)
		attr.attr_set = 0;
	if (directory) {
		bare_check(mkdir(to, 0755), to);
	} else {
		fd = open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
		bare_check(fd, to);
		close(fd);
	}
	bare_check(
		syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | 0x8000, &attr, sizeof(attr)),
		from);
	bare_check(syscall(SYS_move_mount, tree, "", AT_FDCWD, to, MOVE_MOUNT_F_EMPTY_PATH), to);
	close(tree);
}

static inline void bare_root(const char *root, const char *workspace)
{
	static const char *const directories[] = {"/usr", "/etc/alternatives", "/etc/ssl", "/opt",
		"/var/lib", "/etc/default", "/etc/skel", "/var/cache", "/var/log", "/srv",
		"/etc/profile.d", "/etc/apt"};
	static const char *const devices[] = {
		"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};
	char path[1024];

	bare_check(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private");
	bare_check(mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755"), root);
	for (const char *const *name = (const char *const[]){"etc", "var", "dev", "tmp", "proc",
		     "workspace", NULL};
		*name; name++) {
		snprintf(path, sizeof(path), "%s/%s", root, *name);
		bare_check(mkdir(path, 0755), path);
	}
	for (size_t i = 0; i < sizeof(directories) / sizeof(*directories); i++)
		bare_bind(directories[i], root, true);
	for (size_t i = 0; i < sizeof(devices) / sizeof(*devices); i++)
		bare_bind(devices[i], root, false);
	snprintf(path, sizeof(path), "%s/lib64", root);
	bare_check(symlink("usr/lib64", path), path);
	snprintf(path, sizeof(path), "%s/lib", root);
	bare_check(symlink("usr/lib", path), path);
	snprintf(path, sizeof(path), "%s/tmp", root);
	bare_check(mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "size=64m"), path);
	snprintf(path, sizeof(path), "%s/proc", root);
	bare_check(mount("proc", path, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), path);
	snprintf(path, sizeof(path), "%s/workspace", root);
	bare_check(mount(workspace, path, NULL, MS_BIND | MS_REC, NULL), path);
	bare_check(chdir(root), root);
	bare_check(syscall(SYS_pivot_root, ".", "."), "pivot_root");
	bare_check(umount2(".", MNT_DETACH), "detach");
	bare_check(chdir("/"), "chdir");
	bare_check(sethostname("bare", 4), "sethostname");
}

static inline _Noreturn void bare_child(
	int go, int ready, int program, const char *root, const char *workspace)
{
	char *const argv[] = {(char *)"bare", NULL}, *const env[] = {NULL};
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	bare_check(read(go, &byte, 1) == 1 ? 0 : -1, "go");
	bare_check(setresgid(1000, 1000, 1000), "setresgid");
	bare_check(setresuid(1000, 1000, 1000), "setresuid");
	bare_root(root, workspace);
	bare_check(dup2(ready, BARE_READY_FD), "dup2");
	syscall(SYS_execveat, program, "", argv, env, AT_EMPTY_PATH);
	bare_check(-1, "exec");
	_exit(1);
}

static inline void bare_write(pid_t pid, const char *name, const char *text)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		bench_die(path);
	close(fd);
}

/*
 * Makes a bare cell and returns the microseconds until @program runs in it. @program writes a byte
 * to BARE_READY_FD and waits until it is killed; the time does not include its end.
 */
static inline double bare_cell_us(int program, const char *root, const char *workspace)
{
	struct clone_args args = {
		.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
			 CLONE_NEWNET,
		.exit_signal = SIGCHLD,
	};
	double began = bench_now_us(), took;
	int go[2], ready[2];
	char map[64], byte;
	long pid;

	if (pipe2(go, O_CLOEXEC) < 0 || pipe2(ready, O_CLOEXEC) < 0)
		bench_die("pipe");
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0)
		bench_die("clone3");
	if (pid == 0)
		bare_child(fcntl(go[0], F_DUPFD_CLOEXEC, 40), fcntl(ready[1], F_DUPFD_CLOEXEC, 40),
			program, root, workspace);
	close(ready[1]);
	bare_write((pid_t)pid, "setgroups", "deny");
	snprintf(map, sizeof(map), "1000 %u 1\n", getuid());
	bare_write((pid_t)pid, "uid_map", map);
	snprintf(map, sizeof(map), "1000 %u 1\n", getgid());
	bare_write((pid_t)pid, "gid_map", map);
	if (write(go[1], "g", 1) != 1 || read(ready[0], &byte, 1) != 1)
		bench_die("bare cell");
	took = bench_now_us() - began;
	kill((pid_t)pid, SIGKILL);
	waitpid((pid_t)pid, NULL, 0);
	close(go[0]);
	close(go[1]);
	close(ready[0]);
	return took;
}
