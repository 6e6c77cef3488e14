// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a command, as an attacker's program, in forks of the self-test's own template: tries to
 * change what the template or a sibling shows; and in one that is a whole root, where it is uid 0
 * (root_inside), what the kernel leaves to the root of a user namespace.
 */
#include "probe/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define FILE_OF_TEMPLATE "inside/f"

static const char *shown_in_fork(void)
{
	return probe_begins(probe_read(FILE_OF_TEMPLATE), "secret") ? "shown" : "changed";
}

/* The id that the template's files have here. */
static const char *owner(void)
{
	struct statx found = {0};
	long r = RAW5(SYS_statx, AT_FDCWD, FILE_OF_TEMPLATE, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS,
		&found);

	if (r < 0)
		return probe_answer(r);
	return found.stx_uid == found.stx_gid ? probe_number((long)found.stx_uid) : "two";
}

/* A file that is open for reading is the template's own, which all forks share. */
static const char *mapping(void)
{
	long fd = RAW4(SYS_openat, AT_FDCWD, FILE_OF_TEMPLATE, O_RDONLY | O_CLOEXEC, 0);

	if (fd < 0)
		return probe_answer(fd);
	return probe_answer(
		RAW6(SYS_mmap, 0, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) < 0 ? -EACCES : 0);
}

/* Writes by what was open for reading, as far as that goes, and changes the rest by name. */
static const char *change_in_fork(void)
{
	static char path[64] = "/proc/self/fd/";
	long fd = RAW4(SYS_openat, AT_FDCWD, FILE_OF_TEMPLATE, O_RDONLY | O_CLOEXEC, 0), again,
	     made;
	char *end = path + probe_length(path);

	if (fd < 0)
		return probe_answer(fd);
	for (const char *digit = probe_number(fd); *digit; digit++)
		*end++ = *digit;
	RAW3(SYS_write, fd, "forged", 6);
	again = RAW4(SYS_openat, AT_FDCWD, path, O_WRONLY | O_TRUNC | O_CLOEXEC, 0);
	RAW3(SYS_write, again, "forged", 6);
	RAW5(SYS_setxattr, "inside", "user.overlay.opaque", "y", 1, 0);
	made = RAW4(SYS_openat, AT_FDCWD, "inside/mine", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	RAW3(SYS_unlinkat, AT_FDCWD, "in-abs", 0);
	/* A disk that is full keeps the fork's own change from being made. */
	return made == -ENOSPC || made == -EDQUOT ? probe_answer(made) : shown_in_fork();
}

static const char *link_of_template(void)
{
	static char target[64];

	return probe_answer(RAW4(SYS_readlinkat, AT_FDCWD, "in-abs", target, sizeof(target) - 1));
}

#define OPEN(function, path, flags)                 \
	static const char *function(void)           \
	{                                           \
		return probe_open((path), (flags)); \
	}

/* clang-format off */
OPEN(mine, "inside/mine", O_RDONLY)

/* bounds of kernel memory that belong to the root of the user namespace that owns the IPC one */
OPEN(shmmax, "/proc/sys/kernel/shmmax", O_WRONLY)
OPEN(msgmnb, "/proc/sys/kernel/msgmnb", O_WRONLY)
OPEN(sem, "/proc/sys/kernel/sem", O_WRONLY)
OPEN(queues_max, "/proc/sys/fs/mqueue/queues_max", O_WRONLY)
OPEN(forward, "/proc/sys/net/ipv4/ip_forward", O_WRONLY)
/* clang-format on */

static const char *own_id(void)
{
	return probe_number(RAW0(SYS_getuid));
}

static const char *mount_formats(void)
{
	return probe_answer(RAW5(SYS_mount, "none", "/tmp", "binfmt_misc", 0, 0));
}

static const char *chown_other(void)
{
	return probe_answer(RAW5(SYS_fchownat, AT_FDCWD, "probe", 1, 1, 0));
}

const struct probe probes_of_forks[] = {
	{"template-shown", shown_in_fork},
	{"template-owner", owner},
	{"template-mapping", mapping},
	{"template-change", change_in_fork},
	{"sibling-shown", shown_in_fork},
	{"sibling-owner", owner},
	{"sibling-made", mine},
	{"sibling-removed", link_of_template},
	{"root-id", own_id},
	{"root-shmmax", shmmax},
	{"root-msgmnb", msgmnb},
	{"root-sem", sem},
	{"root-queues-max", queues_max},
	{"root-ip-forward", forward},
	{"root-mount-formats", mount_formats},
	{"root-chown", chown_other},
	{NULL, NULL},
};
