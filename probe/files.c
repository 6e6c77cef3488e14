// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a command, as an attacker's program: tries to reach files, devices, mounts and sockets
 * that are not its own.
 */
#include "probe/probe.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>

#define MOUNT_NOSUID   0x0002 /* statfs(2) */
#define MOUNT_NODEV    0x0004
#define MOUNT_READONLY 0x0001

#define OPEN(function, path, flags)                 \
	static const char *function(void)           \
	{                                           \
		return probe_open((path), (flags)); \
	}

/* clang-format off */
/* kernel settings that make root of the host run a program */
OPEN(core_pattern, "/proc/sys/kernel/core_pattern", O_WRONLY)
OPEN(modprobe, "/proc/sys/kernel/modprobe", O_WRONLY)
OPEN(binfmt, "/proc/sys/fs/binfmt_misc/register", O_WRONLY)
OPEN(sysrq, "/proc/sysrq-trigger", O_WRONLY)
OPEN(uevent_helper, "/sys/kernel/uevent_helper", O_WRONLY)
OPEN(release_agent, "/sys/fs/cgroup/release_agent", O_WRONLY)
OPEN(cgroup_procs, "/sys/fs/cgroup/cgroup.procs", O_WRONLY)
OPEN(cgroup_freeze, "/sys/fs/cgroup/cgroup.freeze", O_WRONLY)
OPEN(max_namespaces_write, "/proc/sys/user/max_user_namespaces", O_WRONLY)
OPEN(kcore, "/proc/kcore", O_RDONLY)
OPEN(kmsg, "/proc/kmsg", O_RDONLY)
OPEN(timer_list, "/proc/timer_list", O_RDONLY)

/* devices */
OPEN(dev_mem, "/dev/mem", O_RDONLY)
OPEN(dev_kmsg, "/dev/kmsg", O_RDONLY)
OPEN(dev_kvm, "/dev/kvm", O_RDWR)
OPEN(dev_fuse, "/dev/fuse", O_RDWR)
OPEN(dev_tun, "/dev/net/tun", O_RDWR)
OPEN(dev_console, "/dev/console", O_RDWR)
OPEN(dev_tty, "/dev/tty", O_RDWR | O_NOCTTY)
OPEN(dev_create, "/dev/probe", O_WRONLY | O_CREAT)

/* files of the system, and files of the host that must not be visible */
OPEN(usr_write, "/usr/bin/env", O_WRONLY)
OPEN(usr_create, "/usr/probe", O_WRONLY | O_CREAT)
OPEN(etc_create, "/etc/probe", O_WRONLY | O_CREAT)
OPEN(root_create, "/probe", O_WRONLY | O_CREAT)
OPEN(preload_file, "/etc/ld.so.preload", O_WRONLY | O_CREAT)
OPEN(shadow, "/etc/shadow", O_RDONLY)
OPEN(host_root_home, "/root", O_RDONLY)
OPEN(host_var, "/var/cache", O_RDONLY)
OPEN(host_sys, "/sys/kernel", O_RDONLY)
OPEN(host_boot, "/boot", O_RDONLY)
OPEN(docker_socket, "/run/docker.sock", O_RDWR)
OPEN(dbus_socket, "/run/dbus/system_bus_socket", O_RDWR)
/* clang-format on */

static const char *mknod_device(void)
{
	return probe_answer(RAW4(SYS_mknodat, AT_FDCWD, "device", S_IFCHR | 0600, 1 << 8 | 1));
}

static const char *null_replace(void)
{
	return probe_answer(RAW3(SYS_unlinkat, AT_FDCWD, "/dev/null", 0));
}

static const char *usr_unlink(void)
{
	return probe_answer(RAW3(SYS_unlinkat, AT_FDCWD, "/usr/bin/env", 0));
}

static const char *visible_root_rename(void)
{
	return probe_answer(
		RAW5(SYS_renameat2, AT_FDCWD, "/workspace", AT_FDCWD, "/tmp/elsewhere", 0));
}

static const char *chown_root(void)
{
	return probe_answer(RAW5(SYS_fchownat, AT_FDCWD, ".", 0, 0, 0));
}

