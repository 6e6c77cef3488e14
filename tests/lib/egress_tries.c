// SPDX-License-Identifier: Apache-2.0
/* Runs in the place of cloister-egress, as root with every capability, in its AppArmor profile or
 * in none: tries what a program that was taken over would, and prints a line for each, with the
 * name of the error or "done". What it is started with stays as it was. */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define OTHER 1 /* the process that it tries to trace and to signal */

extern char **environ;

static void tell(const char *name, bool is_done)
{
	printf("%s %s\n", name, is_done ? "done" : strerrorname_np(errno));
	fflush(stdout);
}

static void try_open(const char *name, const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	tell(name, fd >= 0);
	if (fd >= 0)
		close(fd);
}

static void try_socket(const char *name, int family, int type, int protocol)
{
	int fd = socket(family, type | SOCK_CLOEXEC, protocol);

	tell(name, fd >= 0);
	if (fd >= 0)
		close(fd);
}

static void try_to_execute(const char *path)
{
	char *words[] = {(char *)path, NULL};
	pid_t child;

	errno = posix_spawn(&child, path, NULL, NULL, words, environ);
	tell("execute", errno == 0);
	if (errno == 0)
		waitpid(child, NULL, 0);
}

static void try_to_leave(void)
{
	static const char unconfined[] = "changeprofile unconfined";
	int fd = open("/proc/self/attr/current", O_WRONLY | O_CLOEXEC);

	tell("leave", fd >= 0 && write(fd, unconfined, strlen(unconfined)) > 0);
	if (fd >= 0)
		close(fd);
}

int main(void)
{
	char host[64] = "";

	gethostname(host, sizeof(host) - 1);
	try_open("read-hosts", "/etc/hosts", O_RDONLY);
	try_open("read-configuration", "/etc/cloister/cloister.conf", O_RDONLY);
	try_socket("tcp", AF_INET, SOCK_STREAM, 0);
	try_socket("tcp6", AF_INET6, SOCK_STREAM, 0);
	try_socket("udp", AF_INET, SOCK_DGRAM, 0);
	try_socket("sock-diag", AF_NETLINK, SOCK_DGRAM, NETLINK_SOCK_DIAG);
	try_open("read-shadow", "/etc/shadow", O_RDONLY);
	try_open("read-state", "/var/lib/cloister/workspaces", O_RDONLY);
	try_open("read-memory", "/proc/1/environ", O_RDONLY);
	try_open("write-configuration", "/etc/cloister/cloister.conf", O_WRONLY);
	try_open("write-new", "/tmp/egress-tries", O_WRONLY | O_CREAT);
	try_to_execute("/bin/true");
	tell("trace", ptrace(PTRACE_SEIZE, OTHER, NULL, NULL) == 0);
	tell("signal", kill(OTHER, 0) == 0);
	tell("capability", sethostname(host, strlen(host)) == 0);
	tell("namespace", unshare(CLONE_NEWNS) == 0);
	tell("mount", mount("none", "/mnt", "tmpfs", 0, NULL) == 0);
	try_socket("packet", AF_PACKET, SOCK_RAW, 0);
	try_socket("raw", AF_INET, SOCK_RAW, IPPROTO_ICMP);
	try_socket("route", AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	try_to_leave();
}
