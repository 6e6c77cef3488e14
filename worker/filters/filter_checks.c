// SPDX-License-Identifier: Apache-2.0
/*
 * Part of the build. The filters have numbers from two places: system calls from libseccomp, for
 * the processor that is built for, and constants from the headers of the machine that builds. Both
 * are compared here with the headers of the processor that is built for, by static assertions that
 * its compiler sees.
 */
#include "worker/filters/filters.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/falloc.h>
#include <linux/ioprio.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* clang-format off */
#define CALLS 1024 /* no processor's table is longer */
#define CONSTANT(name) {#name, (unsigned long long)(name)}
/* clang-format on */

static const char *const headers[] = {"errno.h", "fcntl.h", "linux/btrfs.h", "linux/falloc.h",
	"linux/ioprio.h", "linux/netlink.h", "linux/seccomp.h", "netinet/in.h", "netinet/tcp.h",
	"sched.h", "sys/ioctl.h", "sys/mman.h", "sys/mount.h", "sys/personality.h", "sys/prctl.h",
	"sys/resource.h", "sys/shm.h", "sys/socket.h", "sys/stat.h", "sys/syscall.h"};

/* Every constant in a rule; tests/once/test_build.py finds one that is missing. */
static const struct {
	const char *name;
	unsigned long long value;
} constants[] = {CONSTANT((O_TMPFILE & ~O_DIRECTORY)), CONSTANT(ADDR_NO_RANDOMIZE),
	CONSTANT(AF_INET), CONSTANT(AF_INET6), CONSTANT(AF_NETLINK), CONSTANT(AF_UNIX),
	CONSTANT(BTRFS_IOC_SNAP_CREATE), CONSTANT(BTRFS_IOC_SNAP_CREATE_V2),
	CONSTANT(BTRFS_IOC_SUBVOL_CREATE), CONSTANT(BTRFS_IOC_SUBVOL_CREATE_V2),
	CONSTANT(BTRFS_IOC_SUBVOL_SETFLAGS), CONSTANT(CLONE_NEWCGROUP), CONSTANT(CLONE_NEWIPC),
	CONSTANT(CLONE_NEWNET), CONSTANT(CLONE_NEWNS), CONSTANT(CLONE_NEWPID),
	CONSTANT(CLONE_NEWUSER), CONSTANT(CLONE_NEWUTS), CONSTANT(EINVAL), CONSTANT(ENODEV),
	CONSTANT(ENOMEM), CONSTANT(ENOPROTOOPT), CONSTANT(ENOSYS), CONSTANT(ENOTTY),
	CONSTANT(EOPNOTSUPP), CONSTANT(EPERM), CONSTANT(FALLOC_FL_KEEP_SIZE),
	CONSTANT(FALLOC_FL_PUNCH_HOLE), CONSTANT(IOPRIO_WHO_PROCESS), CONSTANT(IOPRIO_WHO_USER),
	CONSTANT(IPPROTO_IP), CONSTANT(IPPROTO_IPV6), CONSTANT(IPPROTO_TCP), CONSTANT(IPPROTO_UDP),
	CONSTANT(IPV6_JOIN_ANYCAST), CONSTANT(IPV6_JOIN_GROUP), CONSTANT(IP_ADD_MEMBERSHIP),
	CONSTANT(IP_ADD_SOURCE_MEMBERSHIP), CONSTANT(MAP_HUGETLB), CONSTANT(MCAST_JOIN_GROUP),
	CONSTANT(MCAST_JOIN_SOURCE_GROUP), CONSTANT(MFD_HUGETLB), CONSTANT(MS_NODEV),
	CONSTANT(MS_NOEXEC), CONSTANT(MS_NOSUID), CONSTANT(NETLINK_ROUTE), CONSTANT(O_CREAT),
	CONSTANT(PER_LINUX), CONSTANT(PER_LINUX32), CONSTANT(PRIO_PROCESS), CONSTANT(PRIO_USER),
	CONSTANT(PR_SET_NAME), CONSTANT(PR_SET_PDEATHSIG), CONSTANT(PR_SET_SECCOMP),
	CONSTANT(RLIMIT_CORE), CONSTANT(SECCOMP_SET_MODE_FILTER), CONSTANT(SECCOMP_SET_MODE_STRICT),
	CONSTANT(SHM_HUGETLB), CONSTANT(SHM_LOCK), CONSTANT(SOCK_DGRAM), CONSTANT(SOCK_RAW),
	CONSTANT(SOCK_STREAM), CONSTANT(SOL_SOCKET), CONSTANT(SO_ATTACH_FILTER),
	CONSTANT(SO_ATTACH_REUSEPORT_CBPF), CONSTANT(S_ISGID), CONSTANT(S_ISUID),
	CONSTANT(TCP_MD5SIG), CONSTANT(TCP_MD5SIG_EXT), CONSTANT(TCP_ULP), CONSTANT(TIOCLINUX),
	CONSTANT(TIOCSETD), CONSTANT(TIOCSTI), CONSTANT(UNAME26)};

int print_checks(FILE *out, uint32_t processor)
{
	fprintf(out, "/* Made by worker/filters/filter_checks.c. */\n");
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++)
		fprintf(out, "#include <%s>\n", headers[i]);
	for (size_t i = 0; i < ARRAY_SIZE(constants); i++)
		fprintf(out, "_Static_assert(%s == %#llx, \"%s\");\n", constants[i].name,
			constants[i].value, constants[i].name);
	for (int number = 0; number < CALLS; number++) {
		_cleanup_free_ char *name = seccomp_syscall_resolve_num_arch(processor, number);

		if (name)
			fprintf(out,
				"#ifdef SYS_%s\n_Static_assert(SYS_%s == %d, \"%s\");\n#endif\n",
				name, name, number, name);
	}
	return 0;
}
