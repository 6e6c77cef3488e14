// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd before lock-down. The directory is cloister's own, and empty at first. */
#include "supervisor/host/overlay_probe.h"

#include "common/cleanup.h"
#include "common/directory_read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define INSIDE_ID 1000
/* As worker/spawner/cell/overlay_mounter.c has them, and volatile: the end does not write the disk.
 */
#define OPTIONS                                                                                  \
	"userxattr,volatile,redirect_dir=nofollow,metacopy=off,index=off,lowerdir=l,upperdir=u," \
	"workdir=w"

static bool works;
static char remedy[512] = "start cloisterd with a state directory";

static int write_map_line(const char *path, const char *line)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, line, strlen(line)) < 0 ? -1 : 0;
}

static int map_self(uid_t uid, gid_t gid)
{
	char uids[64], gids[64];

	snprintf(uids, sizeof(uids), "%d %u 1\n", INSIDE_ID, uid);
	snprintf(gids, sizeof(gids), "%d %u 1\n", INSIDE_ID, gid);
	return write_map_line("/proc/self/setgroups", "deny") < 0 ||
			       write_map_line("/proc/self/uid_map", uids) < 0 ||
			       write_map_line("/proc/self/gid_map", gids) < 0
		       ? -1
		       : 0;
}

static int touch(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	return fd < 0 ? -1 : close(fd);
}

/* Runs in a child, in the directory: a new file, a change of an old one, a deletion. */
static int try_overlay(void)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (mkdir("l", 0700) < 0 || mkdir("u", 0700) < 0 || mkdir("w", 0700) < 0 ||
		mkdir("m", 0700) < 0 || touch("l/changed") < 0 || touch("l/deleted") < 0 ||
		unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || map_self(uid, gid) < 0 ||
		mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
		mount("cloister", "m", "overlay", MS_NOSUID | MS_NODEV, OPTIONS) < 0 ||
		touch("m/made") < 0 || chmod("m/changed", 0640) < 0 || unlink("m/deleted") < 0)
		return errno;
	return 0;
}

/* Of the directory there is only what try_overlay() and the kernel have made. */
static void remove_all(int parent, const char *name, unsigned levels)
{
	const struct dirent *entry;
	DIR *directory;

	if (unlinkat(parent, name, 0) == 0 || unlinkat(parent, name, AT_REMOVEDIR) == 0 ||
		levels == 0)
		return;
	(void)!fchmodat(parent, name, 0700, 0); /* the kernel's "work" has no permissions */
	directory = directory_read(parent, name);
	if (!directory)
		return;
	while ((entry = readdir(directory)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			remove_all(dirfd(directory), entry->d_name, levels - 1);
	closedir(directory);
	(void)!unlinkat(parent, name, AT_REMOVEDIR);
}

/* Makes a directory in @state_dir or the nearest one above it. Returns its path, or NULL. */
static char *make_place(const char *state_dir)
{
	_cleanup_free_ char *nearest = strdup(state_dir);
	char *place = NULL;

	while (nearest && *nearest && access(nearest, F_OK) < 0 && strrchr(nearest, '/'))
		*strrchr(nearest, '/') = '\0';
	if (!nearest || asprintf(&place, "%s/.cloister-overlay-XXXXXX", nearest) < 0)
		return NULL;
	if (mkdtemp(place))
		return place;
	free(place);
	return NULL;
}

/* Returns the errno with which it fails; 0: it works. */
static int probe_overlay(const char *place)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return errno;
	if (pid == 0)
		_exit(chdir(place) < 0 ? errno : try_overlay());
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

void overlay_probe(const char *state_dir)
{
	_cleanup_free_ char *place = make_place(state_dir);
	int error;

	works = false;
	if (!place) {
		snprintf(remedy, sizeof(remedy),
			"this could not be tried: a directory could not be made at %s: %s",
			state_dir, strerror(errno));
		return;
	}
	error = probe_overlay(place);
	remove_all(AT_FDCWD, place, 6);
	works = error == 0;
	snprintf(remedy, sizeof(remedy),
		"the file system of the state directory carries no overlay of an unprivileged user "
		"(%s): put the state directory on ext4, XFS, btrfs or tmpfs, not on NFS, Lustre, "
		"FUSE or an overlay such as a container's root; Linux must be 5.11 or later, and "
		"namespaces must be there",
		strerror(error));
}

bool overlay_probe_works(void)
{
	return works;
}

const char *overlay_probe_remedy(void)
{
	return remedy;
}