/* Whether the mounts at all places have all of @flags. */
static const char *mounts_have(const char *const *places, long flags)
{
	for (; *places; places++) {
		struct statfs file_system = {0};
		long r = RAW2(SYS_statfs, *places, &file_system);

		if (r < 0)
			return probe_answer(r);
		if ((file_system.f_flags & flags) != flags)
			return *places;
	}
	return "all";
}

static const char *mounts_nosuid(void)
{
	static const char *const places[] = {
		"/", "/usr", "/workspace", "/tmp", "/run", "/dev", NULL};

	return mounts_have(places, MOUNT_NOSUID);
}

static const char *mounts_nodev(void)
{
	static const char *const places[] = {"/", "/usr", "/workspace", "/tmp", "/run", NULL};

	return mounts_have(places, MOUNT_NODEV);
}

static const char *mounts_readonly(void)
{
	static const char *const places[] = {"/", "/usr", "/dev", NULL};

	return mounts_have(places, MOUNT_READONLY);
}

/*
 * Whether a mount propagates from elsewhere, so that a later mount there would appear here: looks
 * for propagation tags before " - " in proc_pid_mountinfo(5).
 */
static const char *mounts_private(void)
{
	static const char *const tags[] = {" shared:", " master:"};
	static char bytes[65536];
	long fd = RAW4(SYS_openat, AT_FDCWD, "/proc/self/mountinfo", O_RDONLY | O_CLOEXEC, 0);
	long len = 0, n = 0;

	while (fd >= 0 && len < (long)sizeof(bytes) - 1 &&
		(n = RAW3(SYS_read, fd, bytes + len, sizeof(bytes) - 1 - (size_t)len)) > 0)
		len += n;
	if (fd < 0 || n < 0)
		return probe_answer(fd < 0 ? fd : n);
	for (long at = 0; at < len; at++)
		for (size_t i = 0; i < sizeof(tags) / sizeof(*tags); i++)
			if (probe_begins(bytes + at, tags[i]))
				return tags[i];
	return len > 0 ? "all" : "none";
}

/* Like chmod(1) of a file and setcap(8): the attribute would stay with the file. */
static const char *file_capability(void)
{
	static const unsigned char all[20] = {1, 0, 0, 2, 0, 0, 0x20};

	return probe_answer(
		RAW5(SYS_setxattr, "set-id", "security.capability", all, sizeof(all), 0));
}

/* Counts the lines of @path after @headers of them. */
static const char *entries(const char *path, long headers)
{
	const char *text = probe_read(path);
	long lines = *text ? 1 : 0;

	if (*text == 'E')
		return text;
	for (; *text; text++)
		lines += *text == '\n';
	return lines <= headers ? "none" : probe_number(lines - headers);
}

static const char *abstract_list(void)
{
	return entries("/proc/net/unix", 1);
}

static const char *shm_segments(void)
{
	return entries("/proc/sysvipc/shm", 1);
}

static const char *message_queues(void)
{
	return entries("/proc/sysvipc/msg", 1);
}

static const char *semaphores(void)
{
	return entries("/proc/sysvipc/sem", 1);
}

static const char *connect_abstract(void)
{
	static const struct sockaddr_un address = {
		.sun_family = AF_UNIX, .sun_path = "\0/tmp/.X11-unix/X0"};
	long fd = RAW3(SYS_socket, AF_UNIX, SOCK_STREAM, 0);

	if (fd < 0)
		return probe_answer(fd);
	return probe_answer(RAW3(SYS_connect, fd, &address, sizeof(sa_family_t) + 18));
}

static const char *connect_to_host_socket(int type, uint32_t address, uint16_t port)
{
	struct sockaddr_in internet = {.sin_family = AF_INET};
	long fd = RAW3(SYS_socket, AF_INET, type | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return probe_answer(fd);
	internet.sin_addr.s_addr = __builtin_bswap32(address);
	internet.sin_port = __builtin_bswap16(port);
	return probe_answer(RAW3(SYS_connect, fd, &internet, sizeof(internet)));
}

static const char *connect_metadata(void)
{
	return connect_to_host_socket(SOCK_STREAM, 0xa9fea9fe, 80);
}

static const char *connect_world(void)
{
	return connect_to_host_socket(SOCK_DGRAM, 0x08080808, 53);
}

static const char *connect_gateway(void)
{
	return connect_to_host_socket(SOCK_STREAM, 0xac110001, 2375);
}

#define SOCKET(function, family, type, protocol)                               \
	static const char *function(void)                                      \
	{                                                                      \
		return probe_answer(RAW3(SYS_socket, family, type, protocol)); \
	}

SOCKET(socket_packet, AF_PACKET, SOCK_RAW, 0)
SOCKET(socket_netlink, AF_NETLINK, SOCK_RAW, 4) /* NETLINK_SOCK_DIAG */
SOCKET(socket_vsock, AF_VSOCK, SOCK_STREAM, 0)
SOCKET(socket_alg, AF_ALG, SOCK_SEQPACKET, 0)
SOCKET(socket_raw, AF_INET, SOCK_RAW, IPPROTO_ICMP)
SOCKET(socket_sctp, AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP)
SOCKET(socket_mptcp, AF_INET, SOCK_STREAM, 262)
SOCKET(socket_udplite, AF_INET6, SOCK_DGRAM, IPPROTO_UDPLITE)

/* Attaches kernel TLS to a TCP socket. */
static const char *socket_upper(void)
{
	long fd = RAW3(SYS_socket, AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		return probe_answer(fd);
	return probe_answer(RAW5(SYS_setsockopt, fd, IPPROTO_TCP, TCP_ULP, "tls", 3));
}

const struct probe probes_of_files[] = {
	{"core-pattern", core_pattern},
	{"modprobe", modprobe},
	{"binfmt-misc", binfmt},
	{"sysrq-trigger", sysrq},
	{"uevent-helper", uevent_helper},
	{"release-agent", release_agent},
	{"cgroup-procs", cgroup_procs},
	{"cgroup-freeze", cgroup_freeze},
	{"max-user-namespaces-write", max_namespaces_write},
	{"kcore", kcore},
	{"kmsg", kmsg},
	{"timer-list", timer_list},
	{"dev-mem", dev_mem},
	{"dev-kmsg", dev_kmsg},
	{"dev-kvm", dev_kvm},
	{"dev-fuse", dev_fuse},
	{"dev-net-tun", dev_tun},
	{"dev-console", dev_console},
	{"dev-tty", dev_tty},
	{"dev-create", dev_create},
	{"mknod", mknod_device},
	{"dev-null-replace", null_replace},
	{"usr-write", usr_write},
	{"usr-create", usr_create},
	{"usr-unlink", usr_unlink},
	{"etc-create", etc_create},
	{"root-create", root_create},
	{"ld-so-preload", preload_file},
	{"shadow", shadow},
	{"host-root-home", host_root_home},
	{"host-var", host_var},
	{"host-sys", host_sys},
	{"host-boot", host_boot},
	{"docker-socket", docker_socket},
	{"dbus-socket", dbus_socket},
	{"visible-root-rename", visible_root_rename},
	{"chown-root", chown_root},
	{"mounts-nosuid", mounts_nosuid},
	{"mounts-nodev", mounts_nodev},
	{"mounts-readonly", mounts_readonly},
	{"abstract-list", abstract_list},
	{"abstract-connect", connect_abstract},
	{"sysv-shm", shm_segments},
	{"sysv-msg", message_queues},
	{"sysv-sem", semaphores},
	{"net-metadata", connect_metadata},
	{"net-world", connect_world},
	{"net-gateway", connect_gateway},
	{"socket-packet", socket_packet},
	{"socket-netlink", socket_netlink},
	{"socket-vsock", socket_vsock},
	{"socket-alg", socket_alg},
	{"socket-raw", socket_raw},
	{"socket-sctp", socket_sctp},
	{"socket-mptcp", socket_mptcp},
	{"socket-udplite", socket_udplite},
	{"socket-upper", socket_upper},
	{"mounts-private", mounts_private},
	{"file-capability", file_capability},
	{NULL, NULL},
};
